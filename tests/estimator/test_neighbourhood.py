"""Features from the neighbourhood of a node, which never depend on its own target."""

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot
from torch_geometric.utils import to_undirected

from gread.base.errors import InputError
from gread.estimator import neighbourhood
from gread.estimator.candidates import Candidate, portfolio
from gread.estimator.neighbourhood import WIDEST, directions, joined, surroundings

NODES, CLASSES = 30, 3


@pytest.fixture(params=[True, False], ids=["directed", "undirected"])
def directed(request):
    return request.param


@pytest.fixture
def edges(directed):
    drawn = torch.randint(1, NODES, (2, 90))  # with self loops, duplicates and an isolated node
    return drawn if directed else to_undirected(drawn, num_nodes=NODES)


@pytest.fixture
def known():
    return torch.rand(NODES) < 0.6


@pytest.fixture
def groups(edges, directed):
    """All edges, and the edges of two types."""
    kinds = torch.arange(edges.size(1)) % 2
    parts = (edges, edges[:, kinds == 0], edges[:, kinds == 1])
    return [directions(part, NODES, directed) for part in parts]


def test_node_features_do_not_depend_on_its_own_target(edges, groups, known):
    x, y = torch.randn(NODES, 2), torch.randint(CLASSES, (NODES,))
    targets = one_hot(y, CLASSES).float()
    before = surroundings(groups, x, known, targets)
    for node in range(NODES):
        changed = targets.clone()
        changed[node] = torch.tensor([5.0, -7.0, 9.0])
        after = surroundings(groups, x, known, changed)
        assert torch.equal(before[node], after[node])
        if known[node] and (edges[0] == node).any():
            assert not torch.equal(before, after)  # the features of others change


def test_two_hop_features_exclude_the_own_target_in_a_large_graph():
    """Codes of pairs of nodes exceed 32 bits here."""
    nodes = 50_000
    ends = torch.arange(nodes - 10, nodes)
    edges = to_undirected(torch.stack([ends[:-1], ends[1:]]), num_nodes=nodes)
    known, x, targets = torch.ones(nodes).bool(), torch.ones(nodes, 1), torch.zeros(nodes, 1)
    groups = [directions(edges, nodes, directed=False)]
    before = surroundings(groups, x, known, targets)
    targets[-1] = 1.0
    after = surroundings(groups, x, known, targets)
    assert torch.equal(before[-1], after[-1])
    assert not torch.equal(before[-3], after[-3])


def test_blocks_of_edges_give_the_same_features(groups, known, monkeypatch):
    x, targets = torch.randn(NODES, 2), torch.rand(NODES, CLASSES)
    whole = surroundings(groups, x, known, targets)
    monkeypatch.setattr(neighbourhood, "BLOCK", 7 * (CLASSES + 1))
    torch.testing.assert_close(surroundings(groups, x, known, targets), whole)


def test_targets_of_unknown_nodes_do_not_affect_features(groups, known):
    x, targets = torch.randn(NODES, 2), torch.rand(NODES, CLASSES)
    hidden = torch.where(known.unsqueeze(1), targets, 100.0)
    assert torch.equal(
        surroundings(groups, x, known, targets), surroundings(groups, x, known, hidden)
    )


def test_target_features_are_one_hop_and_two_hop_means(edges, directed, known):
    """Compare with explicit loops over nodes."""
    targets = np.random.default_rng(0).random((NODES, CLASSES))
    given = np.hstack([targets, np.ones((NODES, 1))]) * known.numpy()[:, None]
    given = torch.from_numpy(given)
    ways = directions(edges, NODES, directed)
    around = [[set(way.matrix[v].indices) for v in range(NODES)] for way in ways]
    for way, near in zip(ways, around, strict=True):
        found = way.targets(way.sum(given))
        for v in range(NODES):
            seen = [u for u in near[v] if known[u]]
            mean = targets[seen].mean(0) if seen else np.zeros(CLASSES)
            share = len(seen) / max(1, len(near[v]))
            np.testing.assert_allclose(found[v], [*mean, share], atol=1e-12)
        for other, far in zip(ways, around, strict=True):
            found = way.targets_around(other, other.sum(given), given)
            for v in range(NODES):
                circles = [[w for w in far[u] if known[w] and w != v] for u in near[v]]
                means = [targets[circle].mean(0) for circle in circles if circle]
                mean = np.mean(means, axis=0) if means else np.zeros(CLASSES)
                share = len(means) / max(1, len(near[v]))
                np.testing.assert_allclose(found[v], [*mean, share], atol=1e-12)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_features_stay_sparse(groups, known):
    x = torch.randint(2, (NODES, 5)).float()
    targets = torch.rand(NODES, CLASSES)
    more = surroundings(groups, x.to_sparse_csr(), known, targets)
    wide = joined(x.to_sparse_csr(), more)
    assert wide.layout is torch.sparse_csr
    assert torch.equal(wide.to_dense(), joined(x, more))


def test_neighbour_features_require_mlp_or_boosted_trees():
    assert any(candidate.neighbours for candidate in portfolio())
    with pytest.raises(InputError, match="of mlp or boosted-trees, got 'gread-x'"):
        Candidate("", "gread-x", neighbours=True)


def test_typed_features_combine_the_features_of_each_edge_type(groups, known):
    x, targets = torch.randn(NODES, 2), torch.rand(NODES, CLASSES)
    whole = surroundings(groups, x, known, targets)
    each = torch.cat([surroundings([group], x, known, targets) for group in groups], dim=1)
    assert sorted(whole.T.tolist()) == sorted(each.T.tolist())


def test_wide_feature_means_are_omitted_with_several_edge_types(groups, known):
    x, targets = torch.randn(NODES, WIDEST), torch.rand(NODES, CLASSES)
    wide, narrow = (surroundings(some, x, known, targets) for some in (groups[:1], groups))
    assert wide.size(1) > WIDEST > narrow.size(1)


def test_the_number_of_features_does_not_depend_on_the_edges(known):
    """A model can then predict on a graph with reversed edges added."""
    drawn, x, targets = torch.randint(NODES, (2, 90)), torch.randn(NODES, 2), torch.rand(NODES, 3)
    for edges in (drawn, to_undirected(drawn, num_nodes=NODES)):
        ways = (directions(edges, NODES, directed) for directed in (True, False))
        found = [surroundings([way], x, known, targets).size(1) for way in ways]
        assert found == [2 + 4 + 4 + 2 * 4 + 4 * 4, 1 + 1 + 2 + 4 + 4]
