import math

import torch
from torch.nn.functional import elu, softplus
from torch_geometric.utils import add_self_loops, to_dense_adj, to_undirected

from gread.models.catalog import MODELS
from gread.models.ggcn import SignedMessages

CYCLE_WITH_LEAF = to_undirected(torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 4]]))


def messages(part: SignedMessages, z):
    """Messages by their equation, entry by entry."""
    with_loops = to_dense_adj(CYCLE_WITH_LEAF, max_num_nodes=5)[0].double() + torch.eye(5)
    degree = with_loops.sum(1)
    w = part.signs.softmax(0)
    out = w[2] * z
    for i in range(5):
        for j in range(5):
            if i != j and with_loops[i, j]:
                cosine = z[i] @ z[j] / (z[i].norm() * z[j].norm())
                ratio = (degree[j] / degree[i]).sqrt() - 1
                t = softplus(part.degree[0] * ratio + part.degree[1])
                p = t * cosine / (degree[i] * degree[j]).sqrt()
                message = (w[0] if cosine > 0 else w[1]) * p * z[j]
                out = out + torch.zeros_like(z).index_put((torch.tensor(i),), message)
    return softplus(part.scale) * out


def test_ggcn_equals_dense_formula_on_five_nodes():
    model = MODELS["ggcn"].build(3, 4, 2, num_layers=4, decay=0.7).double().eval()
    for part in model.messages:
        for parameter in part.parameters():
            torch.nn.init.normal_(parameter)
    x = torch.randn(5, 3).double()
    first, skip = (x @ model.feature_map.weight + model.feature_map.bias).chunk(2, dim=1)
    y = messages(model.messages[0], first)
    r = elu(y) + elu(skip)
    y = messages(model.messages[1], model.linears[0](r))
    r = r + math.log(0.7 / 3**3 + 1) * elu(y)
    y = messages(model.messages[2], model.linears[1](r))
    r = r + math.log(0.7 / 4**3 + 1) * elu(y)
    y = messages(model.messages[3], model.linears[2](r))
    torch.testing.assert_close(model(x, CYCLE_WITH_LEAF), y)


def test_states_of_zero_have_finite_gradients(graph):
    model = MODELS["ggcn"].build(3, 8, 2).double()
    torch.nn.init.zeros_(model.feature_map.bias)
    x = graph.x.clone()
    x[4] = 0
    model(x, graph.edge_index).square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().max() < 1e4 for p in model.parameters())


def test_self_loops_do_not_change_the_output(graph):
    model = MODELS["ggcn"].build(3, 8, 2).double().eval()
    looped, _ = add_self_loops(graph.edge_index, num_nodes=12)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))
