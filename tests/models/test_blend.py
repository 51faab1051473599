import pytest
import torch
from torch import nn

from gread.base.errors import InputError
from gread.graph.structure.catalog import add_structure
from gread.models.attention import SCORES
from gread.models.catalog import MODELS
from tests.checks import dense


def build(name="blend", **options):
    entry = MODELS[name]
    options = {"input_dropout": 0.0} | options
    model = entry.make(3, 4, 2, num_nodes=12, **options).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("attention", ["scaled-dot", "cosine"])
def test_blend_with_zero_positions_equals_grand(graph, attention, linear):
    grand = build("grand", time=2.0, linear=linear, attention=attention)
    model = build(position_channels=3, time=2.0, linear=linear, attention=attention)
    nn.init.zeros_(model.place.weight)
    nn.init.zeros_(model.place.bias)
    model.encoder.load_state_dict(grand.encoder.state_dict())
    model.beta.load_state_dict(grand.beta.state_dict())
    ours, theirs = model.state_dict(), grand.state_dict()
    for name, value in theirs.items():
        if name in ours and value.shape == ours[name].shape:
            ours[name].copy_(value)
        elif name in ours:  # the state has three more channels here
            ours[name][:, :4] = value
    torch.testing.assert_close(model(graph.x, graph.edge_index), grand(graph.x, graph.edge_index))


@pytest.mark.parametrize("attention", SCORES)
def test_blend_equals_dense_formula(graph, attention):
    model = build(position_channels=3, attention=attention, solver="euler", time=0.5)
    found = add_structure(graph, "positions").data
    p = torch.zeros(12, 12, dtype=torch.float64)
    p[tuple(found.position_index)] = found.position_weight.double()
    z = torch.cat([model.encoder(graph.x), p @ model.place.weight + model.place.bias], 1)
    a = dense(model.diffusion.attention(z, graph.edge_index, None))
    z = z + 0.5 * (model.diffusion.alpha() * (a @ z - z) + model.beta() * z)
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(z))


def test_input_dropout_applies_to_positions(graph):
    model = build(input_dropout=0.5, source=False)
    nn.init.zeros_(model.encoder.weight)
    assert not torch.allclose(
        model.train()(graph.x, graph.edge_index), model(graph.x, graph.edge_index)
    )


def test_graph_with_another_number_of_nodes_is_rejected(graph):
    model = MODELS["blend"].make(3, 4, 2, num_nodes=9).double()
    with pytest.raises(InputError, match=r"x must have 9 rows, one for each node .*, got 12"):
        model(graph.x, graph.edge_index)
