import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gread.adjacency import Adjacency
from gread.inputs import InputError
from gread.models import MODELS
from tests.checks import dense


def test_mlp_does_not_look_at_the_graph(graph):
    model = MODELS["mlp"].build(3, 8, 2).double().eval()
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert torch.equal(model(graph.x, graph.edge_index), model(graph.x, nothing))


def test_gcn_equals_dense_formula(graph):
    model = MODELS["gcn"].build(3, 8, 2).double().eval()
    s = dense(
        Adjacency.from_edges(*gcn_norm(graph.edge_index, num_nodes=12, dtype=torch.float64), 12)
    )
    first, second = model.convs
    h = torch.relu(s @ (graph.x @ first.lin.weight.T) + first.bias)
    expected = s @ (h @ second.lin.weight.T) + second.bias
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_one_layer_is_a_linear_map(graph):
    model = MODELS["mlp"].build(3, 8, 2, num_layers=1).double().eval()
    expected = graph.x @ model.convs[0].weight.T + model.convs[0].bias
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)
    with pytest.raises(InputError, match="num_layers must be a whole number of at least 1, got 0"):
        MODELS["gcn"].build(3, 8, 2, num_layers=0)
