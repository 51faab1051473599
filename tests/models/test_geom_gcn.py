import pytest
import torch
from torch_geometric.utils import add_self_loops, to_dense_adj

from gread.base.errors import InputError
from gread.graph.structure.relations import LOOP, NUM_RELATIONS, computed_relations
from gread.models.catalog import MODELS


def normalized(pairs, kind):
    """Dense S_r, [9, N, N], target by source."""
    each = torch.zeros(NUM_RELATIONS, 12, 12, dtype=torch.float64)
    each[kind, pairs[1], pairs[0]] = 1
    root = each.sum(0).sum(1).rsqrt()
    return each * root.unsqueeze(1) * root


def test_geom_gcn_equals_dense_formula(graph):
    model = MODELS["geom-gcn"].build(3, 5, 2).double().eval()
    pairs, kind = computed_relations(graph.edge_index, 12)
    assert len(kind.unique()) > 5
    each = normalized(pairs, kind)
    first = model.first.linear.weight.chunk(9, dim=1)
    h = torch.cat([s @ graph.x @ w for s, w in zip(each, first, strict=True)], dim=1).relu()
    second = model.second.linear.weight.T.chunk(9, dim=1)
    expected = sum(s @ h @ w for s, w in zip(each, second, strict=True)) / 9
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_geom_gcn_with_one_relation_equals_graph_convolution(graph):
    model = MODELS["geom-gcn"].build(3, 5, 2).double().eval()
    pairs, _ = add_self_loops(graph.edge_index, num_nodes=12)
    kind = torch.full((pairs.size(1),), LOOP)
    s = to_dense_adj(pairs, max_num_nodes=12)[0].double()
    s = s * s.sum(0).rsqrt() * s.sum(1, keepdim=True).rsqrt()  # the operator of GCN
    w = model.first.linear.weight.chunk(9, dim=1)[LOOP]
    v = model.second.linear.weight.T.chunk(9, dim=1)[LOOP]
    h = (s @ graph.x @ w).relu()
    expected = s @ h @ v[-5:] / 9  # only the last of the nine parts of the state is not zero
    found = model(graph.x, graph.edge_index, relation_index=pairs, relation_type=kind)
    torch.testing.assert_close(found, expected)


def test_edge_weights_other_than_one_are_rejected(graph):
    model = MODELS["geom-gcn"].build(3, 5, 2).double()
    with pytest.raises(InputError, match="edge_weight must be one everywhere"):
        model(graph.x, graph.edge_index, torch.full((graph.num_edges,), 0.5).double())
