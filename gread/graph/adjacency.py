"""The graph as a linear operator: ``adj @ h`` and ``adj.laplacian(h)``.

Two modules make the operator, from the graph alone (original, OA) or from the graph and
the first state (soft, SA). Nothing else in the library knows how a sparse product is done.

Convention: row i of Ã gathers from the neighbours j of i, so an edge ``j → i`` of
``edge_index`` (source, target) is the entry Ã[i, j].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, Protocol, overload, runtime_checkable

import numpy
import scipy.sparse.linalg
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import add_remaining_self_loops, scatter

from gread.base.checks import check_count, check_not_negative
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.graph.checks import check_edges
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.operators import attention, product
from gread.kernels.pattern import Pattern, remember
from gread.kernels.program import Program, Ran, run


@dataclass(frozen=True)
class Adjacency:
    """Ã, a sparse matrix.

    Attributes:
        pattern: Where its entries are.
        weight: The entries, row after row, [E].
        symmetric: Whether Ã is known to be its own transpose.

    Example:
        >>> path = Adjacency.from_edges(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), num_nodes=2)
        >>> path @ torch.tensor([[1.0], [5.0]])
        tensor([[5.],
                [1.]])
    """

    pattern: Pattern
    weight: Tensor
    symmetric: bool = False

    @staticmethod
    def from_edges(edge_index: Tensor, weight: Tensor, num_nodes: int) -> Adjacency:
        """Ã with the entry ``weight[e]`` for every edge, [E]."""
        source, target = edge_index
        pattern, order = Pattern.from_entries(target, source, (num_nodes, num_nodes))
        return Adjacency(pattern, weight.index_select(0, order))

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.pattern.num_columns

    def __matmul__(self, h: Tensor) -> Tensor:
        """Ã H, for H of shape [N, d]."""
        return product(self.pattern, self.weight, h)

    def laplacian(self, h: Tensor) -> Tensor:
        """L̃ H = H − Ã H."""
        return h - self @ h

    def run(self, program: Program, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
        """A program of passes with this matrix, see `gread.kernels.program.run`."""
        return run(program, self, inputs, coef)

    def total(self, sums: Tensor) -> Tensor:
        """Sums over all nodes from those over the nodes at hand, which here are all."""
        return sums

    @cached_property
    def transposed_weight(self) -> Tensor:
        """The entries column after column."""
        return self.weight if self.symmetric else self.weight.index_select(-1, self.pattern.order)

    @cached_property
    def lowest(self) -> float:
        """A bound below the eigenvalues of a symmetric Ã: the lowest and a margin, or −1.

        By Lanczos' method, where that takes no time worth mentioning.
        """
        if self.num_nodes < SMALLEST or self.weight.numel() > LARGEST:
            return -1.0
        start, column = (index.cpu().numpy() for index in self.pattern.rows)
        entries = self.weight.detach().double().cpu().numpy()
        matrix = scipy.sparse.csr_array((entries, column, start), shape=(self.num_nodes,) * 2)
        guess = numpy.cos(numpy.arange(self.num_nodes))  # any that is none of the eigenvectors
        try:
            (found,) = scipy.sparse.linalg.eigsh(
                matrix, k=1, which="SA", v0=guess, tol=MARGIN / 10, return_eigenvectors=False
            )
        except scipy.sparse.linalg.ArpackError:
            return -1.0
        return max(-1.0, float(found) - MARGIN)


SMALLEST, LARGEST = 8, 2_000_000
"""Nodes from which and entries up to which the spectrum of Ã is looked at."""

MARGIN = 0.02
"""By so much the lowest eigenvalue is rounded down."""


Normalization = Callable[[Tensor, Tensor, Tensor], Tensor]
NORMALIZATIONS: Registry[Normalization] = Registry("normalization")


@NORMALIZATIONS.register("symmetric")
def symmetric(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """D^-½ A D^-½, the paper's choice."""
    return weight * _power(row_sum, -0.5) * _power(column_sum, -0.5)


