import time

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch_geometric.data import Data

import gread
from gread.estimator import race as races
from gread.estimator.fitted import as_tensor
from gread.estimator.race import ENCODINGS, Candidate, Problem, choose, portfolio, race, train
from gread.models.catalog import MODELS

FAST = {"epochs": 5, "hidden_channels": 4}


@pytest.fixture(scope="module")
def data():
    return gread.load("csbm", num_nodes=100, homophily=0.9, degree=6)


def problem_of(data, **about):
    return Problem(data, np.arange(80), 2, **about)


@pytest.fixture
def problem(data):
    return problem_of(data)


def quick(candidate: Candidate) -> Candidate:
    return Candidate(
        candidate.title,
        candidate.model,
        {**candidate.settings, **(FAST if candidate.model in MODELS else {})},
        directed=candidate.directed,
    )


@pytest.mark.parametrize("candidate", portfolio(), ids=lambda one: one.title)
def test_every_candidate_learns_and_gives_probabilities(data, candidate):
    source, target = data.edge_index
    one_way = Data(x=data.x, edge_index=data.edge_index[:, source < target], y=data.y)
    problem = problem_of(one_way)
    found = train(problem, quick(candidate), np.arange(60), np.arange(60, 80))
    assert found.probabilities.shape == (100, 2)
    assert found.probabilities.sum(1) == pytest.approx(1, abs=1e-5)
    assert candidate.reason


def test_few_labelled_nodes_are_scored_once_each_and_many_by_one_part(data, monkeypatch):
    learned, held = zip(*problem_of(data).folds, strict=True)
    assert sorted(np.concatenate(held)) == list(range(80))
    assert all(not set(a) & set(b) for a, b in zip(learned, held, strict=True))
    monkeypatch.setattr(races, "FEW", 50)
    ((_, part),) = problem_of(data).folds
    assert len(part) == 16
    ((_, own),) = problem_of(data, held=np.arange(7)).folds
    assert list(own) == list(range(7))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("model", ["label-propagation", "mlp", "gread-x"])
def test_no_label_but_those_learned_from_matters(data, model, smooth):
    """Labels of held-out and test nodes are changed, and nothing else changes."""
    if model == "label-propagation" and smooth:
        pytest.skip("label propagation is smooth")
    candidate = Candidate("x", model, FAST if model != "label-propagation" else {}, smooth=smooth)
    learned = np.arange(60)
    before = train(problem_of(data), candidate, learned, None, epochs=4)
    other = data.clone()
    other.y[60:] = 1 - other.y[60:]
    after = train(problem_of(other), candidate, learned, None, epochs=4)
    assert np.array_equal(before.probabilities, after.probabilities)


def test_the_blend_is_at_least_as_good_as_every_candidate(problem):
    some = [quick(one) for one in portfolio()[:4]]
    found = race(problem, some, seconds=0.0001)
    assert len(found) == 2  # the first that can predict on other graphs comes second
    found = race(problem, some, seconds=2)
    choice = choose(problem, found)
    assert all(choice.gain >= one.gain for one in found)
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)


def test_a_race_ends_in_time(problem):
    slow = Candidate("MLP", "mlp", {"epochs": 10**6, "patience": None})
    begin = time.monotonic()
    found = race(problem, [slow], seconds=0.5)
    assert all(min(one.epochs) > 0 for one in found)
    assert time.monotonic() - begin < 30  # not a million epochs


def test_ctrl_c_keeps_what_is_scored(problem):
    def stop(scored):
        raise KeyboardInterrupt

    found = race(problem, [quick(portfolio()[0])], seconds=60, on_score=stop)
    assert [one.candidate.title for one in found] == ["Label propagation"]


def test_directed_candidates_need_directions(problem):
    directed = [one for one in portfolio() if one.directed]
    assert directed
    assert not problem.has_directions
    found = race(problem, [quick(portfolio()[0]), *directed], seconds=0.5)
    assert not any(one.candidate.directed for one in found)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_keep_the_shape_and_zeros(encoding):
    x = torch.tensor([[0.0, 2.0, -1.0], [0.0, 0.0, 0.0]])
    found = ENCODINGS[encoding](x)
    assert found.shape == x.shape
    assert torch.equal(found == 0, x == 0)
    sparse = ENCODINGS[encoding](as_tensor(csr_array(x.numpy())))
    assert torch.equal(sparse.to_dense(), found)


def test_weights_of_edges_are_normalised_in_propagation(data):
    """All weights a thousand times larger: the same."""
    heavy = data.clone()
    heavy.edge_weight = torch.full((data.num_edges,), 1000.0)
    known = torch.arange(100) < 50
    same = [races.propagated(one, known, 2) for one in (data, heavy)]
    assert np.allclose(*same, atol=1e-5)
