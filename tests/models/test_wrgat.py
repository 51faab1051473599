import pytest
import torch
from torch.nn.functional import leaky_relu
from torch_geometric.utils import add_self_loops

from gread.base.errors import InputError
from gread.graph.structure.multigraph import structural_multigraph
from gread.models.catalog import MODELS


def attended(layer, weight, h, pairs):
    """Attention by its equation, node by node; ``pairs`` are (source, target, relation, w)."""
    *maps, root = weight.chunk(layer.query.size(0) + 1, dim=1)
    out = [h[i] @ root + layer.bias for i in range(len(h))]
    for r, w_r in enumerate(maps):
        for i in range(len(h)):
            near = [(j, w) for j, target, kind, w in pairs if target == i and kind == r]
            if near:
                y = [h[j] @ w_r for j, _ in near]
                own = h[i] @ w_r
                scores = [own @ layer.query[r] + one @ layer.key[r] for one in y]
                alpha = leaky_relu(torch.stack(scores), 0.2).softmax(0)
                terms = [w * a * one for (_, w), a, one in zip(near, alpha, y, strict=True)]
                out[i] = out[i] + sum(terms) / len(near)
    return torch.stack(out)


@pytest.mark.parametrize("weighted", [False, True])
def test_wrgat_equals_dense_formula(graph, weighted):
    model = MODELS["wrgat"].build(3, 5, 2, num_rings=2).double().eval()
    for layer in (model.first, model.second):
        torch.nn.init.normal_(layer.bias)
    edge_weight = torch.rand(graph.num_edges).double() if weighted else None
    w = torch.ones(graph.num_edges).double() if edge_weight is None else edge_weight
    index, kind, alike = structural_multigraph(graph.edge_index, 12)
    assert (kind > 2).any()  # must not be used
    pairs = [(*pair, 0, v) for pair, v in zip(graph.edge_index.T.tolist(), w, strict=True)]
    pairs += [
        (*pair, k, v)
        for pair, k, v in zip(index.T.tolist(), kind.tolist(), alike.double(), strict=True)
    ]
    h = attended(model.first, model.first.linear.weight, graph.x, pairs).relu()
    expected = attended(model.second, model.second.linear.weight.T, h, pairs)
    torch.testing.assert_close(model(graph.x, graph.edge_index, edge_weight), expected)


def test_self_loops_do_not_change_the_output(graph):
    model = MODELS["wrgat"].build(3, 5, 2).double().eval()
    looped, _ = add_self_loops(graph.edge_index, num_nodes=12)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))


def test_num_rings_above_the_maximum_is_rejected():
    with pytest.raises(InputError, match="num_rings must be at most 5, got 6"):
        MODELS["wrgat"].build(3, 5, 2, num_rings=6)
