import time
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gread
from gread.estimator import problem as problems
from gread.estimator.attempt import Attempt
from gread.estimator.automatic import SEEDS, _trained, fit_blend
from gread.estimator.candidates import TREES, Candidate, portfolio
from gread.estimator.graphs import with_relations
from gread.estimator.problem import TRIED, Problem, variants
from gread.estimator.propagation import ALPHA, SMOOTH, _operator, _spread, propagated
from gread.estimator.race import FIRST, Contest, Entrant, Scored, choose, race
from gread.estimator.task import Classes, LabelSets, Numbers
from gread.graph.structure.spectral import spectral_positions
from gread.models.catalog import MODELS
from gread.tables.graph import Relations
from tests.estimator.conftest import train

FAST = {"epochs": 5, "hidden_channels": 4}


@pytest.fixture(scope="module")
def data():
    return gread.load("csbm", num_nodes=100, homophily=0.9, degree=6)


TASK = Classes((0, 1), "accuracy")


def problem_of(data, task=TASK, **about):
    return Problem(data, np.arange(80), task, **about)


@pytest.fixture
def problem(data):
    return problem_of(data)


def quick(candidate: Candidate) -> Candidate:
    settings = {**candidate.settings, **(FAST if candidate.model in MODELS else {})}
    return replace(candidate, settings=settings)


def one_way(data):
    """Graph with directed edges of two types."""
    source, target = data.edge_index
    edges = data.edge_index[:, source < target]
    types = Relations(("a", "b"), edges, torch.arange(edges.size(1)) % 2, None)
    return with_relations(Data(x=data.x, edge_index=edges, y=data.y), types)


@pytest.mark.parametrize("candidate", portfolio(), ids=lambda one: one.title)
def test_every_candidate_learns_and_gives_probabilities(data, candidate):
    problem = problem_of(one_way(data))
    found = train(problem, quick(candidate), np.arange(60), np.arange(60, 80), epochs=20)
    assert found.predictions.shape == (100, 2)
    assert found.predictions.sum(1) == pytest.approx(1, abs=1e-5)
    assert candidate.reason


def with_labels(data):
    """Graph with labels that depend on features and neighbours."""
    other = data.clone()
    other.y = torch.stack([data.y, data.x[:, 0] > 0, data.x[:, 1] > 0], 1).double()
    return other, LabelSets(("a", "b", "c"), "roc-auc")


def with_numbers(data):
    """Graph with targets around a million, which depend on features and neighbours."""
    other = data.clone()
    other.y = 1e6 + 1000 * (data.x[:, 0].double() + data.y)
    y = other.y.numpy()
    return other, Numbers(("price",), "r2").fitted(y, np.ones(len(y), dtype=bool))


@pytest.mark.parametrize("targets", [with_labels, with_numbers])
@pytest.mark.parametrize("candidate", portfolio(), ids=lambda one: one.title)
def test_every_candidate_learns_labels_and_numbers(data, targets, candidate):
    other, task = targets(data)
    problem, parts = problem_of(one_way(other), task), (np.arange(60), np.arange(60, 80))
    found = train(problem, quick(candidate), *parts, epochs=20)
    assert found.predictions.shape == (100, task.width)
    ends = (0, 1) if task.targets == "labels" else (0.9e6, 1.1e6)
    assert (found.predictions >= ends[0]).all()
    assert (found.predictions <= ends[1]).all()


@pytest.mark.parametrize("targets", [with_labels, with_numbers])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("model", ["label-propagation", "mlp"])
def test_predictions_depend_only_on_training_labels_and_numbers(data, targets, model, smooth):
    candidate = Candidate("x", model, FAST if model == "mlp" else {}, smooth=smooth)
    other, task = targets(data)
    before = train(problem_of(other, task), candidate, np.arange(60), None, epochs=4)
    other.y[60:] = other.y[60:].flip(0)
    after = train(problem_of(other, task), candidate, np.arange(60), None, epochs=4)
    assert np.array_equal(before.predictions, after.predictions)


