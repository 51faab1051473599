"""Classifiers with automatic model selection."""

import json
import re
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

import gread
from gread.base.errors import InputError
from gread.estimator import attempt, automatic
from gread.estimator.automatic import Blend
from gread.estimator.candidates import Candidate
from gread.estimator.progress import FitProgress
from gread.estimator.race import Choice, Contest, Scored
from tests.estimator.conftest import only

FAST = {"epochs": 8, "hidden_channels": 4}
FEW = (
    Candidate("Label propagation", "label-propagation"),
    Candidate("MLP", "mlp", FAST),
    Candidate("MLP", "mlp", {**FAST, "num_layers": 1}),  # titles of variants may repeat
    Candidate("GREAD-X", "gread-x", {**FAST, "num_steps": 1}),
    Candidate("LINKX", "linkx", FAST),
)


@pytest.fixture(scope="module")
def data():
    return gread.load("csbm", num_nodes=120, homophily=0.9, degree=6)


@pytest.fixture(scope="module")
def fitted(data):
    """Classifier with few small candidates."""
    classifier, seen = gread.GraphClassifier("auto"), []
    with only(*FEW):
        classifier.fit(data, on_score=seen.append)
    assert [one.candidate for one in seen[0]] == [FEW[0]]
    return classifier


def test_blend_probabilities_and_member_weights_sum_to_one(fitted, data):
    p = fitted.predict_proba()
    assert p.shape == (120, 2)
    assert p.sum(1) == pytest.approx(1)
    assert sum(one.weight for one in fitted.blend_.members) == pytest.approx(1)
    assert set(fitted.predict()) <= {0, 1}
    assert fitted.score() > 0.6


def test_the_choice_is_at_least_as_good_as_every_candidate(fitted):
    choice = fitted.choice_
    assert all(choice.gain >= one.gain for one in choice.scored)
    assert len(choice.weights) == len(choice.scored)


def test_progress_shows_the_best_candidate_and_the_time_left(fitted):
    scores = fitted.choice_.scored
    with FitProgress(Console(quiet=True)) as shown:
        shown.begin("training", fitted)
        shown.score(scores)
    best = f"{len(scores)} candidates, best {scores[0].candidate.title}"
    value = f"{100 * scores[0].gain[0]:.1f}"
    assert re.fullmatch(rf"{best} {value}%, 1(19|20) s left", shown.now()[0])


def test_progress_counts_down_between_two_scores(fitted):
    with FitProgress(Console(quiet=True)) as shown:
        shown.begin("training", fitted)
        shown.score(fitted.choice_.scored)
        shown.end -= 100
        text, completed = shown.now()
        assert re.search(", (19|20) s left$", text)
        assert completed in (100, 101)
        shown.begin("comparing", fitted)
        assert shown.now() == ("comparing with simpler models", 0)


def test_prediction_on_another_graph_skips_transductive_members(fitted, data):
    other = gread.load("csbm", num_nodes=50, homophily=0.9, degree=6, seed=5)
    assert fitted.predict_proba(other).shape == (50, 2)
    there = [one for one in fitted.blend_.members if one.elsewhere]
    assert sum(one.elsewhere for one in there) == pytest.approx(1)
    assert not any(one.candidate.transductive() for one in there)


def test_loaded_blend_gives_the_same_predictions(fitted, data, tmp_path):
    folder = fitted.save(tmp_path / "model")
    about = json.loads((folder / "classifier.json").read_text())
    assert len(about["blend"]["members"]) == len(fitted.blend_.members)
    again = gread.GraphClassifier.load(folder)
    assert np.array_equal(again.predict_proba(), fitted.predict_proba())
    other = gread.load("csbm", num_nodes=50, homophily=0.9, degree=6, seed=5)
    assert np.array_equal(again.predict_proba(other), fitted.predict_proba(other))
    assert again.score() == fitted.score()


def test_members_that_share_a_network_evaluate_it_once(fitted, data, tmp_path, monkeypatch):
    member = next(one for one in fitted.blend_.members if one.module is not None)
    other = replace(member, module=deepcopy(member.module).requires_grad_(False))
    next(other.module.parameters()).zero_()
    smooth = replace(member.candidate, smooth=True)
    members = [
        replace(member, weight=0.2),
        replace(member, candidate=smooth, weight=0.3),
        replace(other, candidate=smooth, weight=0.5),
    ]
    blend = Blend(members, fitted.task_, (1.0, 1.0, 1.0))
    again = Blend.read(tmp_path, blend.write(tmp_path), data.num_features, fitted.task_, 120)
    calls = []
    monkeypatch.setattr(
        automatic, "predicted", lambda *a: (calls.append(a[0]), attempt.predicted(*a))[1]
    )
    known = fitted.data_.train_mask
    found = again.predictions(fitted.data_, known)
    assert len(calls) == 2
    alone = [
        one.weight
        * replace(blend, members=[replace(one, weight=1.0)]).predictions(fitted.data_, known)
        for one in members
    ]
    np.testing.assert_allclose(found, sum(alone), atol=1e-7)


