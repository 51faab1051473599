"""Structural multigraph of WRGAT: pairs of nodes with similar neighbourhoods (struc2vec).

Ring k of a node contains the nodes at distance k. Two nodes are similar up to ring k if the sorted
degrees in their rings 0 to k are similar under dynamic time warping. There is one relation for each
k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import softmax

from gread.base.checks import check_count
from gread.graph.structure.hops import adjacency_matrix, hops_from

RINGS = 5
"""Number of rings, the node itself included; the authors use up to ten, or all."""

BAND = 10
"""Half-width of the warping band; with at most this many degrees the result is exact."""

SOURCES = 512
"""Number of nodes whose rings are computed together, with N values each."""

PAIRS = 20_000
"""Number of pairs that are compared together."""

Numbers = NDArray[np.float64]
Nodes = NDArray[np.int64]


def multigraph(data: Data) -> Mapping[str, Tensor]:
    """Pairs ``multigraph_index`` [2, P], their ``multigraph_type`` and ``multigraph_weight``."""
    index, kind, weight = structural_multigraph(data.edge_index, int(data.num_nodes))
    return {"multigraph_index": index, "multigraph_type": kind, "multigraph_weight": weight}


def structural_multigraph(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs (source, target) in both directions, their relations 1 to `RINGS`, and weights.

    Every node is compared with the 2 log₂ N other nodes of the most similar degree. Weights are
    exp(−distance), normalized to sum 1 over the pairs into a node in every relation. A pair is in
    relation k + 1 if both nodes have a ring k. Nodes without edges are not compared.
    """
    check_count("the number of nodes", num_nodes)
    adj = adjacency_matrix(edge_index, num_nodes)
    rings = _rings(adj)
    one, other = _candidates(rings, _fingerprints(adj))
    parts: list[tuple[Nodes, Nodes, Nodes, Numbers]] = []
    distance = np.zeros(len(one))
    for number, ring in enumerate(rings, start=1):
        both = (ring.length[one] > 0) & (ring.length[other] > 0)
        one, other = one[both], other[both]
        distance = distance[both] + _distances(ring, one, other)
        kind = np.full(len(one), number)
        parts += [(one, other, kind, distance), (other, one, kind, distance)]
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    source, target, kinds, distances = map(torch.from_numpy, columns)
    group = target * (RINGS + 1) + kinds
    weight = softmax(-distances, group, num_nodes=num_nodes * (RINGS + 1)).float()
    device = edge_index.device
    return torch.stack([source, target]).to(device), kinds.to(device), weight.to(device)


class Ring(NamedTuple):
    """Ring k of every node: its distinct degrees in ascending order, and their counts."""

    degree: Numbers
    """[N, longest], padded with zeros."""
    often: Numbers
    length: Nodes
    """Number of distinct degrees, [N]."""


def _rings(adj: scipy.sparse.csr_array) -> list[Ring]:
    n = adj.shape[0]
    degrees, which = np.unique(np.diff(adj.indptr), return_inverse=True)
    known = np.zeros((n, len(degrees)), np.float32)
    known[np.arange(n), which] = 1
    counts = np.zeros((RINGS, n, len(degrees)), np.float32)
    for start in range(0, n, SOURCES):
        sources = np.arange(start, min(n, start + SOURCES))
        hops = hops_from(adj, sources, limit=RINGS - 1)
        for number in range(RINGS):
            counts[number, sources] = (hops == number).astype(np.float32) @ known
    counts[:, degrees[which] == 0] = 0  # nodes without edges
    return [_listed(degrees, count) for count in counts]


def _listed(degrees: Nodes, counts: NDArray[np.float32]) -> Ring:
    length = (counts > 0).sum(axis=1)
    order = np.argsort(counts == 0, axis=1, kind="stable")[:, : max(1, length.max(initial=0))]
    count = np.take_along_axis(counts, order, axis=1).astype(np.float64)
    return Ring(np.where(count > 0, degrees[order], 0.0), count, length)


def _fingerprints(adj: scipy.sparse.csr_array) -> Numbers:
    """A hash of the neighbourhood of every node, independent of the order of nodes."""
    mark: Numbers = np.diff(adj.indptr).astype(np.float64)
    for _ in range(RINGS):
        mark = (mark + adj @ np.cos(mark)).round(9)  # later digits depend on the order of summation
    return mark