@pytest.mark.parametrize("targets", [with_labels, with_numbers])
def test_propagation_is_a_weighted_mean_of_neighbours(data, targets):
    """A constant target is kept; targets of known nodes bound all predictions."""
    other, task = targets(data)
    known = torch.arange(100) < 50
    found = propagated(other, known, task, other.y)
    spread = task.spread(other.y)[known].double().numpy()
    assert (found >= spread.min(0) * (1 - 1e-6)).all()
    assert (found <= spread.max(0) * (1 + 1e-6)).all()
    same = torch.ones_like(other.y)
    assert propagated(other, known, task, same) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("alpha", [ALPHA, SMOOTH])
@pytest.mark.parametrize("neighbour", [1, 2], ids=["bipartite", "in two halves"])
def test_spreading_is_the_solution_of_a_linear_system(neighbour, alpha):
    """(I − αÃ) S = (1 − α) S₀ on rings, with the eigenvalues −1 and 1."""
    source = torch.arange(40)
    edges = torch.stack([source, (source + neighbour) % 40])
    graph = Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), edge_weight=None)
    start = (torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    adj = _operator(graph, start)
    matrix = torch.eye(40) - alpha * (adj @ torch.eye(40))
    exact = torch.linalg.solve(matrix, (1 - alpha) * start)
    found = _spread(adj, start, alpha)
    assert (found >= 0).all()
    assert (found - exact).norm() < 0.008 * start.norm()


def test_balanced_weights_are_tried_unless_accuracy_is_the_metric(data):
    def balanced(metric, **about):
        problem = problem_of(data, Classes((0, 1), metric), **about)
        return any(one.balanced for one in variants(problem, Candidate("x", "mlp")))

    assert balanced("average-precision")
    assert not balanced("accuracy")
    assert not balanced("average-precision", class_weight=torch.ones(2))
    problem = problem_of(data, Classes((0, 1), "average-precision"))
    weights = problem.weights(Candidate("x", "mlp", balanced=True), np.arange(45, 75))
    sizes = data.y[45:75].bincount(minlength=2)
    torch.testing.assert_close(weights * sizes, torch.full((2,), 15.0))


def test_few_labelled_nodes_use_folds_and_many_one_held_out_part(data, monkeypatch):
    learned, held = zip(*problem_of(data).folds, strict=True)
    assert sorted(np.concatenate(held)) == list(range(80))
    assert all(not set(a) & set(b) for a, b in zip(learned, held, strict=True))
    monkeypatch.setattr(problems, "FEW", 50)
    ((_, part),) = problem_of(data).folds
    assert len(part) == 16
    ((_, own),) = problem_of(data, held=np.arange(7)).folds
    assert list(own) == list(range(7))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("model", ["label-propagation", "mlp", "gread-x"])
def test_predictions_depend_only_on_training_labels(data, model, smooth):
    """Changing labels of held-out and test nodes does not change predictions."""
    if model == "label-propagation" and smooth:
        pytest.skip("label propagation is smooth")
    candidate = Candidate("x", model, FAST if model != "label-propagation" else {}, smooth=smooth)
    learned = np.arange(60)
    before = train(problem_of(data), candidate, learned, None, epochs=4)
    other = data.clone()
    other.y[60:] = 1 - other.y[60:]
    after = train(problem_of(other), candidate, learned, None, epochs=4)
    assert np.array_equal(before.predictions, after.predictions)


def test_the_blend_is_at_least_as_good_as_every_candidate(problem):
    some = [quick(one) for one in portfolio()[:4]]
    found = race(problem, some, seconds=0.0001)
    # The second candidate is the first that can predict other graphs.
    assert {one.candidate.title.split(",")[0] for one in found} == {
        "Label propagation",
        "Linear model",
    }
    found = race(problem, some, seconds=0.5)
    choice = choose(problem, found)
    assert all(choice.gain >= one.gain for one in found)
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)


def test_race_respects_its_time_limit(problem):
    slow = Candidate("MLP", "mlp", {"epochs": 10**6, "patience": None})
    begin = time.monotonic()
    found = race(problem, [slow], seconds=0.2)
    assert all(min(one.epochs) > 0 for one in found)
    assert time.monotonic() - begin < 30  # not a million epochs


def test_interrupted_training_resumes_with_identical_results(problem):
    """The result equals that of an uninterrupted training, including dropout."""
    candidate = Candidate("MLP", "mlp", {**FAST, "epochs": 9, "dropout": 0.5})
    about = problem, candidate, np.arange(60), np.arange(60, 80)
    whole, parts = Attempt(*about), Attempt(*about)
    whole.run()
    turns = 0
    while not parts.done:
        parts.run(until=0.0)  # one epoch
        parts.trained()  # has no side effect
        turns += 1
    assert turns == 9
    assert np.array_equal(parts.trained().predictions, whole.trained().predictions)