@NORMALIZATIONS.register("row")
def row(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """D^-1 A: every node takes the mean of its neighbours."""
    return weight * _power(row_sum, -1.0)


@NORMALIZATIONS.register("column")
def column(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """A D^-1: every node spreads itself evenly, as the published code does on Squirrel."""
    return weight * _power(column_sum, -1.0)


def in_one_pattern(matrices: Sequence[tuple[Pattern, Tensor]]) -> tuple[Pattern, Tensor]:
    """Several matrices of one size in a common pattern, and the entries of each, [matrices, E]."""
    n = matrices[0][0].num_columns
    places = [pattern.rows.numbers() * n + pattern.rows.column for pattern, _ in matrices]
    known = torch.cat(places).unique()
    pattern, _ = Pattern.from_entries(known // n, known % n, (n, n))
    weight = matrices[0][1].new_zeros(len(matrices), known.numel())
    for row, place, (_, entries) in zip(weight, places, matrices, strict=True):
        row.index_add_(0, torch.searchsorted(known, place), entries)
    return pattern, weight


class OriginalAdjacency(nn.Module):
    """OA: the normalised adjacency of the graph itself.

    Args:
        normalization: ``"symmetric"``, ``"row"`` or ``"column"``.
        self_loops: Weight of the loop that every node without one receives before
            normalising; 0 adds none.
        own_loops: Whether a loop of the graph itself keeps its weight; else it is ``self_loops``.
    """

    def __init__(
        self,
        *,
        normalization: str = "symmetric",
        self_loops: float = 1.0,
        own_loops: bool = True,
    ):
        super().__init__()
        check_not_negative("self_loops", self_loops)
        self.normalize = NORMALIZATIONS[normalization]
        self.self_loops = self_loops
        self.own_loops = own_loops
        self.explained = ExplainedEdges()

    def forward(
        self, h0: Tensor, edge_index: Tensor | Shared, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Ã of the graph; of ``h0`` only the size and type matter."""
        edges = edges_of(edge_index, edge_weight, h0, self.self_loops)
        if edge_weight is not None or self.explained.explain:
            return self._normalized(edges)
        key = (self.normalize, self.self_loops, self.own_loops, h0.dtype, h0.size(-2))
        kept_with = edge_index if isinstance(edge_index, Tensor) else edge_index.edge_index
        return remember(kept_with, key, lambda: edges.looked_at(self._normalized(edges)))

    def _normalized(self, edges: SomeEdges) -> Adjacency:
        rows, weight = edges.pattern.rows, edges.weight
        target, source = rows.numbers(), rows.column
        if not self.own_loops:
            weight = torch.where(target == source, self.self_loops, weight)
        row_sum = scatter(weight, target, dim_size=edges.num_nodes).index_select(0, target)
        column_sum = scatter(weight, source.long(), dim_size=edges.pattern.num_columns)
        column_sum = edges.reach(edges.collect(column_sum))
        weight = self.normalize(weight, row_sum, column_sum.index_select(0, source))
        return edges.adjacency(self.explained(weight, edges))


class SoftAdjacency(nn.Module):
    r"""SA: scaled dot-product attention over the edges.

    Ã[i, j] = mean over heads of softmax_j( q_i · k_j / √d_k ), with q, k linear in H(0) and j
    among the neighbours of i. With edge weights, Ã[i, j] ∝ w_ij exp(q_i · k_j / √d_k).

    Paper: Eq. (9), Sec. 3.2, with the root of d_k where the paper prints d_K.

    Args:
        channels: Width d of the state.
        heads: Number of attention heads.
        attention_channels: Width of all queries together; d_k is this over ``heads``.
        self_loops: Weight of the loop that every node without one receives; 0 adds none.
    """

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        attention_channels: int = 64,
        self_loops: float = 1.0,
    ):
        super().__init__()
        check_count("heads", heads)
        check_count("attention_channels", attention_channels)
        check_not_negative("self_loops", self_loops)
        if attention_channels % heads:
            raise InputError(
                f"attention_channels must be a multiple of heads ({heads}), "
                f"got {attention_channels}"
            )
        self.heads = heads
        self.self_loops = self_loops
        self.query = nn.Linear(channels, attention_channels)
        self.key = nn.Linear(channels, attention_channels)
        self.explained = ExplainedEdges()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts with equal scores, that is, with the average over the neighbours."""
        for linear in (self.query, self.key):
            linear.reset_parameters()
            nn.init.constant_(linear.weight, 1e-5)

    def forward(
        self, h0: Tensor, edge_index: Tensor | Shared, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Ã of the graph and its first state."""
        edges = edges_of(edge_index, edge_weight, h0, self.self_loops)
        plain = edge_weight is None and self.self_loops in (0, 1) and not edges.weighted
        weight = self.attend(h0, edges.pattern, None if plain else edges.weight, edges.reach)
        return edges.adjacency(self.explained(weight, edges))

    def attend(
        self,
        h0: Tensor,
        pattern: Pattern,
        weight: Tensor | None,
        reach: Callable[[Tensor], Tensor] = lambda keys: keys,
    ) -> Tensor:
        """The entries of Ã, [E].

        Args:
            h0: H(0).
            pattern: Who may attend to whom.
            weight: As in `gread.kernels.attention`.
            reach: From the keys of the rows to those of the columns, see `SomeEdges.reach`.
        """
        q = self.query(h0).unflatten(-1, (self.heads, -1))  # [N, heads, d_k]
        k = reach(self.key(h0)).unflatten(-1, (self.heads, -1))
        return attention(pattern, q, k, weight)


class ExplainedEdges(MessagePassing):
    """The door through which PyG's explainers reach our edges.

    They look for message passing modules and give them a mask over the edges of
    ``edge_index``; without an explainer this is the identity.
    """

    def forward(self, weight: Tensor, edges: SomeEdges) -> Tensor:
        """The entries of Ã, times the mask where there is one."""
        if not self.explain:
            return weight
        given = torch.empty_like(edges.order)
        given[edges.order] = torch.arange(given.numel(), device=given.device)
        masked = self.explain_message(weight[given].unsqueeze(-1), edges.num_nodes)
        return masked.squeeze(-1)[edges.order]


def build_adjacency(
    kind: str,
    channels: int,
    *,
    normalization: str,
    self_loops: float,
    heads: int,
    attention_channels: int,
) -> nn.Module:
    """The module for ``kind``, ``"original"`` (OA) or ``"soft"`` (SA); each takes what it needs."""
    kinds: Registry[Callable[[], nn.Module]] = Registry(
        "adjacency",
        {
            "original": lambda: OriginalAdjacency(
                normalization=normalization, self_loops=self_loops
            ),
            "soft": lambda: SoftAdjacency(
                channels, heads=heads, attention_channels=attention_channels, self_loops=self_loops
            ),
        },
    )
    return kinds[kind]()


class SomeEdges(Protocol):
    """The edges of a graph, or those into some of its nodes, the other ends of which may be far."""

    @property
    def pattern(self) -> Pattern:
        """A row for every node at hand, a column for each of them and then for each far end."""

    @property
    def order(self) -> Tensor:
        """Which edge stands where: the edges given, then the loops, [E]."""

    @property
    def weight(self) -> Tensor:
        """Row after row, [E]."""

    @property
    def weighted(self) -> bool:
        """Whether edges have weights of their own that nobody handed over with them."""

    @property
    def num_nodes(self) -> int:
        """Of the nodes at hand, N."""

    def reach(self, x: Tensor) -> Tensor:
        """A row for every column, from one for every node at hand."""

    def collect(self, sums: Tensor) -> Tensor:
        """Sums over all edges for every node at hand, from those over edges at hand by column."""

    def adjacency(self, weight: Tensor) -> Adjacency:
        """The matrix with these entries in the places of the edges."""

    def looked_at(self, adj: Adjacency) -> Adjacency:
        """With the knowledge whether it is symmetric, worth finding out where it is kept."""


@runtime_checkable
class Shared(Protocol):
    """A graph of which others hold the rest, in the place of ``edge_index``."""

    @property
    def edge_index(self) -> Tensor:
        """The edges at hand, [2, E], with which is kept what becomes known of them."""

    def edges(self, like: Tensor, self_loops: float) -> SomeEdges:
        """As `edges_of`, with numbers of the type of ``like``."""


class Edges(NamedTuple):
    """The edges of a graph as a sparse matrix that is not normalised yet."""

    pattern: Pattern
    order: Tensor
    """Which edge stands where: the edges given, then the loops, [E]."""
    weight: Tensor
    """Row after row, [E]."""
    weighted: bool = False

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.pattern.num_columns

    def reach(self, x: Tensor) -> Tensor:
        """As in `SomeEdges`; no end is far."""
        return x

    def collect(self, sums: Tensor) -> Tensor:
        """Likewise."""
        return sums

    def adjacency(self, weight: Tensor) -> Adjacency:
        """As in `SomeEdges`."""
        return Adjacency(self.pattern, weight)

    def looked_at(self, adj: Adjacency) -> Adjacency:
        """As in `SomeEdges`."""
        if not values_can_be_read() or not adj.pattern.symmetric:
            return adj
        same = torch.equal(adj.weight, adj.weight.index_select(0, adj.pattern.order))
        return replace(adj, symmetric=same)


@overload
def edges_of(
    edge_index: Tensor, edge_weight: Tensor | None, h0: Tensor, self_loops: float
) -> Edges: ...
@overload
def edges_of(
    edge_index: Tensor | Shared, edge_weight: Tensor | None, h0: Tensor, self_loops: float
) -> SomeEdges: ...
def edges_of(
    edge_index: Tensor | Shared, edge_weight: Tensor | None, h0: Tensor, self_loops: float
) -> SomeEdges:
    """The edges, every node with a loop if ``self_loops`` is not zero."""
    if not isinstance(edge_index, Tensor):
        return edge_index.edges(h0, self_loops)
    n = h0.size(-2)
    check_edges(edge_index, edge_weight, h0)
    if edge_weight is None:
        key = (self_loops, n, h0.dtype)
        ones = partial(h0.new_ones, edge_index.size(1))
        return remember(
            edge_index, key, lambda: _with_self_loops(edge_index, ones(), n, self_loops)
        )
    return _with_self_loops(edge_index, edge_weight, n, self_loops)


def _with_self_loops(edge_index: Tensor, weight: Tensor, n: int, self_loops: float) -> Edges:
    if self_loops:
        # Loops come last: explainers count on it.
        edge_index, weight = add_remaining_self_loops(edge_index, weight, self_loops, n)
    source, target = edge_index
    pattern, order = Pattern.from_entries(target, source, (n, n))
    return Edges(pattern, order, weight.index_select(0, order))


def _power(degree: Tensor, exponent: float) -> Tensor:
    """degree^exponent for a negative exponent, zero where the degree is zero."""
    return degree.masked_fill(degree == 0, torch.inf).pow(exponent)
