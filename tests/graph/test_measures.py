import math

import pytest
import torch
from torch_geometric.utils import homophily, to_undirected

import gread


def test_dirichlet_energy_of_a_triangle():
    edge_index = to_undirected(torch.tensor([[0, 1, 2], [1, 2, 0]]))
    h = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    # Squared distances 25, 18 and 1, each counted from both ends.
    assert gread.dirichlet_energy(h, edge_index).item() == pytest.approx(2 * (25 + 18 + 1) / 3)


def test_dirichlet_energy_is_the_quadratic_form_of_the_unnormalized_laplacian(graph):
    h = torch.randn(12, 3, dtype=torch.float64)
    weight = torch.rand(12, 12, dtype=torch.float64)
    weight = (weight + weight.T)[graph.edge_index[0], graph.edge_index[1]]
    a = torch.zeros(12, 12, dtype=torch.float64)
    a[graph.edge_index[0], graph.edge_index[1]] = weight
    expected = 2 * torch.trace(h.T @ (torch.diag(a.sum(1)) - a) @ h) / 12
    torch.testing.assert_close(gread.dirichlet_energy(h, graph.edge_index, weight), expected)


def test_constant_signal_has_no_energy(graph):
    assert gread.dirichlet_energy(torch.ones(12, 2), graph.edge_index) == 0


def test_homophily_of_a_small_graph():
    # Edge 0-1 within a class, 1-2 between classes, node 3 isolated, a loop at 2.
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    y = torch.tensor([0, 0, 1, 1])
    assert gread.edge_homophily(edge_index, y) == pytest.approx(2 / 3)
    assert gread.node_homophily(edge_index, y) == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_homophily_does_not_depend_on_how_edges_are_stored():
    data = gread.csbm(200, 3, homophily=0.3, degree=6)
    once = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    measures = gread.edge_homophily, gread.node_homophily, gread.adjusted_homophily
    for measure in measures:
        assert measure(once, data.y) == pytest.approx(measure(data.edge_index, data.y))
    expected = homophily(data.edge_index, data.y, method="edge")
    assert gread.edge_homophily(data.edge_index, data.y) == pytest.approx(expected)


def test_adjusted_homophily_of_homophilous_random_and_heterophilous_graphs():
    apart = torch.tensor([[0, 1], [1, 2]])
    assert gread.adjusted_homophily(apart, torch.tensor([0, 1, 0])) == pytest.approx(-1)
    pairs = torch.tensor([[0, 2], [1, 3]])
    assert gread.adjusted_homophily(pairs, torch.tensor([0, 0, 1, 1])) == pytest.approx(1)
    data = gread.csbm(2000, 2, homophily=0.5, degree=10)
    assert gread.adjusted_homophily(data.edge_index, data.y) == pytest.approx(0, abs=0.05)


def test_homophily_without_edges_is_undefined():
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert math.isnan(gread.node_homophily(nothing, torch.zeros(3, dtype=torch.int64)))
    assert math.isnan(gread.edge_homophily(nothing, torch.zeros(3, dtype=torch.int64)))
    assert math.isnan(gread.adjusted_homophily(nothing, torch.zeros(3, dtype=torch.int64)))
