import torch
from torch import nn
from torch_geometric.nn import MixHopConv

from gread.graph.adjacency import OriginalAdjacency
from gread.models.catalog import MODELS
from gread.models.layers import FeatureMap
from gread.models.mixhop import hops
from tests.checks import dense
from tests.models.test_convolutional import weight_of


def test_mixhop_equals_dense_formula(graph):
    model = MODELS["mixhop"].build(3, 4, 2).double().eval()
    (norm,) = model.norms
    nn.init.normal_(norm.running_mean)
    nn.init.normal_(model.scores)
    s = dense(OriginalAdjacency()(graph.x, graph.edge_index))

    def layer(h, number):
        parts = weight_of(model.layers[number]).chunk(3, dim=1)
        return [torch.linalg.matrix_power(s, p) @ h @ w for p, w in enumerate(parts)]

    h = torch.cat(layer(graph.x / graph.x.norm(dim=1, keepdim=True), 0), dim=1)
    h = torch.relu((h - norm.running_mean) / (norm.running_var + norm.eps).sqrt())
    a = model.scores.exp() / model.scores.exp().sum()
    expected = sum(weight * part for weight, part in zip(a, layer(h, 1), strict=True))
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_mixhop_layer_equals_pyg_mixhopconv(graph):
    pyg = MixHopConv(3, 4, powers=[0, 1, 2], bias=False).double()
    y = torch.cat([linear(graph.x) for linear in pyg.lins], dim=1)
    adj = OriginalAdjacency()(graph.x, graph.edge_index)
    torch.testing.assert_close(hops(y, adj), pyg(graph.x, graph.edge_index))


def test_sparse_feature_rows_are_scaled_to_unit_norm():
    x = torch.rand(6, 20).double() * (torch.rand(6, 20) < 0.15)
    x[2] = 0
    sparse = FeatureMap(20, 3, 0.5, bias=False, unit_rows=True).double().eval()
    rows = x / x.norm(dim=1, keepdim=True).clamp_min(1e-9)
    torch.testing.assert_close(sparse(x), rows @ sparse.weight)
    torch.testing.assert_close(sparse(x.clone().requires_grad_()), rows @ sparse.weight)
