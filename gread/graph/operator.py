"""The graph as a linear operator: ``adj @ h`` and ``adj.laplacian(h)``.

Dynamics and models use an `Operator`. `Adjacency` is an operator whose entries are all in this
process; `gread.distributed.operator.ShardOperator` holds the rows of a shard.

Convention: row i of Ã gathers from the neighbours j of i, so an edge ``j → i`` of
``edge_index`` (source, target) is the entry Ã[i, j].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops

from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.interpreter import run
from gread.kernels.operators import product
from gread.kernels.pattern import Pattern
from gread.kernels.program import Program, Ran


class Operator(Protocol):
    """Ã as a linear map on the states of the N nodes in this process."""

    @property
    def num_nodes(self) -> int:
        """Number N of nodes."""

    @property
    def weight(self) -> Tensor:
        """Entries [E]; gradients of the parameters of Ã pass through them."""

    @property
    def symmetric(self) -> bool:
        """Whether Ã is known to be symmetric."""

    @property
    def lowest(self) -> float:
        """Lower bound of the eigenvalues of a symmetric Ã, at least −1."""

    @property
    def whole(self) -> bool:
        """Whether the N nodes are all nodes of the graph."""

    def __matmul__(self, h: Tensor) -> Tensor:
        """Product Ã H for H [N, d]."""

    def laplacian(self, h: Tensor) -> Tensor:
        """Laplacian L̃ H = H − Ã H."""

    def run(self, program: Program, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
        """Run a program of passes with Ã; sums are over the N nodes."""

    def total(self, sums: Tensor) -> Tensor:
        """Differentiable sum over all nodes of the graph, from sums over the N nodes."""


@dataclass(frozen=True)
class Adjacency:
    """The sparse matrix Ã of a whole graph, an `Operator`.

    Attributes:
        pattern: Positions of the entries.
        weight: Entries in row order, [E].
        symmetric: Whether Ã is known to be symmetric.

    Example:
        >>> path = Adjacency.from_edges(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), num_nodes=2)
        >>> path @ torch.tensor([[1.0], [5.0]])
        tensor([[5.],
                [1.]])
    """

    pattern: Pattern
    weight: Tensor
    symmetric: bool = False

    whole = True
    """All nodes of the graph are in this process."""

    @staticmethod
    def from_edges(edge_index: Tensor, weight: Tensor, num_nodes: int) -> Adjacency:
        """Build Ã with the entry ``weight[e]`` for every edge e."""
        pattern, _, entries = entries_of(edge_index, weight, (num_nodes, num_nodes), self_loops=0)
        return Adjacency(pattern, entries)

    @property
    def num_nodes(self) -> int:
        """Number N of nodes."""
        return self.pattern.num_columns

    def __matmul__(self, h: Tensor) -> Tensor:
        """Product Ã H for H [N, d]."""
        fixed = not self.weight.requires_grad
        return product(
            self.pattern, self.weight, h, (lambda: self.transposed_weight) if fixed else None
        )

    def laplacian(self, h: Tensor) -> Tensor:
        """Laplacian L̃ H = H − Ã H."""
        return h - self @ h

    def run(self, program: Program, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
        """Run a program of passes with this matrix, see `gread.kernels.interpreter.run`."""
        return run(program, self, inputs, coef)

    def total(self, sums: Tensor) -> Tensor:
        """Return the sums unchanged, since all nodes are in this process."""
        return sums

    @cached_property
    def transposed_weight(self) -> Tensor:
        """Entries in column order."""
        return self.weight if self.symmetric else self.weight.index_select(-1, self.pattern.order)

    @cached_property
    def lowest(self) -> float:
        """Lower bound of the eigenvalues of a symmetric Ã: the smallest minus a margin, or −1.

        The Lanczos method computes it on graphs where that takes negligible time.
        """
        if self.num_nodes < SMALLEST or self.weight.numel() > LARGEST:
            return -1.0
        import numpy
        import scipy.sparse.linalg

        start, column = (index.cpu().numpy() for index in self.pattern.rows)
        entries = self.weight.detach().double().cpu().numpy()
        matrix = scipy.sparse.csr_array((entries, column, start), shape=(self.num_nodes,) * 2)
        guess = numpy.cos(numpy.arange(self.num_nodes))  # start vector that is not an eigenvector
        try:
            (found,) = scipy.sparse.linalg.eigsh(
                matrix, k=1, which="SA", v0=guess, tol=MARGIN / 10, return_eigenvectors=False
            )
        except scipy.sparse.linalg.ArpackError:
            return -1.0
        return max(-1.0, float(found) - MARGIN)


SMALLEST, LARGEST = 8, 2_000_000
"""Smallest number of nodes and largest number of entries for which `lowest` is computed."""

MARGIN = 0.02
"""Margin subtracted from the smallest eigenvalue."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges into the nodes of this process, as a sparse matrix without normalization.

    In this class, the process has the whole graph. Edges of a shard also have columns for its halo.

    Attributes:
        pattern: One row per node, and one column per node, then per node of the halo.
        order: Index of the edge of every entry, [E]; added self loops follow the given edges.
        weight: Weights in row order, [E].
        weighted: Whether the weights come from a shard instead of an argument.
        looped: Whether every node has one self loop, and these follow all other edges.
    """

    pattern: Pattern
    order: Tensor
    weight: Tensor
    weighted: bool = False
    looped: bool = False

    @property
    def num_nodes(self) -> int:
        """Number N of nodes."""
        return self.pattern.rows.start.numel() - 1

    def reach(self, x: Tensor) -> Tensor:
        """Rows for every column, from rows for every node."""
        return x

    def collect(self, sums: Tensor) -> Tensor:
        """Sums over all edges for every node, from the sums of this process by column."""
        return sums

    def operator(self, weight: Tensor, *, find_symmetry: bool = False) -> Operator:
        """Operator with the entries [E] at the positions of the edges.

        Args:
            weight: The entries.
            find_symmetry: Whether to compare it with its transpose; worthwhile if it is reused.
        """
        same = find_symmetry and values_can_be_read() and self.pattern.symmetric
        same = same and torch.equal(weight, weight.index_select(0, self.pattern.order))
        return Adjacency(self.pattern, weight, same)


@runtime_checkable
class EdgeSource(Protocol):
    """Interface of a shard, which models accept in place of ``edge_index``."""

    @property
    def edge_index(self) -> Tensor:
        """Edges into the nodes of this process, [2, E]; results are cached with this tensor."""

    def edges(self, like: Tensor, self_loops: float) -> Edges:
        """See `gread.graph.adjacency.edges_of`; weights have the type of ``like``."""


def entries_of(
    edge_index: Tensor, weight: Tensor, shape: tuple[int, int], self_loops: float
) -> tuple[Pattern, Tensor, Tensor]:
    """Pattern of the edges as a matrix, their order in it, and its entries; see `Edges`.

    Args:
        edge_index: Sources and targets, [2, E].
        weight: Weight of every edge, [E].
        shape: Number of rows (targets) and columns (sources).
        self_loops: Weight of the self loop that is added to every target without one; 0 adds none.
    """
    if self_loops:
        # Self loops come last, as explainers expect.
        edge_index, weight = add_remaining_self_loops(edge_index, weight, self_loops, shape[0])
    source, target = edge_index
    pattern, order = Pattern.from_entries(target, source, shape)
    return pattern, order, weight.index_select(0, order)


def in_one_pattern(matrices: Sequence[tuple[Pattern, Tensor]]) -> tuple[Pattern, Tensor]:
    """Common pattern of several matrices of one size, and the entries of each, [matrices, E]."""
    n = matrices[0][0].num_columns
    places = [pattern.rows.numbers() * n + pattern.rows.column for pattern, _ in matrices]
    known = torch.cat(places).unique()
    pattern, _ = Pattern.from_entries(known // n, known % n, (n, n))
    weight = matrices[0][1].new_zeros(len(matrices), known.numel())
    for row, place, (_, entries) in zip(weight, places, matrices, strict=True):
        row.index_add_(0, torch.searchsorted(known, place), entries)
    return pattern, weight
