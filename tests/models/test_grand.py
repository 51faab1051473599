import pytest
import torch
from torch import nn

import gread
from gread.base.errors import InputError
from gread.dynamics.solve import solve
from gread.dynamics.tableau import Integration
from gread.graph.measures import dirichlet_energy
from gread.models.attention import NORMALIZERS, SCORES
from gread.models.catalog import MODELS
from gread.models.grand import GRAND, centred
from tests.checks import dense


def build(name="grand", width=4, **options):
    options = {"input_dropout": 0.0} | options
    return MODELS[name].build(3, width, 2, **options).double().eval()


def randomize(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def test_gread_with_zero_beta_is_linear_grand_without_a_source(graph):
    grand = randomize(build(source="none", time=2.0))
    model = gread.GREAD(
        3, 4, 2, alpha="scalar", time=2.0, input_dropout=0.0, output_activation=True
    ).double()
    model.encoder.load_state_dict(grand.encoder.state_dict())
    model.decoder.load_state_dict(grand.decoder.state_dict())
    model.layer.alpha.load_state_dict(grand.diffusion.alpha.state_dict())
    queries = grand.diffusion.attention.scores.queries
    model.layer.adjacency.query.load_state_dict(queries.query.state_dict())
    model.layer.adjacency.key.load_state_dict(queries.key.state_dict())
    nn.init.zeros_(model.layer.beta.value)
    torch.testing.assert_close(model(graph.x, graph.edge_index), grand(graph.x, graph.edge_index))


@pytest.mark.parametrize("attention", SCORES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_grand_l_solves_its_equation(graph, attention, normalizer):
    """The solution of H' = σ(α) (Ā − I) H + β H(0) is a matrix exponential."""
    form = {"attention": attention, "normalizer": normalizer, "normalization": "column"}
    model = randomize(build(time=1.5, step_size=0.01, **form))
    h0 = model.encoder(graph.x)
    a = dense(model.diffusion.attention(h0, graph.edge_index, None))
    matrix = torch.zeros(24, 24, dtype=torch.float64)
    matrix[:12, :12] = model.diffusion.alpha() * (a - torch.eye(12))
    matrix[:12, 12:] = model.beta() * torch.eye(12)
    exact = torch.linalg.matrix_exp(1.5 * matrix) @ torch.cat([h0, h0])
    found = model.evolve(graph.x, graph.edge_index)
    torch.testing.assert_close(found.final, exact[:12])
    assert found.evaluations == 600


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("source", ["none", "initial"])
def test_saving_intermediate_states_does_not_change_the_output(graph, linear, source):
    model = randomize(build(linear=linear, source=source, time=2.3))
    seen = model.evolve(graph.x, graph.edge_index, save_at=[0.0, 1.0, 2.3])
    torch.testing.assert_close(seen.final, model.evolve(graph.x, graph.edge_index).final)
    torch.testing.assert_close(seen.saved[0], model.encoder(graph.x))
    logits = model.decoder(seen.saved[-1])
    torch.testing.assert_close(logits, model(graph.x, graph.edge_index))


def test_nonlinear_grand_recomputes_attention_in_every_step(graph):
    """The first Euler step is the same; the second uses attention from H(τ)."""
    both = [
        randomize(build(linear=linear, source="none", solver="euler")) for linear in (True, False)
    ]
    both[1].load_state_dict(both[0].state_dict())
    first, second = (model.evolve(graph.x, graph.edge_index).final for model in both)
    torch.testing.assert_close(first, second)
    model = build(linear=False, source="none", solver="euler", time=2.0)
    model.load_state_dict(both[0].state_dict())
    a = dense(model.diffusion.attention(second, graph.edge_index, None))
    expected = second + model.diffusion.alpha() * (a @ second - second)
    torch.testing.assert_close(model.evolve(graph.x, graph.edge_index).final, expected)


@pytest.mark.parametrize("linear", [True, False])
def test_diffusion_decreases_energy_and_stays_within_initial_bounds(graph, linear):
    model = build(linear=linear, source="none", time=5.0, step_size=0.25)
    times = torch.linspace(0, 5, 21).tolist()
    states = model.evolve(graph.x, graph.edge_index, save_at=times).saved
    energy = torch.stack([dirichlet_energy(h, graph.edge_index) for h in states])
    assert (energy.diff() <= 0).all()
    states = randomize(model).evolve(graph.x, graph.edge_index, save_at=times).saved
    assert (torch.stack([h.amax(0) for h in states]).diff(dim=0) <= 1e-12).all()
    assert (torch.stack([h.amin(0) for h in states]).diff(dim=0) >= -1e-12).all()


def test_grand_at_time_zero_equals_encoder_and_decoder(graph):
    model = randomize(build(time=0.0))
    expected = model.decoder(model.encoder(graph.x))
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)
    model.integration = Integration(1e-12)
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_the_source_passes_no_gradient(graph):
    model = build(width=3, time=1.0)
    nn.init.constant_(model.diffusion.alpha.logit, -torch.inf)  # no diffusion
    nn.init.ones_(model.beta.value)
    h0 = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    final = solve(model.field(h0, graph.edge_index, None), h0, model.integration).final
    torch.testing.assert_close(final, 2 * h0)
    final.sum().backward()
    torch.testing.assert_close(h0.grad, torch.ones_like(h0))


def test_grand_plus_plus_without_trusted_nodes_is_grand(graph):
    model = randomize(build("grand++", time=2.0))
    grand = build(source="none", time=2.0)
    grand.load_state_dict(model.state_dict())
    expected = grand(graph.x, graph.edge_index)
    no_nodes = torch.zeros(12, dtype=torch.bool)
    for mask in (None, no_nodes):
        found = model(graph.x, graph.edge_index, train_mask=mask)
        torch.testing.assert_close(found, expected)
    all_nodes = model(graph.x, graph.edge_index, train_mask=~no_nodes)
    assert not torch.allclose(all_nodes, expected)


def test_source_is_restricted_to_trusted_nodes_and_sums_to_zero(graph):
    h0, trusted = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) < 5
    source = centred(h0, trusted)
    torch.testing.assert_close(source.sum(0), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(source[:5], h0[:5] - h0[:5].mean(0))
    assert not source[5:].any()


def test_grand_plus_plus_is_trained_with_the_mask_of_the_split(graph):
    model = MODELS["grand++"].build(3, 4, 2, input_dropout=0.0).double()
    seen = []
    model.register_forward_pre_hook(
        lambda _, __, options: seen.append(options["train_mask"]), with_kwargs=True
    )
    gread.fit(model, graph, gread.TrainConfig(epochs=2), split=1)
    assert seen
    assert all(torch.equal(mask, graph.train_mask[:, 1]) for mask in seen)
    assert not torch.equal(seen[0], graph.train_mask[:, 0])


def test_unknown_source_is_rejected():
    sentence = "unknown source 'river'; choose from: none, initial, trusted"
    with pytest.raises(InputError, match=sentence):
        GRAND(3, 4, 2, source="river")
