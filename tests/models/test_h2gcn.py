import pytest
import torch
from torch_geometric.utils import dense_to_sparse

from gread.graph.adjacency import OriginalAdjacency
from gread.graph.structure.two_hop import two_steps_away
from gread.models.catalog import MODELS
from tests.checks import dense


def build(**options):
    return MODELS["h2gcn"].build(3, 4, 2, **options).double().eval()


def operator(edge_index):
    return dense(OriginalAdjacency(self_loops=0.0)(torch.empty(12, 1).double(), edge_index))


@pytest.mark.parametrize("activation", [False, True])
def test_h2gcn_equals_dense_formula(graph, activation):
    model = build(rounds=2, activation=activation)
    near, far = operator(graph.edge_index), operator(two_steps_away(graph.edge_index, 12))
    r0 = graph.x @ model.encoder.weight
    r0 = torch.relu(r0) if activation else r0
    r1 = torch.cat([near @ r0, far @ r0], dim=1)
    r2 = torch.cat([near @ r1, far @ r1], dim=1)
    expected = torch.cat([r0, r1, r2], dim=1) @ model.decoder.weight.T
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_complete_graph_uses_only_direct_neighbours(graph):
    complete, _ = dense_to_sparse(1 - torch.eye(12))
    assert two_steps_away(complete, 12).numel() == 0
    model = build(rounds=1)
    r0 = torch.relu(graph.x @ model.encoder.weight)
    r1 = operator(complete) @ r0
    expected = torch.cat([r0, r1, torch.zeros_like(r1)], dim=1) @ model.decoder.weight.T
    torch.testing.assert_close(model(graph.x, complete), expected)


def test_given_two_hop_pairs_are_used(graph):
    model = build()
    none = torch.empty(2, 0, dtype=torch.int64)
    here = model(graph.x, graph.edge_index, two_hop=none)
    assert not torch.allclose(here, model(graph.x, graph.edge_index))


def test_self_loops_do_not_change_the_output(graph):
    model = build()
    looped = torch.cat([graph.edge_index, torch.arange(12).expand(2, 12)], dim=1)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))
