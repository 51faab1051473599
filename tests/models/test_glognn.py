import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.models.catalog import MODELS
from gread.models.glognn import _inverse
from tests.checks import dense


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 1.0), (10.0, 0.5), (2.0, 1000.0)])
@pytest.mark.parametrize("gamma", [0.0, 0.4])
def test_closed_form_equals_an_explicit_solve(alpha, beta, gamma):
    data = gread.csbm(30, num_features=3, seed=1)
    hyper = {"alpha": alpha, "beta": beta, "gamma": gamma, "num_layers": 1, "num_hops": 3}
    model = MODELS["glognn"].build(3, 8, 4, num_nodes=30, **hyper).double().eval()
    torch.nn.init.normal_(model.hop_weight)
    x = data.x.double()
    adj = model.adjacency(x, data.edge_index)
    r = dense(adj)
    first = model.feature_map(x) / 2 + (r @ model.row_map.weight + model.row_map.bias) / 2
    h = model.linear(first.relu())  # also H(0)
    g = 1 - gamma
    hops = sum(w * r.matrix_power(k) for k, w in enumerate(model.hop_weight, start=1))
    left = g * h @ h.T + beta * hops - gamma * g * h @ h.T
    z = left @ torch.linalg.inv(g**2 * h @ h.T + (alpha + beta) * torch.eye(30).double())
    torch.testing.assert_close(model(x, data.edge_index), g * z @ h + gamma * h)


def test_the_closed_form_is_a_minimum():
    """Numerical minimization of the objective of Z gives the closed form."""
    data = gread.csbm(30, num_features=3, seed=1)
    model = MODELS["glognn"].build(3, 8, 4, num_nodes=30, alpha=0.7, beta=0.3, gamma=0.2).double()
    h, h0 = torch.randn(2, 30, 4, dtype=torch.float64)
    adj = model.adjacency(h, data.edge_index)
    r = dense(adj)
    hops = sum(w * r.matrix_power(k) for k, w in enumerate(model.hop_weight.detach(), start=1))
    z = torch.zeros(30, 30, dtype=torch.float64, requires_grad=True)

    def objective():
        misfit = (h - 0.8 * z @ h - 0.2 * h0).square().sum()
        return misfit + 0.7 * z.square().sum() + 0.3 * (z - hops).square().sum()

    solver = torch.optim.LBFGS([z], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15)

    def closure():
        solver.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    solver.step(closure)
    expected = 0.8 * z.detach() @ h + 0.2 * h0
    torch.testing.assert_close(model._gathered(h, h0, adj), expected, rtol=1e-5, atol=1e-6)


def test_glognn_plus_plus_with_weights_of_one_is_glognn(graph):
    plain = MODELS["glognn"].build(3, 8, 2, num_nodes=12).double().eval()
    weighted = MODELS["glognn++"].build(3, 8, 2, num_nodes=12).double().eval()
    weighted.load_state_dict(plain.state_dict(), strict=False)
    assert not torch.allclose(weighted(graph.x, graph.edge_index), plain(graph.x, graph.edge_index))
    torch.nn.init.ones_(weighted.class_weight)
    torch.testing.assert_close(
        weighted(graph.x, graph.edge_index), plain(graph.x, graph.edge_index)
    )


@pytest.mark.parametrize(("delta", "missing"), [(1.0, "row_map"), (0.0, "feature_map")])
def test_unused_feature_or_row_map_is_not_created(graph, delta, missing):
    model = MODELS["glognn"].build(3, 8, 2, num_nodes=12, delta=delta).double()
    model(graph.x, graph.edge_index).square().sum().backward()
    assert all(parameter.grad.any() for parameter in model.parameters())
    assert getattr(model, missing) is None


def test_zero_alpha_with_zero_beta_is_rejected():
    with pytest.raises(InputError, match="alpha and beta must not both be zero"):
        MODELS["glognn"].build(3, 8, 2, num_nodes=12, alpha=0.0, beta=0.0)


def test_large_beta_is_accurate_in_single_precision(graph):
    model = MODELS["glognn"].build(3, 8, 2, num_nodes=12, beta=20000.0, gamma=0.8).eval()
    single = model(graph.x.float(), graph.edge_index)
    double = model.double()(graph.x, graph.edge_index)
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e6])
def test_elimination_equals_the_matrix_inverse(spread):
    h = torch.randn(30, 7, dtype=torch.float64) * spread
    m = torch.eye(7) + h.T @ h
    torch.testing.assert_close(_inverse(m), torch.linalg.inv(m), rtol=1e-7, atol=0.0)
