"""The reactions that were explored for GREAD-X."""

import pytest
import torch

import gread
from gread.graph.adjacency import OriginalAdjacency
from gread.models.stacking import stack
from studies.explore_reactions import Advection, Perceptron


@pytest.fixture
def data():
    return gread.csbm(30, num_features=4)


def test_advection_equals_the_dense_sum(data):
    h = torch.randn(30, 5)
    adj = OriginalAdjacency()(h, data.edge_index)
    reaction = Advection(5)
    dense = adj @ torch.eye(30)
    v = h @ reaction.velocity.weight.T
    velocity = (v[None] - v[:, None]).tanh()  # of row i and column j
    expected = (dense[:, :, None] * velocity * h[None]).sum(1)
    torch.testing.assert_close(reaction(gread.State(h, h, h, adj)), expected)


@pytest.mark.parametrize("reaction", [Perceptron, Advection])
def test_members_of_a_population_have_their_own_reaction(data, reaction):
    models = [gread.GREADX(4, 8, 2, num_steps=2, reaction=reaction).eval() for _ in range(3)]
    expected = torch.stack([model(data.x, data.edge_index) for model in models])
    torch.testing.assert_close(stack(models).eval()(data.x, data.edge_index), expected)
