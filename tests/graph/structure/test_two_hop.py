import networkx
import pytest
import torch

from gread.graph.structure.two_hop import two_steps_away


@pytest.mark.parametrize("loops", [False, True])
def test_two_hop_pairs_have_shortest_path_length_two(graph, loops):
    edges = graph.edge_index[:, ::3]
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    if loops:
        edges = torch.cat([edges, torch.arange(12).expand(2, 12)], dim=1)
    net = networkx.Graph(edges.T.tolist())
    expected = {
        (one, other)
        for one, distances in networkx.all_pairs_shortest_path_length(net)
        for other, distance in distances.items()
        if distance == 2
    }
    found = two_steps_away(edges, 12)
    assert found.dtype == torch.int64
    assert found.size(1) == len(expected) > 0
    assert set(map(tuple, found.T.tolist())) == expected


def test_two_hop_pairs_follow_edge_directions():
    assert two_steps_away(torch.tensor([[0, 1], [1, 2]]), 3).tolist() == [[0], [2]]


def test_graph_without_edges_has_no_two_hop_pairs():
    assert two_steps_away(torch.empty(2, 0, dtype=torch.int64), 3).shape == (2, 0)
