"""Stacked models give the numbers of single models, forward and backward."""

import pytest
import torch

import gread
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.models.attention import NORMALIZERS
from gread.models.layers import ALPHAS, BETAS, DECODERS, ENCODERS
from gread.models.stacking import CannotStack, Dropouts, Seeds, keep, stack, unstack

TABLES = [name for name, solver in SOLVERS.items() if isinstance(solver, Tableau)]
TIMES, STEPS = (0.9, 1.5, 0.0, 0.4), (0.3, 1.0, 1.0, 0.15)


@pytest.fixture(scope="module")
def graph():
    data = gread.load("csbm", num_nodes=60)
    data.x = 0.1 * data.x.double()
    return data


def four_models(graph, channels=8, **settings):
    """Four models with different times, steps and coefficients."""
    alphas, betas = ([k for k in kinds if k != "matrix"] * 4 for kinds in (ALPHAS, BETAS))
    models = []
    for number, (time, step_size) in enumerate(zip(TIMES, STEPS, strict=True)):
        torch.manual_seed(number)
        own = {"alpha": alphas[number], "beta": betas[number], "time": time}
        sizes = graph.num_features, channels, 3
        model = gread.GREAD(*sizes, **{"step_size": step_size, **own, **settings}).double()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        models.append(model.eval())
    return models


def logits_and_gradients(model, graph, upstream):
    model.zero_grad()
    logits = model(graph.x, graph.edge_index, graph.edge_weight)
    logits.backward(upstream)
    return logits.detach(), [parameter.grad for parameter in model.parameters()]


def check(models, graph):
    upstream = torch.randn(len(models), 60, 3, dtype=torch.float64)
    together = stack(models)
    logits, _ = logits_and_gradients(together, graph, upstream)
    for parameter in together.parameters():  # so that `unstack` gives the gradients back
        parameter.data = parameter.grad
    alone = [logits_and_gradients(m, graph, u) for m, u in zip(models, upstream, strict=True)]
    torch.testing.assert_close(logits, torch.stack([one for one, _ in alone]))
    unstack(together, models, range(len(models)))
    for model, (_, gradients) in zip(models, alone, strict=True):
        for got, expected in zip(model.parameters(), gradients, strict=True):
            expected = torch.zeros_like(got) if expected is None else expected
            torch.testing.assert_close(got.data, expected)


@pytest.mark.parametrize("solver", TABLES)
@pytest.mark.parametrize("adjacency", ["original", "soft"])
@pytest.mark.parametrize("reaction", [*gread.REACTIONS, None])
def test_stacked_members_equal_single_models(graph, reaction, adjacency, solver):
    check(four_models(graph, reaction=reaction, adjacency=adjacency, solver=solver), graph)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("output_activation", [True, False])
def test_stacked_members_support_every_encoder_and_decoder(
    graph, encoder, decoder, output_activation
):
    forms = {"encoder": encoder, "decoder": decoder, "output_activation": output_activation}
    check(four_models(graph, **forms), graph)


@pytest.mark.parametrize("adjacency", ["original", "soft"])
@pytest.mark.parametrize("loop_in_the_graph", [True, False])
def test_stacked_members_may_differ_in_normalization_loops_and_activation(
    graph, adjacency, loop_in_the_graph
):
    if loop_in_the_graph:
        graph = graph.clone()
        twice = torch.tensor([[5, 7, 7], [5, 7, 7]])
        graph.edge_index = torch.cat([graph.edge_index, twice, graph.edge_index[:, :4]], 1)
    models = []
    for number, normalization in enumerate([*gread.graph.adjacency.NORMALIZATIONS, "symmetric"]):
        own = {"normalization": normalization, "self_loops": float(number % 2)}
        own |= {"output_activation": number > 1, "adjacency": adjacency}
        models += four_models(graph, **own)[number : number + 1]
    assert len(models) == 4
    check(models, graph)
    together = stack(models)
    whole = together(graph.x, graph.edge_index)
    keep(together, [3, 0])
    torch.testing.assert_close(together(graph.x, graph.edge_index), whole[[3, 0]])


def test_stacked_adjacencies_may_differ_in_weights_of_own_loops(graph):
    loops = torch.tensor([[5, 7], [5, 7]])
    edge_index = torch.cat([graph.edge_index, loops], 1)
    weight = torch.rand(edge_index.size(1), dtype=torch.float64) + 1.5
    made = [gread.OriginalAdjacency(self_loops=0.5, own_loops=own) for own in (True, False)]
    found = stack(made)(graph.x, edge_index, weight) @ torch.stack([graph.x, graph.x])
    for member, one in zip(found, made, strict=True):
        torch.testing.assert_close(member, one(graph.x, edge_index, weight) @ graph.x)


def test_member_without_self_loops_ignores_loops_of_other_members(graph):
    """This holds even if the loops get all attention."""
    models = [
        model
        for loops in (0.0, 1.0)
        for model in four_models(graph, adjacency="soft", self_loops=loops)
    ]
    for model in models:
        model.layer.adjacency.query.weight.data.mul_(100)
        model.layer.adjacency.key.weight.data.copy_(model.layer.adjacency.query.weight)
    check(models, graph)