@pytest.fixture
def ticks(monkeypatch):
    """Clock that advances one second per read; it is read once per epoch."""
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    for name in ("race", "attempt", "automatic"):
        monkeypatch.setattr(f"gread.estimator.{name}.time", clock)


def test_successive_halving_continues_until_three_networks_remain(problem, ticks):
    endless = {"epochs": 10**6, "patience": None, "hidden_channels": 4}
    some = [Candidate(f"MLP {k}", "mlp", {**endless, "lr": 10.0**-k}) for k in range(1, 8)]
    contest = Contest(problem, 0.0, 700.0, None)
    contest.admit(some)
    assert len(contest.entrants) == 7
    first = {one.candidate.title: one.seconds for one in contest.entrants}
    contest.halve()
    longer = sorted(one.seconds / first[one.candidate.title] for one in contest.entrants)
    assert longer[:3] == [1.0, 1.0, 1.0]
    assert 1.0 < longer[3] < min(longer[4:])
    ended = [one for one in contest.entrants if one.seconds == first[one.candidate.title]]
    assert all(attempt.training is None for one in ended for attempt in one.attempts)


@pytest.mark.parametrize(("epochs", "interrupted"), [(10**6, True), (3, False)])
def test_only_an_interrupted_training_can_continue(data, epochs, interrupted, ticks):
    problem = problem_of(data, held=np.arange(60, 80))
    settings = {"epochs": epochs, "patience": None, "hidden_channels": 4}
    entrant = Entrant(problem, Candidate("MLP", "mlp", settings))
    scored = entrant.advance(until=50.0)
    assert scored.interrupted == interrupted
    entrant.release()
    smoothed = entrant.smoothed()
    assert smoothed.interrupted == interrupted
    assert smoothed.state is scored.state


@pytest.mark.parametrize("interrupted", [True, False])
def test_refit_after_folds_uses_their_mean_number_of_epochs(problem, interrupted):
    candidate, nodes = Candidate("MLP", "mlp", {"hidden_channels": 4}), problem.learned
    scored = Scored(
        candidate, nodes, np.zeros((80, 2)), (0.0, 0.0), [4, 8], 1.0, interrupted=interrupted
    )
    _, module = _trained(problem, scored, seed=0, until=np.inf)
    expected = Attempt(problem, candidate, nodes, None, epochs=6)
    expected.run()
    torch.testing.assert_close(module.state_dict(), expected.best_module().state_dict())


@pytest.mark.parametrize(("seconds", "networks"), [(10**6, 1 + SEEDS), (8, 1)])
@pytest.mark.parametrize(
    "candidate",
    [
        Candidate("MLP", "mlp", FAST),
        Candidate("Trees", TREES, {"lr": 0.5, "leaves": 3, "depth": 2}),
    ],
    ids=["mlp", "trees"],
)
def test_blend_without_folds_contains_the_already_scored_network(
    data, candidate, seconds, networks, ticks, monkeypatch
):
    problem = problem_of(data, held=np.arange(60, 80))
    monkeypatch.setattr("gread.estimator.automatic.portfolio", lambda: [candidate])
    monkeypatch.setattr(Contest, "vary", lambda contest: None)
    monkeypatch.setattr(Contest, "smooth", lambda contest: None)
    blend, (choice, *_) = fit_blend(problem, seconds)
    assert len(blend.members) == networks
    assert sum(one.weight for one in blend.members) == pytest.approx(1.0)
    first = blend.members[0].module.state_dict()
    torch.testing.assert_close(first, dict(choice.scored[0].state), rtol=0, atol=0)


def test_smoothing_without_retraining_equals_a_smoothed_training(problem):
    candidate = Candidate("MLP", "mlp", FAST)
    contest = Contest(problem, time.monotonic(), 5.0, None)
    contest.admit([candidate])
    contest.smooth()
    (found,) = contest.smooth_scores
    assert found.candidate == replace(
        candidate, title="MLP, smoothed", smooth=True, reason=found.candidate.reason
    )
    again = [
        train(problem, found.candidate, learned, held).predictions[held]
        for learned, held in problem.folds
    ]
    assert np.allclose(found.predictions, np.concatenate(again))


