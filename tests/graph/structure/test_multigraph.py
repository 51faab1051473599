import numpy as np
import pytest
import torch
from torch_geometric.utils import scatter, to_undirected

import gread
from gread.graph.structure import multigraph as module
from gread.graph.structure.hops import adjacency_matrix
from gread.graph.structure.multigraph import Ring, _rings, _warped, structural_multigraph


def warped(one, other):
    """Dynamic time warping of lists of (degree, count), cell by cell."""
    table = np.full((len(one) + 1, len(other) + 1), np.inf)
    table[0, 0] = 0
    for i, (d, c) in enumerate(one, start=1):
        for j, (e, k) in enumerate(other, start=1):
            cost = ((max(d, e) + 0.5) / (min(d, e) + 0.5) - 1) * max(c, k)
            table[i, j] = cost + min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
    return table[-1, -1]


def lists(lengths):
    """Rings with the given numbers of distinct degrees."""
    generator = np.random.default_rng(0)
    widest = max(lengths)
    degree, often = np.zeros((2, len(lengths), widest))
    for node, length in enumerate(lengths):
        degree[node, :length] = np.sort(generator.choice(200, length, replace=False)) + 1
        often[node, :length] = generator.integers(1, 9, length)
    return Ring(degree, often, np.array(lengths))


def test_warping_distance_is_exact_with_a_sufficiently_wide_band():
    ring = lists([11, 11, 9, 7, 3, 1, 1])
    a, b = np.array([0, 0, 0, 1, 2, 3, 5]), np.array([1, 3, 5, 4, 3, 4, 6])
    found = _warped(ring, a, b)
    for one, other, distance in zip(a, b, found, strict=True):
        first, second = (
            list(zip(*(part[node, : ring.length[node]] for part in ring[:2]), strict=True))
            for node in (one, other)
        )
        assert distance == pytest.approx(warped(first, second))


def test_a_narrow_band_gives_a_longer_distance(monkeypatch):
    ring = lists([40, 30])
    pair = np.array([0]), np.array([1])
    distances = []
    for band in (40, 10, 3, 1):
        monkeypatch.setattr(module, "BAND", band)
        distances.append(_warped(ring, *pair)[0])
    assert np.isfinite(distances).all()
    assert (np.diff(distances) > -1e-9).all()


def test_rings_count_degrees():
    path = to_undirected(torch.tensor([[0, 1, 2], [1, 2, 3]]))
    rings = _rings(adjacency_matrix(path, 5))  # the last node is isolated
    seen = [
        [list(zip(r.degree[i, :n], r.often[i, :n], strict=True)) for i, n in enumerate(r.length)]
        for r in rings
    ]
    assert seen[0] == [[(1, 1)], [(2, 1)], [(2, 1)], [(1, 1)], []]
    assert seen[1] == [[(2, 1)], [(1, 1), (2, 1)], [(1, 1), (2, 1)], [(2, 1)], []]
    assert seen[2] == [[(2, 1)], [(1, 1)], [(1, 1)], [(2, 1)], []]
    assert seen[3] == [[(1, 1)], [], [], [(1, 1)], []]
    assert not any(seen[4])


def test_weights_into_a_node_sum_to_one(graph):
    index, kind, weight = structural_multigraph(graph.edge_index, 12)
    assert (index[0] != index[1]).all()
    assert (index != 11).all()  # it has no neighbours
    for relation in kind.unique():
        chosen = kind == relation
        pairs = index[:, chosen]
        assert pairs.unique(dim=1).size(1) == pairs.size(1)
        sums = scatter(weight[chosen], pairs[1], dim_size=12)
        torch.testing.assert_close(sums[pairs[1].unique()], torch.ones(len(pairs[1].unique())))


def test_structurally_identical_nodes_have_the_largest_weight():
    """In two copies of a graph, the twin of a node has the largest weight."""
    data = gread.csbm(20, seed=2)
    twice = torch.cat([data.edge_index, data.edge_index + 20], dim=1)
    index, kind, weight = structural_multigraph(twice, 40)
    for node in twice[0].unique().tolist():
        into = (index[1] == node) & (kind == 3)
        twin = into & (index[0] == (node + 20) % 40)
        if into.any():
            assert weight[twin].sum() >= weight[into].max() - 1e-6


def test_number_of_pairs_is_bounded_for_a_star_graph():
    star = to_undirected(torch.stack([torch.zeros(999).long(), torch.arange(1, 1000)]))
    index, kind, _ = structural_multigraph(star, 1000)
    assert (kind == 1).sum() <= 2 * 1000 * 2 * np.log2(1000)
    assert index.max() == 999
