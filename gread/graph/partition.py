"""Partitions: parts of a graph with a halo, for training that does not fit into memory.

Nodes are sorted in reverse Cuthill-McKee order, which keeps neighbours near each other, and divided
into ranges of equal length. A part also contains its halo: the nodes within a number of hops.
If the halo has one hop more than the receptive field of the model (for the degrees of the outermost
nodes), predictions of own nodes equal those on the whole graph.
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

if TYPE_CHECKING:  # importing SciPy takes longer than an epoch on a small graph
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Part:
    """A range of nodes with its halo.

    Attributes:
        nodes: Node numbers in the graph, [n], own nodes before the halo; None for the whole graph.
        own: Number of own nodes.
        edge_index: Edges between these nodes, [2, e], as indices of ``nodes``.
        edge_weight: Edge weights, [e]; None without weights.
    """

    nodes: Tensor | None
    own: int
    edge_index: Tensor
    edge_weight: Tensor | None

    def take(self, values: Tensor) -> Tensor:
        """Rows of ``values``, strided or CSR, for the nodes of the part."""
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
    """Rows of ``x`` followed by those of ``more``, each strided or CSR, in the layout of ``x``."""
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
    """CSR tensor from valid components."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(crow, col, values, tuple(size), check_invariants=True)


def cut(data: Data, parts: int, halo: int) -> list[Part]:
    """Cut a graph into parts.

    Args:
        data: Graph with ``edge_index``, and ``edge_weight`` if edges have weights.
        parts: Number of parts; one is the graph itself.
        halo: Number of hops of the halo, along edges in either direction.

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
    """Sparse matrix of neighbours in either direction, from edges [2, E]."""
    from scipy.sparse import csr_matrix

    source, target = edges
    there = np.ones(len(source), dtype=bool)
    matrix = csr_matrix((there, (source, target)), shape=(num_nodes, num_nodes))
    return matrix + matrix.T


def cuthill_mckee(near: csr_matrix) -> NDArray[np.int64]:
    """Nodes in reverse Cuthill-McKee order."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return reverse_cuthill_mckee(near, symmetric_mode=True).astype(np.int64)


def ranges(
    near: csr_matrix, order: NDArray[np.int64], parts: int, halo: int
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the number of own nodes of each part, and its nodes with the halo."""
    for own in np.array_split(order, parts):
        inside = np.zeros(len(order), dtype=bool)
        inside[own] = True
        shells = [own]
        for _ in range(halo):
            reached = np.unique(near[shells[-1]].indices)
            shells.append(reached[~inside[reached]].astype(np.int64))
            inside[shells[-1]] = True
        yield len(own), np.concatenate(shells)
