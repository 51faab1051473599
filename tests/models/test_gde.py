import torch
from torch import nn
from torch.nn.functional import softplus

from gread.models.catalog import MODELS
from tests.checks import dense


def build(**options):
    options = {"input_dropout": 0.0, "dropout": 0.0} | options
    return MODELS["gde"].build(3, 4, 2, **options).double().eval()


def test_gde_equals_dense_formula(graph):
    model = build(solver="euler", time=0.5)
    for layer in (model.encoder, *model.layers, model.decoder):
        nn.init.normal_(layer.bias)
    weight = torch.rand(graph.num_edges, dtype=torch.float64) + 0.5
    s = dense(model.adjacency(graph.x, graph.edge_index, weight))

    def convolution(layer, h):
        return s @ layer.linear(h) + layer.bias

    h = convolution(model.encoder, graph.x).relu()
    first, second = model.layers
    h = h + 0.5 * convolution(second, softplus(convolution(first, h)))
    expected = convolution(model.decoder, h)
    torch.testing.assert_close(model(graph.x, graph.edge_index, weight), expected)


def test_gde_at_time_zero_equals_a_two_layer_gcn(graph):
    model, gcn = build(time=0.0), MODELS["gcn"].build(3, 4, 2).double().eval()
    for ours, theirs in zip((model.encoder, model.decoder), gcn.layers, strict=True):
        ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(model(graph.x, graph.edge_index), gcn(graph.x, graph.edge_index))


def test_every_evaluation_has_its_own_dropout(graph):
    model = MODELS["gde"].build(3, 16, 2, input_dropout=0.0, dropout=0.5).double().train()
    slope = model.field(torch.ones(12, 16, dtype=torch.float64), graph.edge_index, None)
    h = torch.ones(12, 16, dtype=torch.float64)
    assert not torch.allclose(slope(0.0, h), slope(0.0, h))
