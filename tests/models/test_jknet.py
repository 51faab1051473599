import pytest
import torch

from gread.base.errors import InputError
from gread.graph.adjacency import OriginalAdjacency
from gread.models.catalog import MODELS
from tests.checks import dense
from tests.models.test_convolutional import weight_of


@pytest.mark.parametrize("jump", ["cat", "max"])
def test_jknet_equals_dense_formula(graph, jump):
    model = MODELS["jknet"].build(3, 4, 2, num_layers=3, jump=jump).double().eval()
    s = dense(OriginalAdjacency()(graph.x, graph.edge_index))
    states, h = [], graph.x
    for layer in model.layers:
        torch.nn.init.normal_(layer.bias)
        h = torch.relu(s @ h @ weight_of(layer) + layer.bias)
        states.append(h)
    together = torch.cat(states, dim=1) if jump == "cat" else torch.stack(states).amax(0)
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(together))


def test_all_jump_modes_are_equal_with_one_layer(graph):
    models = [
        MODELS["jknet"].build(3, 4, 2, num_layers=1, jump=jump).double().eval()
        for jump in ("cat", "max", "lstm")
    ]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict(), strict=False)
    first, *others = (model(graph.x, graph.edge_index) for model in models)
    for other in others:
        torch.testing.assert_close(first, other)


def test_unknown_jump_is_rejected():
    with pytest.raises(InputError, match="unknown jump 'far'; choose from: cat, max, lstm"):
        MODELS["jknet"].build(3, 4, 2, jump="far")


def test_lstm_jump_runs_without_cudnn(graph):
    model = MODELS["jknet"].build(3, 4, 2, jump="lstm").double()
    seen = []
    model.jump.lstm.register_forward_hook(lambda *_: seen.append(torch.backends.cudnn.enabled))
    model(graph.x, graph.edge_index)
    assert seen == [False]
    assert torch.backends.cudnn.enabled
