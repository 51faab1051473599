import pytest
import torch

from gread.graph.adjacency import OriginalAdjacency
from gread.models.catalog import MODELS
from gread.training.optimizer import HasParameterGroups
from tests.checks import dense


def build(**options):
    return MODELS["gpr-gnn"].build(3, 4, 2, **options).double().eval()


@pytest.mark.parametrize("power", [0, 1, 4])
def test_one_hot_filter_weights_give_a_power_of_the_operator(graph, power):
    model = build(order=4)
    model.gamma.data = torch.eye(5, dtype=torch.float64)[power]
    s = dense(OriginalAdjacency()(graph.x, graph.edge_index))
    z = model.decoder(model.encoder(graph.x))
    expected = torch.linalg.matrix_power(s, power) @ z
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_gpr_gnn_equals_dense_polynomial(graph):
    model = build(order=3)
    model.gamma.data = torch.randn(4, dtype=torch.float64)
    s = dense(OriginalAdjacency()(graph.x, graph.edge_index))
    filter_ = sum(g * torch.linalg.matrix_power(s, k) for k, g in enumerate(model.gamma))
    expected = filter_ @ model.decoder(model.encoder(graph.x))
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


@pytest.mark.parametrize(
    ("alpha", "gamma"), [(0.1, [0.1, 0.09, 0.081, 0.729]), (1.0, [1, 0, 0, 0]), (0.0, [0, 0, 0, 1])]
)
def test_initial_filter_weights_are_pagerank_coefficients(alpha, gamma):
    found = MODELS["gpr-gnn"].build(3, 4, 2, order=3, alpha=alpha).gamma
    torch.testing.assert_close(found.data, torch.tensor(gamma, dtype=torch.float32))


def test_filter_weights_have_no_weight_decay():
    model = build()
    assert isinstance(model, HasParameterGroups)
    decaying, free = model.parameter_groups(0.3)
    assert (decaying["weight_decay"], free["weight_decay"]) == (0.3, 0.0)
    assert free["params"] == [model.gamma]
    assert len(decaying["params"]) + 1 == len(list(model.parameters()))
