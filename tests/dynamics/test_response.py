import pytest
import torch

import gread
from gread.dynamics.response import evenly_spread, frequency_response


@pytest.mark.parametrize("reaction", ["bs", "st", "fb", "fb*"])
def test_frequency_response_equals_the_scaling_of_eigenvectors(graph, reaction):
    layer = gread.ReactionDiffusionConv(
        1, reaction=reaction, adjacency="original", time=1.7, step_size=0.3, solver="heun"
    ).double()
    adj = layer.adjacency(graph.x[:, :1], graph.edge_index)
    values, vectors = torch.linalg.eigh(adj @ torch.eye(12, dtype=torch.float64))
    with torch.no_grad():
        coefficients = (torch.as_tensor(c).flatten() for c in (layer.alpha(), layer.beta()))
        found = frequency_response(layer.terms, *coefficients, values, layer.integration)
        for place in (0, 5, 11):
            vector = vectors[:, place : place + 1]
            after = layer(vector, graph.edge_index)
            torch.testing.assert_close(after, found[place] * vector)


def test_the_response_of_two_channels_on_a_weighted_graph():
    weight = torch.rand(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = weight + weight.T
    index = weight.nonzero().T
    layer = gread.ReactionDiffusionConv(
        2, adjacency="original", time=1.7, step_size=0.5, solver="rk4", self_loops=0.0
    ).double()
    adj = layer.adjacency(torch.ones(6, 2).double(), index, weight[tuple(index)])
    dense = adj @ torch.eye(6, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(dense)
    with torch.no_grad():
        expected = frequency_response(
            layer.terms, layer.alpha().double(), layer.beta().double(), values, layer.integration
        )
        for number in range(6):
            h0 = vectors[:, number : number + 1].expand(6, 2).contiguous()
            found = layer(h0, index, weight[tuple(index)])
            torch.testing.assert_close(found, expected[number] * h0, rtol=1e-6, atol=1e-9)


def test_selected_channels_are_evenly_spaced_by_rank_of_beta():
    beta = torch.tensor([0.3, -1.0, 0.9, 0.0, 0.5])
    assert beta[evenly_spread(beta, 3)].tolist() == pytest.approx([-1.0, 0.3, 0.9])
    assert sorted(evenly_spread(beta, 24).tolist()) == [0, 1, 2, 3, 4]