def _candidates(rings: list[Ring], fingerprint: Numbers) -> tuple[Nodes, Nodes]:
    """Pairs to compare, each once.

    Many nodes share a degree. Nodes whose rings are similar in size and total degree come first.
    Node numbers only break ties between nodes with the same neighbourhood.
    """
    keys = [fingerprint]
    for ring in reversed(rings):
        keys += [(ring.often * ring.degree).sum(1), ring.often.sum(1)]
    order = np.lexsort(keys)  # the last key is the primary key
    order = order[rings[0].length[order] > 0]
    n, degree = len(order), rings[0].degree[order, 0]
    most = min(n - 1, int(2 * math.log2(n))) if n > 1 else 0
    steps = np.array([step for step in range(-most, most + 1) if step], np.int64)
    place = np.arange(n)[:, None] + steps
    inside = (place >= 0) & (place < n)
    gap = np.abs(degree[place.clip(0, n - 1)] - degree[:, None])
    key = np.where(inside, gap * 2 * (most + 1) + np.abs(steps), np.inf)
    nearest = np.take_along_axis(place, np.argsort(key, axis=1, kind="stable"), axis=1)[:, :most]
    this, that = np.repeat(np.arange(n), most), nearest.ravel()
    pairs = np.unique(np.minimum(this, that) * n + np.maximum(this, that))
    return order[pairs // max(n, 1)], order[pairs % max(n, 1)]


def _distances(ring: Ring, one: Nodes, other: Nodes) -> Numbers:
    """Distances between the rings of the two nodes of every pair."""
    longer = ring.length[one] >= ring.length[other]
    a, b = np.where(longer, one, other), np.where(longer, other, one)
    order = np.argsort(-ring.length[a], kind="stable")  # similar lengths end together
    found = np.empty(len(one))
    for start in range(0, len(one), PAIRS):
        chosen = order[start : start + PAIRS]
        found[chosen] = _warped(ring, a[chosen], b[chosen])
    return found


def _warped(ring: Ring, a: Nodes, b: Nodes) -> Numbers:
    """Dynamic time warping in a band around the diagonal.

    The cost of two elements (degree, count) is ((max + ½) / (min + ½) − 1) of the degrees times the
    larger count. The sequences of ``a`` are at least as long as those of ``b`` and sorted by
    decreasing length.
    """
    rows, columns = ring.length[a], ring.length[b]
    found = np.empty(len(a))
    offset = np.arange(-BAND, BAND + 1)
    before: Numbers = np.full((len(a), len(offset)), np.inf)
    for i in range(int(rows.max(initial=0))):
        active = int(np.searchsorted(-rows, -i))  # pairs with more than i elements
        a, b, rows, columns = (part[:active] for part in (a, b, rows, columns))
        before = before[:active]
        centre = i * columns // rows
        j = centre[:, None] + offset
        valid = (j >= 0) & (j < columns[:, None])
        cost = np.where(valid, _cost(ring, a, i, b, j.clip(0, columns[:, None] - 1)), 0.0)
        if i == 0:
            entering = np.where(j == 0, 0.0, np.inf)
        else:
            moved = (centre > (i - 1) * columns // rows)[:, None]
            entering = _from_before(before, moved)
        # D[j] = cost[j] + min(entering[j], D[j − 1]), solved for the whole row at once.
        total = np.cumsum(cost, axis=1)
        best = np.minimum.accumulate(entering - (total - cost), axis=1)
        before = np.where(valid, total + best, np.inf)
        ends = np.flatnonzero(rows == i + 1)
        found[ends] = before[ends, (columns - 1 - centre)[ends] + BAND]
    return found


def _cost(ring: Ring, a: Nodes, i: int, b: Nodes, j: Nodes) -> Numbers:
    degree, count = ring.degree[b[:, None], j], ring.often[b[:, None], j]
    own_degree, own_count = ring.degree[a, i][:, None], ring.often[a, i][:, None]
    high, low = np.maximum(degree, own_degree), np.minimum(degree, own_degree)
    return ((high + 0.5) / (low + 0.5) - 1) * np.maximum(count, own_count)


def _from_before(before: Numbers, moved: NDArray[np.bool_]) -> Numbers:
    """min(D[i − 1, j], D[i − 1, j − 1]), for a band that has moved by one or not at all."""
    edge = np.full((len(before), 1), np.inf)
    padded = np.concatenate([edge, before, edge], axis=1)
    least = np.minimum(padded[:, 1:], padded[:, :-1])
    return np.where(moved, least[:, 1:], least[:, :-1])