def test_keyboard_interrupt_keeps_scored_candidates(problem):
    def stop(scored):
        raise KeyboardInterrupt

    found = race(problem, [quick(portfolio()[0])], seconds=60, on_score=stop)
    assert [one.candidate.title for one in found] == ["Label propagation"]


@pytest.mark.parametrize("held", [None, np.arange(60, 80)])
def test_keyboard_interrupt_keeps_networks_refitted_on_all_nodes(data, held, monkeypatch):
    problem, candidate = problem_of(data, held=held), Candidate("MLP", "mlp", FAST)
    monkeypatch.setattr("gread.estimator.automatic.portfolio", lambda: [candidate])
    monkeypatch.setattr(Contest, "vary", lambda contest: None)
    monkeypatch.setattr(Contest, "smooth", lambda contest: None)
    calls = []

    def stop(scored):
        calls.append(scored)
        if len(calls) == 3:  # once in the comparison, twice when a network was trained
            raise KeyboardInterrupt

    blend, _ = fit_blend(problem, 60.0, stop)
    assert len(calls) == 3
    assert len(blend.members) == 2 + (held is not None)
    assert sum(one.weight for one in blend.members) == pytest.approx(1.0)


def test_keyboard_interrupt_shortens_the_refit_on_all_nodes(problem, monkeypatch, ticks):
    """The time limit of the refit is proportional to the time until the interrupt."""
    monkeypatch.setattr("gread.estimator.automatic.portfolio", lambda: [slow])
    slow = Candidate("MLP", "mlp", {"epochs": 10**6, "patience": None, "hidden_channels": 4})
    ends = []
    monkeypatch.setattr(
        "gread.estimator.automatic._refitted", lambda problem, used, end, tell: ends.append(end)
    )

    def stop(scored):
        raise KeyboardInterrupt

    with pytest.raises(TypeError):  # no member was trained
        fit_blend(problem, 1000.0, stop)
    assert 1000 * FIRST < ends[0] < 1000 * FIRST + 20  # the race ended after its first round


@pytest.mark.parametrize("directed", [False, True])
def test_positions_are_computed_once_for_all_candidates(data, monkeypatch, directed):
    calls = []

    def count(*given, **about):
        calls.append(about)
        return spectral_positions(*given, **about)

    monkeypatch.setattr(problems, "spectral_positions", count)
    problem = problem_of(one_way(data))
    some = [Candidate("x", m, positions=True, directed=directed) for m in ("mlp", "gread-x")]
    columns = {problem.graph(candidate).num_features for candidate in some}
    assert calls == [{"directed": directed}]
    assert columns == {data.num_features + problem.positions(directed=directed).size(1)}


@pytest.mark.parametrize("smooth", [False, True])
def test_candidates_with_positions_are_transductive(smooth):
    candidate = Candidate("x", "mlp", FAST, positions=True, smooth=smooth)
    assert candidate.bound()
    assert candidate.transductive()
    assert not candidate.without_graph


def test_positions_do_not_depend_on_labels(data):
    before, after = data.clone(), data.clone()
    after.y = 1 - after.y
    found = [problem_of(graph).positions(directed=False) for graph in (before, after)]
    assert torch.equal(*found)


def test_directed_candidates_require_directed_edges(problem):
    directed = [one for one in portfolio() if one.directed]
    assert directed
    assert not problem.has_directions
    found = race(problem, [quick(portfolio()[0]), *directed], seconds=0.2)
    assert not any(one.candidate.directed for one in found)


def test_other_scalings_of_the_best_candidate_are_tried(problem):
    best = Candidate("MLP", "mlp", scaling="row")
    found = {one.scaling: one.title for one in variants(problem, best) if one.scaling != "row"}
    assert found == {"none": "MLP, features unchanged", "binary": "MLP, features 1 where not zero"}
    assert set(TRIED) == {"row", *found}


def test_propagation_does_not_depend_on_the_scale_of_edge_weights(data):
    """Scaling all weights by a thousand changes nothing."""
    heavy = data.clone()
    heavy.edge_weight = torch.full((data.num_edges,), 1000.0)
    known = torch.arange(100) < 50
    same = [propagated(one, known, TASK, data.y) for one in (data, heavy)]
    assert np.allclose(*same, atol=1e-5)
