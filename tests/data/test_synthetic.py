import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.random import default_rng
from torch_geometric.utils import contains_self_loops, degree, is_undirected

import gread
from gread.base.errors import InputError
from gread.data.synthetic import _chosen, _edges_between, _edges_within


def test_csbm_defaults_match_the_paper():
    data = gread.csbm()
    assert data.num_nodes == 100
    assert data.y.bincount().tolist() == [50, 50]
    assert data.num_features == 2
    a, b = data.edge_index
    same = data.y[a] == data.y[b]
    assert same.sum() / 2 == pytest.approx(0.9 * 2 * 50 * 49 / 2, rel=0.05)
    assert (~same).sum() / 2 == pytest.approx(0.1 * 50 * 50, rel=0.2)
    many = gread.csbm(20_000, p_within=1e-4, p_between=1e-4)
    for label, mean in ((0, -0.5), (1, 0.5)):
        assert many.x[many.y == label].mean() == pytest.approx(mean, abs=0.05)
        assert many.x[many.y == label].std() == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_csbm_has_the_requested_homophily_and_degree(homophily, classes):
    data = gread.csbm(4000, classes, homophily=homophily, degree=12)
    assert gread.edge_homophily(data.edge_index, data.y) == pytest.approx(homophily, abs=0.015)
    assert data.num_edges / 4000 == pytest.approx(12, rel=0.03)
    degrees = degree(data.edge_index[1], 4000)
    assert degrees.var() == pytest.approx(12, rel=0.15)  # Poisson


def test_homophily_alone_keeps_the_degree():
    plain = gread.csbm(400, p_within=0.05, p_between=0.05)
    low = gread.csbm(400, p_within=0.05, p_between=0.05, homophily=0.1)
    assert low.num_edges == pytest.approx(plain.num_edges, rel=0.05)


def test_graphs_are_undirected_without_loops_and_seeded():
    data = gread.csbm(300, 3, homophily=0.4, degree=5, seed=7)
    assert is_undirected(data.edge_index)
    assert not contains_self_loops(data.edge_index)
    again = gread.csbm(300, 3, homophily=0.4, degree=5, seed=7)
    assert torch.equal(data.edge_index, again.edge_index)
    assert torch.equal(data.x, again.x)
    assert not torch.equal(data.x, gread.csbm(300, 3, homophily=0.4, degree=5, seed=8).x)


def test_graphs_that_differ_in_homophily_share_features_and_splits():
    low, high = (gread.csbm(100, 4, homophily=h, degree=5) for h in (0.1, 0.9))
    assert torch.equal(low.x, high.x)
    assert torch.equal(low.train_mask, high.train_mask)


def test_a_million_edges_need_no_dense_matrix():
    data = gread.csbm(200_000, 4, homophily=0.2, degree=10, num_splits=1)
    assert data.num_edges == pytest.approx(2_000_000, rel=0.01)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 30), st.integers(0, 5))
def test_edge_probability_one_gives_every_pair_once(n, start):
    pairs = _edges_within(default_rng(0), start, start + n, 1.0)
    assert {tuple(pair) for pair in pairs.T} == {
        (start + i, start + j) for j in range(n) for i in range(j)
    }
    assert pairs.shape[1] == n * (n - 1) // 2
    between = _edges_between(default_rng(0), start, start + n, 50, 53, 1.0)
    assert between.shape[1] == 3 * n
    assert {tuple(pair) for pair in between.T} == {
        (start + i, j) for i in range(n) for j in (50, 51, 52)
    }


