import pytest
import torch
from torch import nn
from torch_geometric.utils import add_self_loops

from gread.models.catalog import MODELS
from gread.models.graff import WEIGHTS, standardized


def build(**options):
    model = MODELS["graff"].build(3, 4, 2, **{"input_dropout": 0.0} | options).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def s_of(graph):
    a = torch.zeros(12, 12, dtype=torch.float64)
    a[graph.edge_index[1], graph.edge_index[0]] = 1
    root = a.sum(1).clamp(min=1).rsqrt()
    return root.unsqueeze(1) * a * root


def matrix(weight):
    """Matrix W, as its product with I."""
    parameter = next(weight.parameters())
    return weight()(torch.eye(parameter.size(-1), dtype=parameter.dtype))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("nonlinear", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_one_step_equals_dense_formula(graph, weights, nonlinear, standardize):
    model = build(weights=weights, nonlinear=nonlinear, standardize=standardize, time=0.5)
    h0, w = model.encoder(graph.x), matrix(model.weights)
    slope = s_of(graph) @ h0 @ w - h0 @ torch.diag(model.omega()) + model.beta() * h0
    if standardize:
        slope = (slope - slope.mean(0)) / (slope.var(0, unbiased=False) + 1e-5).sqrt()
    slope = slope.relu() if nonlinear else slope
    final = model.evolve(graph.x, graph.edge_index).final
    torch.testing.assert_close(final, h0 + 0.5 * slope)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_weight_is_symmetric_and_energy_decreases(graph, weights):
    model = build(weights=weights, source=False, solver="rk4", time=4.0, step_size=0.1)
    w, s = matrix(model.weights), s_of(graph)
    torch.testing.assert_close(w, w.T)
    omega = torch.diag(model.omega())
    times = torch.linspace(0, 4, 21).tolist()
    energy = torch.stack(
        [
            (h * (h @ omega)).sum() / 2 - (h * (s @ h @ w)).sum() / 2
            for h in model.evolve(graph.x, graph.edge_index, save_at=times).saved
        ]
    )
    assert (energy.diff() < 0).all()


def test_diagonal_of_dominant_weight_equals_its_formula():
    weight = WEIGHTS["diagonally-dominant"](5)
    w = matrix(weight)
    others = (w - torch.diag(w.diag())).abs().sum(1)
    torch.testing.assert_close(w.diag(), weight.t() * others + weight.r())


def test_self_loops_do_not_change_the_output(graph):
    model = build()
    looped, _ = add_self_loops(graph.edge_index, num_nodes=12)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))


def test_standardized_channels_have_mean_zero_and_deviation_one():
    h = standardized(3 + 5 * torch.randn(200, 3, dtype=torch.float64))
    torch.testing.assert_close(h.mean(0), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(h.std(0, unbiased=False), h.new_ones(3), atol=1e-6, rtol=0)
