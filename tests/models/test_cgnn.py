import pytest
import torch
from torch import nn
from torch_geometric.utils import add_self_loops

import gread
from gread.base.errors import InputError
from gread.models.catalog import MODELS


def build(**options):
    options = {"input_dropout": 0.0, "num_nodes": 12} | options
    model = MODELS["cgnn"].build(3, 4, 2, **options).double().eval()
    nn.init.normal_(model.alpha.logit)
    return model


def a_hat(graph, omega):
    a = torch.zeros(12, 12, dtype=torch.float64)
    a[graph.edge_index[1], graph.edge_index[0]] = 1
    a = a + omega * torch.eye(12)
    root = a.sum(1).rsqrt()
    return root.unsqueeze(1) * a * root


def test_cgnn_without_weights_equals_the_matrix_exponential(graph):
    """The solution of H' = M H + H(0), M = ½ diag(σ(α)) (Â − I), is a matrix exponential."""
    model = build(time=3.0, step_size=0.02, loop_weight=0.555)
    m = model.alpha() / 2 * (a_hat(graph, 0.555) - torch.eye(12))
    matrix = torch.zeros(24, 24, dtype=torch.float64)
    matrix[:12, :12], matrix[:12, 12:] = m, torch.eye(12)
    h0 = model.encoder(graph.x)
    exact = (torch.linalg.matrix_exp(3 * matrix) @ torch.cat([h0, h0]))[:12]
    final = model.evolve(graph.x, graph.edge_index).final
    torch.testing.assert_close(final, exact)
    assert h0.shape == (12, 8)
    assert not h0[:, 4:].any()
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder[1](exact[:, :4]))


def test_weights_add_a_linear_term_to_the_euler_step(graph):
    plain, model = build(solver="euler", time=0.5), build(weights=True, solver="euler", time=0.5)
    model.load_state_dict(plain.state_dict(), strict=False)
    h0 = model.encoder(graph.x)
    expected = plain.evolve(graph.x, graph.edge_index).final
    expected = expected + 0.5 * (h0 @ model.weight() - h0)
    torch.testing.assert_close(model.evolve(graph.x, graph.edge_index).final, expected)


def assert_orthogonal(u):
    """Check orthogonality up to rounding errors of single precision."""
    torch.testing.assert_close(u @ u.T, torch.eye(8, dtype=u.dtype), atol=1e-5, rtol=0)


def test_the_weight_stays_a_contraction_with_an_orthogonal_basis_in_training(graph):
    model = MODELS["cgnn"].build(3, 4, 2, num_nodes=12, weights=True).double()
    before = model.weight.basis.weight.clone()
    gread.fit(model, graph, gread.TrainConfig(epochs=20, lr=0.1))
    assert_orthogonal(model.weight.basis.weight)
    assert not torch.allclose(model.weight.basis.weight, before)
    w = model.weight()
    torch.testing.assert_close(w, w.T)
    values = torch.linalg.eigvalsh(w)
    assert values.min() > -1e-6
    assert values.max() < 1 + 1e-6
    for parameter in model.parameters():
        nn.init.constant_(parameter, 9.0)
    model.reset_parameters()
    assert not any((parameter == 9.0).any() for parameter in model.parameters())
    assert_orthogonal(model.weight.basis.weight)


def test_existing_self_loops_do_not_change_the_output(graph):
    model = build(loop_weight=0.3, time=2.0)
    looped, weight = add_self_loops(graph.edge_index, torch.ones(graph.num_edges), num_nodes=12)
    expected = model(graph.x, graph.edge_index)
    torch.testing.assert_close(model(graph.x, looped), expected)
    torch.testing.assert_close(model(graph.x, looped, weight.double()), expected)


def test_graph_with_another_number_of_nodes_is_rejected(graph):
    with pytest.raises(InputError, match=r"x must have 9 rows, one for each node .*, got 12"):
        build(num_nodes=9)(graph.x, graph.edge_index)


def test_meta_device_model_has_the_same_parameter_shapes():
    def shapes():
        made = MODELS["cgnn"].build(3, 4, 2, num_nodes=5, weights=True)
        return {name: tensor.shape for name, tensor in made.state_dict().items()}

    with torch.device("meta"):
        found = shapes()
    assert found == shapes()