def test_large_pair_indices_are_unranked_exactly(monkeypatch):
    j = 10**9 + np.arange(1000)  # so large that the rounded square root is wrong for (j − 1, j)
    chosen = np.concatenate([j * (j - 1) // 2, j * (j + 1) // 2 - 1])  # (0, j), then (j − 1, j)
    monkeypatch.setattr("gread.data.synthetic._chosen", lambda *_: chosen)
    pairs = _edges_within(default_rng(0), 0, 2 * 10**9, 1.0)
    assert np.array_equal(pairs, np.concatenate([[0 * j, j], [j - 1, j]], axis=1))


def test_pairs_of_many_nodes_are_ordered_and_in_range():
    n = 3_000_000  # 4.5e12 possible pairs
    i, j = _edges_within(default_rng(0), 0, n, 1e-7)
    assert (i >= 0).all()
    assert (i < j).all()
    assert (j < n).all()


@pytest.mark.parametrize("p", [0.001, 0.3, 1.0])
def test_number_of_chosen_elements_is_p_times_the_total(p):
    counts = sum(len(_chosen(default_rng(seed), 1000, p)) for seed in range(200))
    assert counts == pytest.approx(200_000 * p, abs=5 * (200_000 * p * (1 - p)) ** 0.5)


@pytest.mark.parametrize("p", [1e-18, 1e-30])
def test_tiny_probability_chooses_no_element(p):
    assert len(_chosen(default_rng(0), 1000, p)) == 0


def test_grid_joins_neighbours():
    data = gread.grid(4, 5)
    distance = (data.pos[data.edge_index[0]] - data.pos[data.edge_index[1]]).abs().sum(1)
    assert (distance == 1).all()
    assert data.num_edges == 2 * (4 * 4 + 3 * 5)
    assert is_undirected(data.edge_index)
    assert gread.grid(1, 1).num_edges == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gread.csbm(1), "num_nodes must be a whole number of at least 2, got 1"),
        (lambda: gread.csbm(homophily=1.5), r"homophily must be a number in \[0, 1\], got 1.5"),
        (lambda: gread.csbm(degree=3), "degree must come with homophily"),
        (lambda: gread.csbm(homophily=1.0, degree=80), "degree must be lower: .* got degree 80"),
        (lambda: gread.csbm(p_within=2.0), r"p_within must be a number in \[0, 1\], got 2.0"),
        (lambda: gread.csbm(mean=float("nan")), "mean must be a finite number, got nan"),
        (lambda: gread.csbm(seed=-1), "seed must be a whole number of at least 0, got -1"),
        (lambda: gread.load("digits", seed=-1), "seed must be a whole number of at least 0"),
        (lambda: gread.load("digits", neighbours=1797), "neighbours must be below 1797"),
        (lambda: gread.grid(0, 3), "height must be a whole number of at least 1, got 0"),
        (lambda: gread.load("gird"), "unknown dataset 'gird', did you mean 'grid'?"),
        (lambda: gread.load("grid", hight=3), "grid has no option 'hight'; choose from: height"),
    ],
)
def test_invalid_arguments_raise_input_errors(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


@pytest.mark.parametrize("homophily", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_preferential_attachment_has_the_requested_homophily(homophily):
    base = gread.csbm(2000, 7, homophily=0.5, degree=4, num_features=8)
    data = gread.preferential_attachment(base, homophily, num_nodes=3000, seed=1)
    assert gread.edge_homophily(data.edge_index, data.y) == pytest.approx(homophily, abs=0.02)
    assert data.y.bincount().tolist() == [600] * 5
    degrees = degree(data.edge_index[1], 3000)
    assert degrees.mean() == pytest.approx(4, abs=0.1)
    assert degrees.min() >= 1
    assert degrees.max() > 30  # some nodes have many neighbours
    assert is_undirected(data.edge_index)
    assert not contains_self_loops(data.edge_index)


def test_preferential_attachment_favours_classes_nearby_on_the_circle():
    base = gread.csbm(1000, 5, homophily=0.5, degree=4)
    data = gread.preferential_attachment(base, 0.0, num_nodes=4000)
    a, b = data.y[data.edge_index]
    apart = (a - b).abs()
    apart = torch.minimum(apart, 5 - apart)
    shares = apart.bincount(minlength=3) / len(apart)
    assert shares.tolist() == pytest.approx([0, 2 / 3, 1 / 3], abs=0.02)  # as in H2GCN's graphs


def test_preferential_attachment_takes_features_from_one_class_each():
    base = gread.csbm(300, 3, homophily=0.5, degree=4, num_features=4)
    data = gread.preferential_attachment(base, 0.3, num_classes=3, seed=2)
    label = {tuple(row): int(y) for row, y in zip(base.x.tolist(), base.y, strict=True)}
    origin = {(int(y), label[tuple(row)]) for row, y in zip(data.x.tolist(), data.y, strict=True)}
    assert len(origin) == 3
    again = gread.preferential_attachment(base, 0.3, num_classes=3, seed=2)
    assert torch.equal(again.edge_index, data.edge_index)
    assert torch.equal(again.x, data.x)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"homophily": -0.1}, r"homophily must be a number in \[0, 1\], got -0.1"),
        ({"num_classes": 9}, "num_classes must be at most 2, as in base, got 9"),
        ({"num_nodes": 3}, "num_nodes must be a whole number of at least 4, got 3"),
        ({"edges_per_node": 0}, "edges_per_node must be a whole number of at least 1, got 0"),
        ({"num_classes": 1}, "homophily must be 1 with a single class, got 0.5"),
    ],
)
def test_preferential_attachment_rejects_invalid_options(options, sentence):
    with pytest.raises(InputError, match=sentence):
        gread.preferential_attachment(
            gread.csbm(), **({"homophily": 0.5, "num_classes": 2} | options)
        )
