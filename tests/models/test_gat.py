import torch
from torch import nn
from torch_geometric.nn import GATConv

from gread.models.catalog import MODELS
from tests.models.test_convolutional import weight_of


def test_gat_equals_the_layers_of_pyg(graph):
    model = MODELS["gat"].build(3, 5, 2, heads=4, output_heads=3).double().eval()
    h = graph.x
    for layer, last in zip(model.layers, (False, True), strict=True):
        nn.init.normal_(layer.bias)
        heads, channels = layer.mix.source.shape[1:]
        pyg = GATConv(weight_of(layer).size(0), channels, heads, concat=not last).double()
        pyg.lin.weight.data, pyg.bias.data = weight_of(layer).T, layer.bias
        pyg.att_src.data, pyg.att_dst.data = layer.mix.source, layer.mix.target
        h = pyg(h, graph.edge_index)
        h = h if last else nn.functional.elu(h)
    torch.testing.assert_close(model(graph.x, graph.edge_index), h)


def test_gradients_equal_those_of_pyg(graph):
    model = MODELS["gat"].build(3, 5, 2, heads=4, num_layers=1, output_heads=5).double().eval()
    (layer,) = model.layers
    pyg = GATConv(3, 2, 5, concat=False).double()
    pyg.lin.weight.data = weight_of(layer).T.clone()
    pyg.att_src.data, pyg.att_dst.data = layer.mix.source.data, layer.mix.target.data
    for found in (model(graph.x, graph.edge_index), pyg(graph.x, graph.edge_index)):
        found.square().sum().backward()
    torch.testing.assert_close(layer.linear.weight.grad, pyg.lin.weight.grad.T)
    torch.testing.assert_close(layer.mix.source.grad, pyg.att_src.grad)
    torch.testing.assert_close(layer.mix.target.grad, pyg.att_dst.grad)


def test_weights_scale_the_attention_and_zero_removes_an_edge(graph):
    model = MODELS["gat"].build(3, 4, 2).double().eval()
    weight = torch.ones(graph.num_edges, dtype=torch.float64)
    some = torch.arange(graph.num_edges) % 3 > 0
    weight[~some] = 0
    torch.testing.assert_close(
        model(graph.x, graph.edge_index, weight), model(graph.x, graph.edge_index[:, some])
    )
    twice = torch.cat([graph.edge_index, graph.edge_index[:, some]], dim=1)
    torch.testing.assert_close(model(graph.x, graph.edge_index, 1 + weight), model(graph.x, twice))
