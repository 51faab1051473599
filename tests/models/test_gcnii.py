import math

import torch
from torch_geometric.nn import GCN2Conv

from gread.graph.adjacency import OriginalAdjacency
from gread.models.catalog import MODELS
from tests.checks import dense


def build(**options):
    return MODELS["gcnii"].build(3, 4, 2, **options).double().eval()


def test_gcnii_equals_dense_formula_and_the_layers_of_pyg(graph):
    model = build(alpha=0.3, strength=1.5, num_layers=3)
    s = dense(OriginalAdjacency()(graph.x, graph.edge_index))
    h = h0 = g = torch.relu(model.encoder(graph.x))
    for number, weight in enumerate(model.weights, start=1):
        theta = math.log(1.5 / number + 1)
        p = 0.7 * s @ h + 0.3 * h0
        h = torch.relu((1 - theta) * p + theta * p @ weight)
        pyg = GCN2Conv(4, 0.3, theta=1.5, layer=number).double()
        pyg.weight1.data = weight.data
        g = torch.relu(pyg(g, h0, graph.edge_index))
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(h))
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(g))


def test_gcnii_without_weights_equals_appnp_propagation(graph):
    """The layers are steps of APPNP, H ↦ (1 − α) Ã H + α H(0), or powers of Ã with α = 0."""
    s = dense(OriginalAdjacency()(graph.x, graph.edge_index))
    for alpha in (0.0, 0.4):
        model = build(alpha=alpha, strength=0.0, num_layers=5)
        h = h0 = torch.relu(model.encoder(graph.x))
        for _ in range(5):
            h = (1 - alpha) * s @ h + alpha * h0
        torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(h))
    powers = torch.linalg.matrix_power(s, 5)
    still = build(alpha=0.0, strength=0.0, num_layers=5)
    expected = still.decoder(powers @ torch.relu(still.encoder(graph.x)))
    torch.testing.assert_close(still(graph.x, graph.edge_index), expected)


def test_variant_has_separate_weights_for_smoothed_and_first_state(graph):
    alpha = 0.3
    plain, variant = (build(alpha=alpha, num_layers=3, variant=v) for v in (False, True))
    state = plain.state_dict()
    for name, weight in state.items():
        if name.startswith("weights"):
            state[name] = torch.cat([(1 - alpha) * weight, alpha * weight])
    variant.load_state_dict(state)
    torch.testing.assert_close(
        variant(graph.x, graph.edge_index), plain(graph.x, graph.edge_index), rtol=0, atol=1e-12
    )
