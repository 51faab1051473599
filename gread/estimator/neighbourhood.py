"""Features of a node from its neighbourhood: degrees, features and known targets of neighbours.

No feature of a node depends on its own target: every sum over targets leaves it out, also where a
path of two edges returns to the node. Hence a network that sees these features alone, and no edge,
cannot learn to copy targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from gread.estimator.compression import scipy_matrix
from gread.estimator.scores import Figures
from gread.graph.partition import sparse_tensor

WIDEST = 1024
"""Columns of dense features up to which the means of neighbours' features are features too."""


@dataclass(frozen=True)
class Neighbours:
    """Neighbours of every node along one direction of the edges, without the node itself.

    Attributes:
        matrix: 1 at [v, u] where u is a neighbour of v, [N, N].
    """

    matrix: sparse.csr_matrix

    @property
    def degrees(self) -> Figures:
        """Number of neighbours, [N, 1]."""
        return np.diff(self.matrix.indptr).astype(float)[:, None]

    def mean(self, values: Figures) -> Figures:
        """Mean over the neighbours of each node, 0 where there are none, [N, k]."""
        found: Figures = (self.matrix @ values) / np.maximum(self.degrees, 1)
        return found

    def targets(self, known: Figures) -> Figures:
        """Mean known target of the neighbours, and how many of them are known, [N, k + 1].

        Args:
            known: Targets of known nodes and a column of ones, 0 for the others, [N, k + 1].
        """
        return _mean_and_share(self.matrix @ known, self.degrees)

    def targets_around(self, others: Neighbours, known: Figures) -> Figures:
        """Mean over neighbours u of the mean known target around u, without the node's own.

        Args:
            others: Neighbours of u that count.
            known: As for `targets`.
        """
        nodes = len(known)
        own, around = (
            np.repeat(np.arange(nodes), np.diff(self.matrix.indptr)),
            self.matrix.indices,
        )
        back = np.isin(around * nodes + own, _codes(others.matrix), assume_unique=True)
        # Columns are contiguous: a gather from one of them stays in the cache.
        sums, given = (np.ascontiguousarray(m.T) for m in (others.matrix @ known, known))
        counts = sums[-1][around] - back * given[-1][own]
        sure = np.maximum(counts, 1)
        columns = [
            (all_of[around] - back * own_of[own]) / sure
            for all_of, own_of in zip(sums, given, strict=True)
        ]
        columns[-1] = (counts > 0).astype(float)
        added = [np.bincount(own, weights=column, minlength=nodes) for column in columns]
        return _mean_and_share(np.stack(added, axis=1), self.degrees)


def _codes(matrix: sparse.csr_matrix) -> NDArray[np.int64]:
    """One number for every entry."""
    nodes = matrix.shape[0]
    rows = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(matrix.indptr))
    return rows * nodes + matrix.indices


def _mean_and_share(sums: Figures, total: Figures) -> Figures:
    """Sums of targets divided by their number, the last column, and that number as a share."""
    return np.hstack(
        [sums[:, :-1] / np.maximum(sums[:, -1:], 1), sums[:, -1:] / np.maximum(total, 1)]
    )


def directions(edge_index: Tensor, nodes: int, directed: bool) -> list[Neighbours]:
    """Neighbours along incoming edges and, if edges have directions, along outgoing ones."""
    source, target = edge_index.cpu().numpy()
    matrix = sparse.csr_matrix((np.ones(len(source)), (target, source)), shape=(nodes, nodes))
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.data[:] = 1.0
    incoming = Neighbours(matrix)
    return [incoming, Neighbours(matrix.T.tocsr())] if directed else [incoming]


def surroundings(
    groups: Sequence[Sequence[Neighbours]], x: Tensor, known: Tensor, targets: Tensor
) -> Tensor:
    """Degrees, means of neighbours' features, and targets of known nodes up to two edges away.

    Columns without targets have mean 0 and deviation 1. Those of targets are not scaled: their mean
    would have a share of the node's own.

    Args:
        groups: `directions` of all edges and, if edges have types, of those of each type. Paths of
            two edges are within a group.
        x: Features, [N, F]; of wide or sparse ones no means are taken.
        known: Nodes whose targets may be used, [N].
        targets: Of every node, of the order of 1, anything where unknown, [N, k].

    Returns:
        Features that join ``x``, [N, G].
    """
    count = known.double().unsqueeze(1)
    given = torch.cat([targets.double() * count, count], dim=1).cpu().numpy()
    narrow = x.layout is torch.strided and x.size(1) * len(groups) <= WIDEST
    features = [x.double().cpu().numpy()] if narrow else []
    plain, found = [], []
    for ways in groups:
        degrees = np.log1p(np.hstack([way.degrees for way in ways]))
        plain += [degrees, *(way.mean(one) for one in (degrees, *features) for way in ways)]
        found += [way.targets(given) for way in ways]
        found += [one.targets_around(other, given) for one, other in product(ways, ways)]
    columns = np.hstack(plain)
    deviation = columns.std(axis=0)
    scaled = (columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return torch.from_numpy(np.hstack([scaled, *found])).float().to(x.device)


def joined(x: Tensor, more: Tensor) -> Tensor:
    """Columns of dense or sparse features, and dense ones behind them."""
    if x.layout is torch.strided:
        return torch.cat([x, more], dim=1)
    whole = sparse.hstack([scipy_matrix(x), more.numpy()], format="csr")
    pointers, columns = (
        torch.from_numpy(p.astype(np.int64)) for p in (whole.indptr, whole.indices)
    )
    return sparse_tensor(pointers, columns, torch.from_numpy(whole.data), torch.Size(whole.shape))
