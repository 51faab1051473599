import pickle

import pytest
import torch
from torch import nn
from torch_geometric.nn import ChebConv, GCNConv, PairNorm, SAGEConv

from gread.base.errors import InputError
from gread.graph.adjacency import OriginalAdjacency
from gread.models.catalog import MODELS
from gread.models.convolutional import ConvStack
from tests.checks import dense


class LinearGCN(ConvStack):
    """GCN without activation."""

    def activate(self, h, number):
        return h


def build(name, **options):
    return MODELS[name].build(3, 8, 2, **options).double().eval()


def weight_of(layer):
    """Weight [in, width]; layers after the first store it transposed."""
    if isinstance(layer.linear, nn.Sequential):
        return layer.linear[1].weight.T
    return layer.linear.weight


def operator(graph, **options):
    return dense(OriginalAdjacency(**options)(graph.x, graph.edge_index))


def test_mlp_equals_dense_formula_and_ignores_edges(graph):
    model = build("mlp")
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert torch.equal(model(graph.x, graph.edge_index), model(graph.x, nothing))
    first, second = model.layers
    for layer in model.layers:
        nn.init.normal_(layer.bias)
    h = nn.functional.elu(graph.x @ weight_of(first) + first.bias)
    expected = h @ weight_of(second) + second.bias
    torch.testing.assert_close(model(graph.x, nothing), expected)


def test_gcn_equals_dense_formula_and_the_layers_of_pyg(graph):
    model = build("gcn", num_layers=3)
    s, h, g = operator(graph), graph.x, graph.x
    for layer, last in zip(model.layers, (False, False, True), strict=True):
        nn.init.normal_(layer.bias)
        pyg = GCNConv(*weight_of(layer).shape).double()
        pyg.lin.weight.data, pyg.bias.data = weight_of(layer).T, layer.bias
        h, g = s @ h @ weight_of(layer) + layer.bias, pyg(g, graph.edge_index)
        h, g = (h, g) if last else (torch.relu(h), torch.relu(g))
    torch.testing.assert_close(model(graph.x, graph.edge_index), h)
    torch.testing.assert_close(model(graph.x, graph.edge_index), g)


def test_one_layer_is_a_linear_map(graph):
    model = build("mlp", num_layers=1)
    nn.init.normal_(model.layers[0].bias)
    expected = graph.x @ weight_of(model.layers[0]) + model.layers[0].bias
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)
    with pytest.raises(InputError, match="num_layers must be a whole number of at least 1, got 0"):
        MODELS["gcn"].build(3, 8, 2, num_layers=0)


def test_graphsage_equals_the_layers_of_pyg(graph):
    model = build("graphsage")
    h = graph.x
    for layer, last in zip(model.layers, (False, True), strict=True):
        nn.init.normal_(layer.bias)
        own, others = weight_of(layer).chunk(2, dim=1)
        pyg = SAGEConv(*own.shape).double()
        pyg.lin_r.weight.data, pyg.lin_l.weight.data = own.T, others.T
        pyg.lin_l.bias.data = layer.bias
        h = pyg(h, graph.edge_index)
        h = h if last else torch.relu(h)
    torch.testing.assert_close(model(graph.x, graph.edge_index), h)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_chebnet_equals_dense_formula_and_the_layers_of_pyg(graph, order):
    model = build("chebnet", order=order, num_layers=1)
    (layer,) = model.layers
    nn.init.normal_(layer.bias)
    scaled = -operator(graph, self_loops=0.0)
    identity = torch.eye(12, dtype=torch.float64)
    polynomials = [identity, scaled]
    while len(polynomials) <= order:
        polynomials.append(2 * scaled @ polynomials[-1] - polynomials[-2])
    parts = weight_of(layer).chunk(order + 1, dim=1)
    expected = layer.bias + sum(
        t @ graph.x @ w for t, w in zip(polynomials[: order + 1], parts, strict=True)
    )
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)
    pyg = ChebConv(3, 2, order + 1).double()
    pyg.bias.data = layer.bias
    for linear, part in zip(pyg.lins, parts, strict=True):
        linear.weight.data = part.T
    torch.testing.assert_close(model(graph.x, graph.edge_index), pyg(graph.x, graph.edge_index))


@pytest.mark.parametrize("name", ["graphsage", "chebnet"])
def test_self_loops_do_not_change_graphsage_and_chebnet(graph, name):
    model = build(name)
    loops = torch.arange(12).expand(2, 12)
    looped = torch.cat([graph.edge_index, loops], dim=1)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))
    weight = torch.rand(graph.num_edges, dtype=torch.float64)
    weighted = torch.cat([weight, torch.rand(12, dtype=torch.float64)])
    torch.testing.assert_close(
        model(graph.x, looped, weighted), model(graph.x, graph.edge_index, weight)
    )


def test_sgc_is_gcn_without_relu(graph):
    model = build("sgc", power=3)
    (layer,) = model.layers
    nn.init.normal_(layer.bias)
    expected = torch.linalg.matrix_power(operator(graph), 3) @ graph.x @ weight_of(layer)
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected + layer.bias)
    linear = LinearGCN(3, 8, 2).double().eval()
    model = build("sgc", power=2)
    first, second = linear.layers
    model.layers[0].linear.weight.data = weight_of(first) @ weight_of(second)
    torch.testing.assert_close(model(graph.x, graph.edge_index), linear(graph.x, graph.edge_index))


def test_pairnorm_equals_dense_formula(graph):
    model = build("pairnorm", scale=2.0, num_layers=3)
    s, h = operator(graph), graph.x
    for layer in model.layers[:-1]:
        h = s @ h @ weight_of(layer)
        h = h - h.mean(0)
        length = (h.square().sum(1).mean() + 1e-5).sqrt()
        h = torch.relu(2 * h / length)
    last = model.layers[-1]
    nn.init.normal_(last.bias)
    expected = s @ h @ weight_of(last) + last.bias
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_pairnorm_removes_a_constant_bias_so_hidden_layers_have_none():
    h, bias = torch.randn(5, 4), torch.randn(4)
    torch.testing.assert_close(PairNorm()(h + bias), PairNorm()(h))
    layers = build("pairnorm", num_layers=3).layers
    assert [layer.bias is None for layer in layers] == [True, True, False]


def test_pairnorm_prevents_the_collapse_of_deep_gcn_states(graph):
    connected = graph.subgraph(torch.arange(11))
    for name, collapsed in (("gcn", True), ("pairnorm", False)):
        model = build(name, num_layers=40)
        h = model.hidden_states(connected.x, connected.edge_index)[-2]
        spread = (h - h.mean(0)).norm() / h.norm()
        assert (spread < 0.5) == collapsed


def test_a_stack_can_be_pickled(graph):
    for name in ("mlp", "gcn", "graphsage", "sgc", "chebnet", "pairnorm"):
        model = build(name)
        again = pickle.loads(pickle.dumps(model))
        assert torch.equal(model(graph.x, graph.edge_index), again(graph.x, graph.edge_index))
