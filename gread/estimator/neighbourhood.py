"""Features of a node from its neighbourhood: degrees, features and known targets of neighbours.

No feature of a node depends on its own target: every sum over targets leaves it out, even if a
path of two edges returns to the node. Hence a network that uses only these features, and no edges,
cannot learn to copy targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gread.estimator.compression import scipy_matrix
from gread.graph.partition import sparse_tensor
from gread.kernels.operators import product
from gread.kernels.pattern import Pattern, Rows

WIDEST = 1024
"""Largest number of dense columns, times groups of edges, for which means are features."""

BLOCK = 2**21
"""Number of sums that are corrected at a time for the node's own target (16 MiB)."""


@dataclass(frozen=True)
class Neighbours:
    """Neighbours of every node along one direction of the edges, without the node itself.

    Attributes:
        matrix: 1 at [v, u] where u is a neighbour of v, [N, N], with sorted indices.
    """

    matrix: sparse.csr_matrix

    @cached_property
    def pattern(self) -> Pattern:
        """Positions of the entries of the matrix."""
        start, column = self.matrix.indptr.astype(np.int64), self.matrix.indices.astype(np.int32)
        rows = Rows(torch.from_numpy(start), torch.from_numpy(column))
        return Pattern(rows, self.matrix.shape[1])

    @property
    def degrees(self) -> Tensor:
        """Number of neighbours, [N, 1]."""
        return self.pattern.rows.start.diff().double().unsqueeze(1)

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the neighbours of each node, [N, k]."""
        ones = values.new_ones(self.pattern.rows.column.numel())
        return product(self.pattern, ones, values)

    def mean(self, values: Tensor) -> Tensor:
        """Mean over the neighbours of each node, 0 if there are none, [N, k]."""
        return self.sum(values) / self.degrees.clamp_min(1)

    def targets(self, sums: Tensor) -> Tensor:
        """Mean known target of the neighbours, and the share of those that are known, [N, k + 1].

        Args:
            sums: `sum` of the targets of known nodes and a column of ones, 0 for other nodes,
                [N, k + 1].
        """
        return _mean_and_share(sums, self.degrees)

    def targets_around(self, others: Neighbours, sums: Tensor, known: Tensor) -> Tensor:
        """Mean over neighbours u of the mean known target around u, without the node's own.

        The node's target is subtracted for each u before any division: the sums of classes and
        labels are whole numbers, so the result does not depend on it, not even by rounding.

        Args:
            others: Neighbours of u to average over.
            sums: `sum` over ``others`` of ``known``.
            known: Targets of known nodes and a column of ones, 0 for other nodes, [N, k + 1].
        """
        start, around = self.pattern.rows
        own, back = self.pattern.rows.numbers(), self._returns(others).double()
        counts = sums[:, -1][around] - back * known[:, -1][own]
        weight = counts.clamp_min(1).reciprocal()
        found = torch.zeros_like(known)
        for first, last in pairwise(_row_blocks(start, max(1, BLOCK // known.size(1)))):
            edges = slice(int(start[first]), int(start[last]))
            taken = known.index_select(0, own[edges]).mul_(back[edges].unsqueeze(1))
            left = sums.index_select(0, around[edges]).sub_(taken)
            block = Rows(start[first : last + 1] - edges.start, torch.arange(len(left)).int())
            found[first:last] = product(Pattern(block, len(left)), weight[edges], left)
        return _mean_and_share(found, self.degrees)

    def _returns(self, others: Neighbours) -> Tensor:
        """Whether v is among the ``others`` of u, for each entry [v, u], [E]."""
        entries, wanted = _codes(others.matrix.T.tocsr()), _codes(self.matrix)
        return entries[torch.searchsorted(entries, wanted).clamp_max(len(entries) - 1)] == wanted


def _row_blocks(start: Tensor, entries: int) -> list[int]:
    """Bounds of blocks of rows with about ``entries`` entries, without leading empty rows."""
    marks = torch.arange(0, int(start[-1]), entries)
    found = torch.searchsorted(start, marks, right=True) - 1
    return [*found.unique_consecutive().tolist(), len(start) - 1]


def _codes(matrix: sparse.csr_matrix) -> Tensor:
    """One number for every entry, ascending if indices are sorted."""
    nodes = matrix.shape[0]
    rows = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(matrix.indptr))
    return torch.from_numpy(rows * nodes + matrix.indices)


def _mean_and_share(sums: Tensor, total: Tensor) -> Tensor:
    """Divide sums of targets by their number (the last column), which becomes a share."""
    means, number = sums[:, :-1], sums[:, -1:]
    return torch.cat([means / number.clamp_min(1), number / total.clamp_min(1)], dim=1)


def directions(edge_index: Tensor, nodes: int, directed: bool) -> list[Neighbours]:
    """Neighbours along incoming edges and, if edges have directions, along outgoing ones."""
    source, target = edge_index.cpu().numpy()
    other = source != target
    entries = np.ones(other.sum()), (target[other], source[other])
    matrix = sparse.csr_matrix(entries, shape=(nodes, nodes))
    matrix.data[:] = 1.0
    incoming = Neighbours(matrix)
    return [incoming, Neighbours(matrix.T.tocsr())] if directed else [incoming]


def surroundings(
    groups: Sequence[Sequence[Neighbours]], x: Tensor, known: Tensor, targets: Tensor
) -> Tensor:
    """Degrees, means of neighbours' features, and targets of known nodes up to two edges away.

    Columns without targets have mean 0 and deviation 1. Columns of targets are not scaled: their
    mean would include the node's own target.

    Args:
        groups: `directions` of all edges and, if edges have types, of those of each type. Paths of
            two edges are within a group.
        x: Features, [N, F]. Means are not computed for wide or sparse features.
        known: Nodes whose targets may be used, [N].
        targets: Targets of every node, of order 1, arbitrary where unknown, [N, k].

    Returns:
        Features to append to ``x``, [N, G].
    """
    count = known.double().unsqueeze(1)
    given = torch.cat([targets.double() * count, count], dim=1).cpu()
    narrow = x.layout is torch.strided and x.size(1) * len(groups) <= WIDEST
    features = [x.double().cpu()] if narrow else []
    plain: list[Tensor] = []
    found: list[Tensor] = []
    for ways in groups:
        degrees = torch.cat([way.degrees for way in ways], dim=1).log1p()
        plain += [degrees, *(way.mean(one) for one in (degrees, *features) for way in ways)]
        both = [(way, way.sum(given)) for way in ways]
        found += [way.targets(sums).float() for way, sums in both]
        found += [
            way.targets_around(other, sums, given).float() for way in ways for other, sums in both
        ]
    columns = torch.cat(plain, dim=1)
    deviation = columns.std(dim=0, correction=0)
    scaled = (columns - columns.mean(dim=0)) / torch.where(deviation > 0, deviation, 1)
    return torch.cat([scaled.float(), *found], dim=1).to(x.device)


def joined(x: Tensor, more: Tensor) -> Tensor:
    """Append dense columns to dense or sparse features."""
    if x.layout is torch.strided:
        return torch.cat([x, more], dim=1)
    whole = sparse.hstack([scipy_matrix(x), more.numpy()], format="csr")
    pointers, columns = (
        torch.from_numpy(p.astype(np.int64)) for p in (whole.indptr, whole.indices)
    )
    return sparse_tensor(pointers, columns, torch.from_numpy(whole.data), torch.Size(whole.shape))