def test_stacked_members_support_sparse_features_and_detached_source(graph):
    words = graph.clone()
    words.x = (torch.rand(60, 40) < 0.1).double()
    check(four_models(words, reaction="st", detach_source=True), words)


@pytest.mark.parametrize("source", ["initial", "none"])
@pytest.mark.parametrize("solver", TABLES)
def test_stacked_grand_members_equal_single_models(graph, solver, source):
    models = []
    for time, step_size in zip(TIMES, STEPS, strict=True):
        own = {"time": time, "step_size": step_size, "solver": solver, "source": source}
        model = gread.MODELS["grand"].build(graph.num_features, 8, 3, heads=2, **own).double()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        models.append(model.eval())
    check(models, graph)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("normalization", ["row", "column"])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("attention", ["scaled-dot", "cosine"])
def test_stacked_grand_members_support_every_attention_form(
    graph, attention, normalizer, normalization, linear, weighted
):
    own = {"attention": attention, "normalizer": normalizer, "normalization": normalization}
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = (
            gread.MODELS["grand"]
            .build(graph.num_features, 8, 3, heads=2, time=2.0, step_size=0.5, linear=linear, **own)
            .double()
        )
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        models.append(model.eval())
    if weighted:
        graph = graph.clone()
        graph.edge_weight = torch.rand(graph.num_edges, dtype=torch.float64).round(decimals=1)
    check(models, graph)


def test_diverging_member_does_not_affect_other_members(graph):
    models = four_models(graph, reaction="f")
    with torch.no_grad():
        models[1].encoder.weight.fill_(torch.nan)
    logits = stack(models)(graph.x, graph.edge_index)
    assert logits.isfinite().all(-1).all(-1).tolist() == [True, False, True, True]


def test_stacked_dropout_draws_the_same_masks_as_single_models(graph):
    rates = {"input_dropout": (0.5, 0.0, 0.3), "dropout": (0.2, 0.4, 0.0)}
    models, generators, alone = [], [], []
    for number in range(3):
        torch.manual_seed(number)
        own = {name: each[number] for name, each in rates.items()}
        models.append(gread.GREAD(graph.num_features, 8, 3, decoder="mlp", **own).double())
        generators.append(torch.Generator())
        generators[-1].set_state(torch.get_rng_state())
        alone.append(torch.stack([models[-1](graph.x, graph.edge_index) for _ in range(3)]))
    together = stack(models)
    Seeds(generators, 12, torch.device("cpu")).give_to(together)
    found = torch.stack([together(graph.x, graph.edge_index) for _ in range(3)], 1)
    torch.testing.assert_close(found, torch.stack(alone))


STACKABLE = [(name, {}) for name, entry in gread.MODELS.items() if entry.population is not None]


@pytest.mark.parametrize(("name", "form"), [*STACKABLE, ("gread-x", {"weights": "shared"})])
def test_every_dropout_draws_one_seed_in_a_forward_pass(graph, name, form):
    entry = gread.MODELS[name]
    rates = {"input_dropout": 0.5, "dropout": 0.2}
    model = stack([entry.make(graph.num_features, 8, 3, num_nodes=60, **rates, **form).double()])
    uses = sum(isinstance(module, Dropouts) for module in model.modules())
    seeds = Seeds([torch.Generator()], 2 * uses, torch.device("cpu"))
    seeds.give_to(model)
    for _ in range(2):
        model(graph.x, graph.edge_index)
    assert seeds.next.item() == 2 * uses


def test_keep_selects_the_remaining_members(graph):
    models = four_models(graph)
    together = stack(models)
    whole = together(graph.x, graph.edge_index)
    keep(together, [3, 1])
    torch.testing.assert_close(together(graph.x, graph.edge_index), whole[[3, 1]])


@pytest.mark.parametrize("name", gread.MODELS)
def test_a_model_declares_whether_it_can_be_stacked(name):
    entry = gread.MODELS[name]
    if entry.population is None:
        with pytest.raises(CannotStack):
            stack([entry.make(4, 8, 2, num_nodes=5)])
    else:
        assert {*entry.population.own({})} <= {*entry.hyperparameters}
        stack([entry.make(4, 8, 2, num_nodes=5)])


def test_stacking_unsupported_models_raises_cannot_stack(graph):
    with pytest.raises(CannotStack, match="adaptive solver"):
        stack(four_models(graph, solver="dopri5"))
    with pytest.raises(CannotStack, match="known terms"):
        stack(four_models(graph, reaction=lambda s: s.h))
    for model, settings, reason in (
        ("gcn", {}, "no rule for GCN"),
        ("grand", {"attention": "exponential"}, "no rule for KernelScores"),
        ("grand++", {}, "trained on"),
    ):
        with pytest.raises(CannotStack, match=reason):
            stack([gread.MODELS[model].build(4, 8, 2, **settings)])
    times = [gread.MODELS["grand"].build(4, 8, 2, linear=False, time=time) for time in (1.0, 2.0)]
    with pytest.raises(CannotStack, match="T or τ are not the same"):
        stack(times)
