import pytest
import torch
from torch import nn
from torch.nn.functional import elu
from torch_geometric.nn import GATConv

from gread.models.catalog import MODELS
from gread.models.graphcon import GraphCON
from tests.checks import dense


def build(name="gcon-gcn", **options):
    options = {"input_dropout": 0.0, "dropout": 0.0} | options
    model = MODELS[name].build(3, 4, 2, **options).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


class ZeroCoupling(nn.Module):
    """Coupling without effect, F(X) = 0."""

    def __init__(self, channels):
        super().__init__()

    def forward(self, x, edge_index, edge_weight):
        return torch.zeros_like(x)


@pytest.mark.parametrize("residual", ["mapped", "added"])
def test_gcon_gcn_equals_its_dense_formula(graph, residual):
    model = build(residual=residual, damping=0.3, frequency=0.7, step_size=0.5, num_layers=2)
    coupling = model.coupling
    s = dense(coupling.adjacency(graph.x, graph.edge_index))
    w, b = coupling.layer.linear[1].weight.T, coupling.layer.bias
    x = y = model.encoder(graph.x).relu()
    for _ in range(2):
        own = {"mapped": -coupling.own(x @ w), "added": coupling.own(x) - x @ w}[residual]
        y = y + 0.5 * ((s @ x @ w + b + own).relu() - 0.3 * y - 0.7 * x)
        x = x + 0.5 * y
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(x))


def test_gcon_gat_is_the_mean_over_its_heads(graph):
    model = build("gcon-gat", heads=3, num_layers=1)
    x = model.encoder(graph.x).relu()
    coupling = model.coupling
    reference = GATConv(4, 4, heads=3).double()  # which adds self loops
    layer = coupling.layer
    theirs = {
        "att_src": layer.mix.source,
        "att_dst": layer.mix.target,
        "bias": layer.bias,
        "lin.weight": layer.linear[1].weight,
    }
    reference.load_state_dict(theirs)
    whole = elu(reference(x, graph.edge_index) + coupling.own(x))
    force = (whole[:, :4] + whole[:, 4:8] + whole[:, 8:]) / 3
    expected = model.decoder(x + (x + force))
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_free_oscillators_preserve_area_and_nearly_conserve_energy():
    def orbit(tau, steps):
        model = GraphCON(ZeroCoupling, 1, 1, 1, frequency=2.0, step_size=tau).double()
        x, y = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
        for _ in range(steps):
            x, y = model.step(x, y, None, None)
            yield x, y

    def drift(tau):
        """Largest change of 2 x² + y² − 2 τ x y, which the method conserves exactly."""
        kept = [2 * x * x + y * y - 2 * tau * x * y for x, y in orbit(tau, 500)]
        return max(abs(one.item() - 2.0) for one in kept)

    def error(tau):
        """Error of the mean energy over about 100 periods of length 4.44."""
        energies = [(2 * x * x + y * y).item() for x, y in orbit(tau, round(444 / tau))]
        return abs(sum(energies) / len(energies) - 2.0)

    assert drift(0.1) < 1e-12
    assert error(0.05) < 0.3 * error(0.1)  # O(τ²)
    model = GraphCON(ZeroCoupling, 1, 1, 1, frequency=2.0, step_size=0.3).double()

    def flow(state):
        x, y = model.step(state[:1].view(1, 1), state[1:].view(1, 1), None, None)
        return torch.cat([x.flatten(), y.flatten()])

    jacobian = torch.autograd.functional.jacobian(flow, torch.randn(2, dtype=torch.float64))
    torch.testing.assert_close(jacobian.det(), torch.ones((), dtype=torch.float64))
