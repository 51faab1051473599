"""GREAD-X and its special cases."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

import gread
from gread.base.errors import InputError
from gread.models.gread_x import DIRECTIONS, GREADX
from gread.models.stacking import stack
from gread.models.steps import ACTIVATIONS, COEFFICIENTS, NORMS, MatrixMixture
from gread.training.population import fit_together


@pytest.fixture
def directed(graph):
    """Edges in one direction alone."""
    source, target = graph.edge_index
    graph.edge_index = graph.edge_index[:, source < target]
    return graph


def set_matrices(mixture: MatrixMixture, *factors: float) -> None:
    """Multiples of the identity, one for each term."""
    eye = torch.eye(mixture.linear.out_features, dtype=mixture.linear.weight.dtype)
    with torch.no_grad():
        mixture.linear.weight.copy_(torch.cat([factor * eye for factor in factors], 1))
        mixture.linear.bias.zero_()


def linear_steps(**options) -> GREADX:
    given = {"weights": "shared", "norm": "none", "activation": "none", "dropout": 0.0} | options
    return GREADX(3, 8, 2, **given).double().eval()


@pytest.mark.parametrize("reaction", gread.REACTIONS)
def test_with_multiples_of_the_identity_it_is_gread_by_euler(graph, reaction):
    tau, alpha, beta, steps = 0.25, 0.7, 0.3, 5
    options = {"alpha": "one", "beta": "one", "adjacency": "original", "solver": "euler"}
    known = gread.GREAD(
        3, 8, 2, reaction=reaction, time=tau * steps, step_size=tau, **options
    ).double()
    known.layer.alpha.forward = lambda: alpha
    known.layer.beta.forward = lambda: beta
    model = linear_steps(reaction=reaction, num_steps=steps)
    model.encoder.load_state_dict(known.encoder.state_dict())
    set_matrices(model.steps[0].mixture, 1 - tau * alpha, tau * alpha, tau * beta)
    expected = known.eval().hidden_states(0.3 * graph.x, graph.edge_index)
    found = model.hidden_states(0.3 * graph.x, graph.edge_index)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_without_a_reaction_a_step_is_a_gcn_layer_with_a_linear_residual(graph):
    model = linear_steps(reaction="none", num_steps=1)
    conv, residual = GCNConv(8, 8).double(), nn.Linear(8, 8, bias=False).double()
    with torch.no_grad():
        weight = torch.cat([residual.weight, conv.lin.weight], 1)
        model.steps[0].mixture.linear.weight.copy_(weight)
        model.steps[0].mixture.linear.bias.copy_(conv.bias)
    first, last = model.hidden_states(graph.x, graph.edge_index)
    torch.testing.assert_close(last, conv(first, graph.edge_index) + residual(first))


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_form_is_trained_and_gives_finite_gradients(directed, coefficients, norm, direction):
    forms = {"coefficients": coefficients, "norm": norm, "direction": direction}
    model = GREADX(3, 4, 2, num_steps=2, **forms).double()
    model(directed.x, directed.edge_index).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("residual", "jump"), [(True, False), (False, True), (True, True)])
def test_activations_residuals_and_jumps(graph, activation, residual, jump):
    model = GREADX(3, 4, 2, activation=activation, residual=residual, jump=jump).double()
    assert model(graph.x, graph.edge_index).shape == (12, 2)


def test_shared_weights_are_one_set_and_steps_have_their_own(graph):
    shared, each = (GREADX(3, 4, 2, num_steps=5, weights=w) for w in ("shared", "per-step"))
    assert len(shared.steps) == 1
    assert len(each.steps) == 5
    assert len(shared.double().hidden_states(graph.x, graph.edge_index)) == 6


def test_both_directions_are_two_operators(directed):
    """Turning all edges around exchanges the coefficients of the two."""
    torch.manual_seed(1)
    model = GREADX(3, 4, 2, num_steps=2, direction="both").double().eval()
    other = GREADX(3, 4, 2, num_steps=2, direction="both").double().eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for step in other.steps:
            ego, to, to_r, back, back_r = step.mixture.linear.weight.split(4, 1)
            step.mixture.linear.weight.copy_(torch.cat([ego, back, back_r, to, to_r], 1))
    found = model(directed.x, directed.edge_index)
    torch.testing.assert_close(found, other(directed.x, directed.edge_index.flip(0)))


def test_evolve_gives_states_after_steps(graph):
    model = GREADX(3, 4, 2, num_steps=3).double().eval()
    states = model.hidden_states(graph.x, graph.edge_index)
    found = model.evolve(graph.x, graph.edge_index, save_at=[0, 2])
    assert torch.equal(found.final, states[3])
    assert torch.equal(found.saved[1], states[2])
    assert found.evaluations == 3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("coefficients", COEFFICIENTS)
def test_members_give_what_they_give_alone(graph, norm, coefficients):
    form = {"num_steps": 2, "norm": norm, "coefficients": coefficients}
    models = [GREADX(3, 4, 2, **form).double() for _ in range(3)]
    for model in models:
        for _ in range(3):  # running statistics differ
            model(graph.x * torch.rand(()), graph.edge_index)
        model.eval()
    together = stack(models).eval()(graph.x, graph.edge_index)
    for one, model in zip(together, models, strict=True):
        torch.testing.assert_close(one, model(graph.x, graph.edge_index))


def test_a_population_with_batch_normalization_ends_where_its_members_end():
    data = gread.load("csbm", num_nodes=60)
    config = gread.TrainConfig(epochs=12)

    def make(seed):
        torch.manual_seed(seed)
        return GREADX(data.num_features, 4, 2, num_steps=2, dropout=0.0).double()

    data.x = data.x.double()
    models = [make(seed) for seed in range(3)]
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    fits = fit_together(models, data, [config] * 3, splits=range(3), generators=generators)
    for seed, (found, model) in enumerate(zip(fits, models, strict=True)):
        alone = make(seed)
        expected = gread.fit(alone, data, config, split=seed)
        assert [e.loss for e in found.history] == pytest.approx([e.loss for e in expected.history])
        out = model.eval()(data.x, data.edge_index)
        torch.testing.assert_close(out, alone.eval()(data.x, data.edge_index))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"norm": "bach"}, "unknown norm 'bach', did you mean 'batch'"),
        ({"num_steps": 0}, "num_steps must be a whole number of at least 1, got 0"),
        ({"coefficients": "tensor"}, "unknown coefficients 'tensor'"),
        ({"weights": "own"}, "unknown weights 'own'"),
        ({"direction": "in"}, "unknown direction 'in'"),
        ({"activation": "rule"}, "unknown activation 'rule'"),
    ],
)
def test_bad_settings_are_one_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence):
        GREADX(3, 4, 2, **options)


def test_both_directions_need_a_directed_graph(graph):
    model = GREADX(3, 4, 2, direction="both").double()
    with pytest.raises(InputError, match='direction must be "undirected"'):
        model(graph.x, graph.edge_index)
