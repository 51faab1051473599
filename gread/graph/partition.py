"""A graph in parts, each with a halo: for graphs on which a model does not fit into memory.

Nodes are put in the order of reverse Cuthill and McKee, in which neighbours are near each other,
and cut into ranges of equal length. A part also has the nodes within some hops of its own. Where
these are as many as a model looks, and one more for the degrees of the outermost, what it says of
the part's own nodes is what it says on the whole graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.errors import InputError

if TYPE_CHECKING:  # SciPy takes longer to import than a small graph to train
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Part:
    """Nodes of a graph, and those around them.

    Attributes:
        nodes: Their numbers in the graph, [n], the part's own before those of the halo; None for
            the whole graph.
        own: How many are its own.
        edge_index: The edges between them, [2, e], by places in ``nodes``.
        edge_weight: Their weights, [e], where the graph has some.
    """

    nodes: Tensor | None
    own: int
    edge_index: Tensor
    edge_weight: Tensor | None

    def take(self, values: Tensor) -> Tensor:
        """The rows of the part's nodes among those of the graph, strided or CSR."""
        if self.nodes is None:
            return values
        if values.layout is torch.sparse_csr:
            return take_rows(values, self.nodes)
        return values.index_select(0, self.nodes)


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of a CSR tensor."""
    start, counts = x.crow_indices()[rows], x.crow_indices().diff()[rows]
    ends = counts.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    first = (start - ends + counts).repeat_interleave(counts, output_size=total)
    entries = first + torch.arange(total, device=x.device)
    crow = torch.cat([ends.new_zeros(1), ends])
    size = (len(rows), x.size(1))
    return sparse_tensor(crow, x.col_indices()[entries], x.values()[entries], size)


def stack_rows(x: Tensor, more: Tensor) -> Tensor:
    """The rows of ``x`` and of ``more``, each strided or CSR, in the layout of ``x``."""
    if x.layout is not torch.sparse_csr:
        return torch.cat([x, more.to_dense() if more.layout is torch.sparse_csr else more])
    if more.layout is not torch.sparse_csr:
        rows, columns = more.nonzero(as_tuple=True)
        counts = torch.bincount(rows, minlength=more.size(0)).cumsum(0)
        crow = torch.cat([counts.new_zeros(1), counts])
        more = sparse_tensor(crow, columns, more[rows, columns], more.shape)
    crow = torch.cat([x.crow_indices(), x.values().numel() + more.crow_indices()[1:]])
    col = torch.cat([x.col_indices(), more.col_indices()])
    size = (x.size(0) + more.size(0), x.size(1))
    return sparse_tensor(crow, col, torch.cat([x.values(), more.values()]), size)


def sparse_tensor(crow: Tensor, col: Tensor, values: Tensor, size: Sequence[int]) -> Tensor:
    """A CSR tensor of parts that are checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(crow, col, values, tuple(size), check_invariants=True)


def cut(data: Data, parts: int, halo: int) -> list[Part]:
    """Cut a graph into parts.

    Args:
        data: With ``edge_index``, and ``edge_weight`` where edges have weights.
        parts: How many; one is the graph itself.
        halo: Hops around each, along edges in either direction.

    Example:
        >>> import gread
        >>> parts = cut(gread.load("grid", height=40, width=10), parts=4, halo=2)
        >>> [(part.own, len(part.nodes)) for part in parts]
        [(100, 120), (100, 140), (100, 140), (100, 120)]
    """
    check_count("parts", parts)
    check_count("halo", halo, minimum=0)
    if parts > data.num_nodes:
        raise InputError(f"parts must be at most the {data.num_nodes} nodes, got {parts}")
    if parts == 1:
        return [Part(None, data.num_nodes, data.edge_index, data.edge_weight)]
    edges, device = data.edge_index.cpu().numpy(), data.edge_index.device
    near = neighbours(edges, data.num_nodes)
    place = np.empty(data.num_nodes, dtype=np.int64)
    found = []
    for own, nodes in ranges(near, cuthill_mckee(near), parts, halo):
        place.fill(-1)
        place[nodes] = np.arange(len(nodes))
        source, target = place[edges]
        kept = np.flatnonzero((source >= 0) & (target >= 0))
        inside = torch.from_numpy(np.stack([source[kept], target[kept]])).to(device)
        weight = data.edge_weight
        if weight is not None:
            weight = weight[torch.from_numpy(kept).to(device)]
        found.append(Part(torch.from_numpy(nodes).to(device), own, inside, weight))
    return found


def neighbours(edges: NDArray[np.int64], num_nodes: int) -> csr_matrix:
    """Who is whose neighbour, in either direction, of edges [2, E]."""
    source, target = edges
    there = np.ones(len(source), dtype=bool)
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((there, (source, target)), shape=(num_nodes, num_nodes))
    return matrix + matrix.T


def cuthill_mckee(near: csr_matrix) -> NDArray[np.int64]:
    """The nodes in an order in which neighbours are near each other."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return reverse_cuthill_mckee(near, symmetric_mode=True).astype(np.int64)


def ranges(
    near: csr_matrix, order: NDArray[np.int64], parts: int, halo: int
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """How many nodes each part has of its own, and these with those around them."""
    for own in np.array_split(order, parts):
        inside = np.zeros(len(order), dtype=bool)
        inside[own] = True
        shells = [own]
        for _ in range(halo):
            reached = np.unique(near[shells[-1]].indices)
            shells.append(reached[~inside[reached]].astype(np.int64))
            inside[shells[-1]] = True
        yield len(own), np.concatenate(shells)