def test_positions_are_stored_with_the_graph(data, tmp_path, monkeypatch):
    """Eigenvectors may have other signs on another machine."""
    some = (Candidate("MLP", "mlp", FAST), Candidate("Positions", "mlp", FAST, positions=True))
    monkeypatch.setattr(Contest, "smooth", lambda self: None)
    monkeypatch.setattr(automatic, "choose", with_all)
    with only(*some):
        classifier = gread.GraphClassifier("auto").fit(data)
    folder = classifier.save(tmp_path / "model")
    monkeypatch.setattr("gread.estimator.problem.spectral_positions", None)
    again = gread.GraphClassifier.load(folder)
    assert np.array_equal(again.predict_proba(), classifier.predict_proba())
    assert again.left_out() == again.left_out(added=True) == ["Positions"]
    names = {name for name, _ in again.explain(7).features}
    assert names
    assert all(name.startswith(("x[", "position[")) for name in names)


def with_all(problem, scored):
    """Give all candidates the same weight."""
    weights = [1 / len(scored)] * len(scored)
    return Choice(scored, weights, 1.0, scored[0].gain)


def test_scores_report_calibration_error_without_temperature(data):
    with only(*FEW[1:2]):
        classifier = gread.GraphClassifier("auto", time=0.02).fit(data)
    t = classifier.blend_.temperatures
    classifier.blend_ = replace(classifier.blend_, temperatures=(3.0, *t[1:]))
    found = classifier.scores()
    classifier.blend_ = replace(classifier.blend_, temperatures=(1.0, *t[1:]))
    assert found.uncalibrated == pytest.approx(classifier.scores().calibration_error, abs=1e-6)
    assert found.uncalibrated != pytest.approx(found.calibration_error, abs=1e-3)


def test_test_nodes_are_excluded_from_training(data, monkeypatch):
    seen = []

    def look(problem, seconds, on_score):
        seen.append(problem)
        raise TimeoutError

    monkeypatch.setattr("gread.estimator.classifier.fit_blend", look)
    for split in (None, 3):
        with pytest.raises(TimeoutError):
            gread.GraphClassifier("auto").fit(data, split=split)
        learned = torch.zeros(120, dtype=torch.bool)
        learned[seen[-1].learned] = True
        assert not (learned & data.test_mask[:, split or 0]).any()
        assert (learned == (data.train_mask | data.val_mask)[:, split or 0]).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"settings": {"lr": 0.1}}, "settings must be omitted with model 'auto'"),
        ({"time": 0.0}, "time must be a positive number, got 0.0"),
        ({"settings": {"metric": "accuracee"}}, "unknown metric 'accuracee'"),
        ({"metric": "accuracee"}, "unknown metric 'accuracee'"),
        ({"metric": "r2"}, "metric must be one of accuracy, .* for classes, got 'r2'"),
        ({"time": 1e-9}, "enough for one candidate, which took .* minutes here, got 1e-09"),
    ],
)
def test_invalid_settings_raise_input_error(data, options, sentence):
    with pytest.raises(InputError, match=sentence):
        gread.GraphClassifier("auto", **options).fit(data)


@pytest.mark.parametrize(
    ("model", "time", "sentence"),
    [
        ("auto", -1.0, "time must be a positive number, got -1.0"),
        ("gcn", 1.0, "time must be omitted with model 'gcn', got 1.0"),
    ],
)
def test_invalid_time_is_rejected_before_the_graph_is_read(model, time, sentence):
    with pytest.raises(InputError, match=sentence):
        gread.GraphClassifier(model, time=time).prepare("no such file")


@pytest.mark.parametrize(
    ("homophily", "begins"),
    [
        (0.9, "Neighbours mostly share a class: the graph "),
        (0.1, "Neighbours mostly differ in class: the graph "),
        (0.5, "Neighbours share a class about half the time: the graph "),
        (None, "The graph "),
    ],
)
def test_explanation_states_the_validation_gain_from_the_graph(homophily, begins):
    def scored(candidate, accuracy):
        return Scored(candidate, np.zeros(0), np.zeros((0, 2)), (accuracy, 0.0), [1], 0.1)

    both = [scored(FEW[3], 0.9), scored(FEW[1], 0.8)]
    choice = Choice(both, [1.0, 0.0], 1.0, (0.9, 0.0))
    told = automatic.explained(choice, "accuracy", homophily)
    assert told.startswith(begins)
    gained = "improves the validation accuracy by 10.0 points (GREAD-X against MLP)."
    assert told.endswith(gained)
    assert "improves the validation mae by 0.1 (" in automatic.explained(choice, "mae", homophily)
    equal = Choice([both[0], scored(FEW[1], 0.9)], [1.0, 0.0], 1.0, (0.9, 0.0))
    told = automatic.explained(equal, "accuracy", homophily)
    assert told.endswith("does not change the validation accuracy (GREAD-X against MLP).")
    alone = Choice(both[:1], [1.0], 1.0, (0.9, 0.0))
    assert automatic.explained(alone, "accuracy", homophily) == ""


def test_default_model_is_auto_unless_model_or_settings_are_given():
    assert gread.GraphClassifier().model_ == "auto"
    assert gread.GraphRegressor().model_ == "auto"
    assert gread.GraphClassifier(settings={"epochs": 3}).model_ == "gread-bs"
    assert gread.GraphClassifier("mlp", settings={"epochs": 3}).model_ == "mlp"
