import pytest
import torch

from gread.graph.adjacency import OriginalAdjacency
from gread.models.acm_gcn import AdaptiveMixing
from gread.models.catalog import MODELS
from tests.checks import dense


def test_acm_gcn_equals_dense_formula(graph):
    model = MODELS["acm-gcn"].build(3, 8, 2).double().eval()
    r = dense(OriginalAdjacency(normalization="row")(graph.x, graph.edge_index))
    h = graph.x
    for layer in (model.first, model.second):
        maps = layer.linear.weight if h is graph.x else layer.linear.weight.T
        low, high, own = maps.chunk(3, dim=1)
        filters = [r @ h @ low, (torch.eye(12) - r) @ h @ high, h @ own]
        filters = [version.relu() for version in filters]
        scores = [version @ v for version, v in zip(filters, layer.score, strict=True)]
        scores = torch.stack(scores, dim=1).sigmoid()
        weights = (scores @ layer.mix / 3).softmax(dim=1)
        h = 3 * sum(w.unsqueeze(1) * f for w, f in zip(weights.T, filters, strict=True))
    torch.testing.assert_close(model(graph.x, graph.edge_index), h)


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_layer_with_one_active_channel_equals_a_single_convolution(graph, channel):
    layer = AdaptiveMixing(torch.nn.Linear(3, 15, bias=False), 5).double()
    torch.nn.init.zeros_(layer.mix)
    with torch.no_grad():
        layer.mix[:, channel] = 1e5  # the softmax selects this channel
    adj = OriginalAdjacency(normalization="row")(graph.x, graph.edge_index)
    r, identity = dense(adj), torch.eye(12).double()
    operator = (r, identity - r, identity)[channel]
    weight = layer.linear.weight.chunk(3)[channel].T
    torch.testing.assert_close(layer(graph.x, adj), 3 * (operator @ graph.x @ weight).relu())
