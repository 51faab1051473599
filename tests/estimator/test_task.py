"""Classes, labels and numbers through the same estimators."""

import json
import re
import time

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import f1_score

import gread
from gread.base.errors import InputError
from gread.estimator import explanation
from gread.estimator.automatic import Where
from gread.estimator.candidates import Candidate
from gread.estimator.classifier import ESTIMATORS, GraphEstimator
from gread.estimator.comparison import BASELINES, compare, verdict
from gread.estimator.export import scorer_of
from gread.estimator.files import write_predictions
from gread.estimator.fitted import targets_of
from gread.estimator.graphs import as_graph
from gread.estimator.task import (
    TASKS,
    Classes,
    LabelSets,
    Numbers,
    best_threshold,
    read_targets,
    task_of,
)
from gread.tables.column import column
from gread.tables.table import Table
from gread.training.metrics import METRICS
from studies.measure_targets import GRAPHS
from tests.estimator.conftest import FAST, only

FEW = (
    Candidate("Label propagation", "label-propagation"),
    Candidate("MLP", "mlp", FAST),
    Candidate("GREAD-X", "gread-x", {**FAST, "num_steps": 1}),
)


def graph_of(targets):
    """Graph with targets that depend on features and neighbours; five targets are unknown."""
    data = gread.csbm(150, 2, homophily=0.8, degree=8, num_features=6, num_splits=1, seed=1)
    del data.train_mask, data.val_mask, data.test_mask
    if targets == "numbers":
        data.y = 50 + 20 * data.y + 5 * data.x[:, 0]
    elif targets == "labels":
        data.y = torch.stack([data.y, data.x[:, 0] > 0, data.x[:, 1] > 1], 1).float()
    data.y[:5] = -1 if targets == "classes" else torch.nan
    return data


@pytest.fixture(scope="module", params=TASKS)
def fitted(request):
    data = graph_of(request.param)
    kind = ESTIMATORS[TASKS[request.param].kind]
    return data, kind(settings={"epochs": 40, "hidden_channels": 16}).fit(data)


def chosen_from(candidates, targets):
    data = graph_of(targets)
    with only(*candidates):
        return data, ESTIMATORS[TASKS[targets].kind]("auto").fit(data)


@pytest.fixture(scope="module", params=TASKS)
def chosen(request):
    return chosen_from(FEW, request.param)


def check_predictions(data, estimator):
    """Check predictions of all nodes, decisions, scores and files."""
    task, n = estimator.task_, data.num_nodes
    found, decided = estimator.predictions(), estimator.predict()
    assert found.shape == (n, task.width)
    assert np.isfinite(found).all()
    assert decided.shape == ((n, task.width) if task.targets == "labels" else (n,))
    assert estimator.predict(data).shape == decided.shape
    scores = estimator.scores()
    assert scores.nodes == int(estimator.data_.test_mask.sum())
    assert scores.headline.metric == task.metric
    assert estimator.score() == next(iter(scores.measures().values()))
    assert estimator.scores(data).nodes == n - 5


def test_every_task_is_learned(fitted):
    check_predictions(*fitted)
    _, estimator = fitted
    assert estimator.score() > 0.6
    assert is_classifier(estimator) == (estimator.task_.kind == "classification")
    assert is_regressor(estimator) == (estimator.task_.kind == "regression")
    assert clone(estimator).get_params() == estimator.get_params()


def test_automatic_model_selection_works_for_every_task(chosen):
    check_predictions(*chosen)
    _, estimator = chosen
    choice = estimator.choice_
    assert all(choice.gain >= one.gain for one in choice.scored)


def check_folder(data, estimator, folder):
    saved = estimator.save(folder / "model")
    for kind in (type(estimator), GraphEstimator):
        again = kind.load(saved)
        assert again.task_ == estimator.task_
        assert again.thresholds_ == estimator.thresholds_
        np.testing.assert_array_equal(again.predict(), estimator.predict())
        np.testing.assert_array_equal(again.predict(data), estimator.predict(data))
        assert again.scores() == estimator.scores()
    other = ESTIMATORS["regression" if again.task_.kind == "classification" else "classification"]
    with pytest.raises(InputError, match=f"load it with gread.{again.task_.estimator}"):
        other.load(saved)


def test_estimator_of_every_task_is_restored_from_a_folder(fitted, tmp_path):
    check_folder(*fitted, tmp_path)


def test_selected_model_of_every_task_is_restored_from_a_folder(chosen, tmp_path):
    check_folder(*chosen, tmp_path)


def test_every_task_is_compared_with_baselines(fitted):
    _, estimator = fitted
    found = compare(estimator)
    assert list(found) == ["GREAD-BS", *BASELINES]
    assert len({tuple(scores.measures()) for scores in found.values()}) == 1
    assert verdict(found)


NEW = 4
"""Number of added nodes."""


def addition_to(data):
    """Copies of nodes with some of their neighbours, and the graph that includes them."""
    once = data.edge_index[:, data.edge_index[1] < NEW]
    once = torch.stack([once[0], once[1] + data.num_nodes])
    whole = data.clone()
    whole.x = torch.cat([data.x, data.x[:NEW]])
    whole.edge_index = torch.cat([data.edge_index, once, once.flip(0)], 1)
    return data.x[:NEW], once, whole


def test_added_nodes_get_the_predictions_of_the_grown_graph(fitted):
    data, estimator = fitted
    x, edges, whole = addition_to(data)
    found = estimator.predictions(x, edges=edges, added=True)
    expected = estimator.predictions(whole)[-NEW:]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    decided = estimator.predict(x, edges=edges, added=True)
    np.testing.assert_array_equal(decided, estimator.predict(whole)[-NEW:])


def test_every_chosen_model_predicts_added_nodes(chosen, tmp_path):
    data, estimator = chosen
    x, edges, _ = addition_to(data)
    found = estimator.predictions(x, edges=edges, added=True)
    assert found.shape == (NEW, estimator.task_.width)
    assert np.isfinite(found).all()
    grown = estimator._grown(x, edges)
    assert estimator.task_.known(grown.y.numpy()).sum() == 145
    assert not estimator.task_.known(grown.y.numpy())[-NEW:].any()
    again = GraphEstimator.load(estimator.save(tmp_path / "model"))
    decided = estimator.predict(x, edges=edges, added=True)
    np.testing.assert_array_equal(again.predict(x, edges=edges, added=True), decided)
    assert write_predictions(again, tmp_path / "p.csv", x, edges, added=True) == NEW


def test_each_kind_of_input_uses_its_own_decision_thresholds(chosen, tmp_path):
    """Check the training graph, another graph, and added nodes."""
    data, estimator = chosen
    if not estimator.task_.tunes:
        assert estimator.thresholds_ == (None, None, None)
        return
    x, edges, _ = addition_to(data)
    wanted = {"X": None}, {"X": data}, {"X": x, "edges": edges, "added": True}
    again = GraphEstimator.load(estimator.save(tmp_path / "model"))
    for where, options in zip(Where, wanted, strict=True):
        everyone, noone = ([value] * estimator.task_.width for value in (0.0, 1.1))
        again.thresholds_ = tuple(everyone if one is where else noone for one in Where)
        assert again.predict(**options).all()


@pytest.mark.parametrize("targets", TASKS)
def test_neighbour_labels_are_features_of_added_nodes(targets, monkeypatch):
    """Added edges get their reverse if the graph has both directions."""
    near = Candidate("near", "mlp", FAST, neighbours=True)
    monkeypatch.setattr(explanation, "EPOCHS", 20)
    data = graph_of(targets)
    with only(near):
        estimator = ESTIMATORS[TASKS[targets].kind]("auto").fit(data)
    x, edges, _ = addition_to(data)
    found = estimator.predictions(x, edges=edges, added=True)
    assert np.isfinite(found).all()
    both = torch.cat([edges, edges.flip(0)], 1)
    np.testing.assert_array_equal(estimator.predictions(x, edges=both, added=True), found)
    assert estimator.left_out(added=True) == []
    assert estimator.left_out() != []
    names = {name for name, _ in estimator.explain(7, most=99).features}
    assert names >= {f"x[{k}]" for k in range(6)} | {"neighbourhood[0]"}


def check_scorer(data, estimator):
    scorer, about = scorer_of(estimator)
    assert about["targets"] == estimator.task_.targets
    given = estimator._inputs(estimator.read(data))
    found = scorer(given.x, given.edge_index).numpy()
    np.testing.assert_allclose(found, estimator.predictions(data), rtol=1e-5, atol=1e-6)
    decided = found[:, 0] if about["targets"] == "numbers" else found.argmax(1)
    for name, threshold in about["thresholds"]:  # two classes have no threshold here
        place = about["classes"].index(name)
        np.testing.assert_array_equal(
            found[:, place] >= threshold, estimator.predict(data)[:, place]
        )
    if not about["thresholds"]:
        np.testing.assert_allclose(decided, estimator.predict(data), rtol=1e-5)
    assert bool(about["thresholds"]) == estimator.task_.tunes


def test_scorer_outputs_equal_predictions_for_every_task(fitted):
    check_scorer(*fitted)


def test_scorer_outputs_equal_predictions_of_selected_models(chosen):
    check_scorer(*chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "suffix"), [("labels", ".onnx"), ("numbers", ".pt2")]
)  # test_export.py exports classes in both formats
def test_every_task_is_exported(tmp_path, targets, suffix):
    data, estimator = chosen_from(FEW[:2], targets)  # few operators, for a short export
    given = estimator._inputs(estimator.read(data))
    file = tmp_path / f"model{suffix}"
    if suffix == ".onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
        estimator.export(file)
        inputs = {"x": given.x.numpy(), "edge_index": given.edge_index.numpy()}
        (found,) = onnxruntime.InferenceSession(file).run(None, inputs)
    else:
        estimator.export(file)
        found = torch.export.load(file).module()(given.x, given.edge_index).numpy()
    np.testing.assert_allclose(found, estimator.predictions(data), rtol=1e-5, atol=1e-6)


def test_every_task_is_explained(fitted, monkeypatch):
    monkeypatch.setattr(explanation, "EPOCHS", 40)
    _, estimator = fitted
    found, decided = estimator.explain(7), estimator.predict()[7]
    if estimator.task_.targets == "labels":
        decided = tuple(str(place) for place in np.flatnonzero(decided))
        assert str(found).startswith(f"7 is predicted as {', '.join(decided) or 'none'} (GREAD-BS)")
    assert found.prediction == decided
    assert (found.probability is None) == (estimator.task_.targets != "classes")
    assert len(found.edges) == 10
    assert len(found.features) == 6
    assert found == estimator.explain(7)


@pytest.mark.parametrize("targets", ["labels", "numbers"])
def test_feature_that_determines_the_target_ranks_first(targets):
    data = gread.csbm(60, 2, homophily=0.9, degree=4, num_features=4, mean=0.0, seed=1)
    del data.train_mask, data.val_mask, data.test_mask
    data.x[:, 2] += 6 * data.y - 3
    told = 4.0 * data.y + 10
    data.y = torch.stack([data.y, 1 - data.y], 1).float() if targets == "labels" else told
    kind = ESTIMATORS[TASKS[targets].kind]
    settings = {"epochs": 100, "hidden_channels": 8, "input_dropout": 0.0}
    (first, weight), (_, other), *_ = kind("mlp", settings=settings).fit(data).explain(3).features
    assert first == "x[2]"
    assert weight > 1.2 * other


def test_progress_of_every_task_is_shown(fitted, capfd, monkeypatch):
    monkeypatch.setattr("gread.base.progress.EVERY", 0.001)
    data, estimator = fitted
    other = clone(estimator).set_params(verbose=True, settings={"epochs": 8})
    other.fit(data, on_epoch=lambda epoch: time.sleep(0.02))
    shown = capfd.readouterr().err
    assert re.search(r"epoch \d loss \d+\.\d+ validation -?\d+\.\d+", shown)
    assert ("%" in shown) == (other.task_.targets != "numbers")


def test_predictions_of_every_task_are_written(fitted, tmp_path):
    _, estimator = fitted
    assert write_predictions(estimator, tmp_path / "p.csv") == 5
    head, *rows = (tmp_path / "p.csv").read_text().splitlines()
    expected = {
        "classes": "id,prediction,confidence,p_0,p_1",
        "labels": "id,0,1,2,p_0,p_1,p_2",
        "numbers": "id,prediction",
    }
    assert head == expected[estimator.task_.targets]
    decided = estimator.predict()[:5]
    for row, one in zip(rows, decided.reshape(5, -1), strict=True):
        cells = row.split(",")[1 : 1 + len(one)]
        assert [float(cell) for cell in cells] == pytest.approx(one.tolist(), rel=1e-5)


@pytest.mark.parametrize("targets", TASKS)
@pytest.mark.parametrize("model", ["gread-bs", "auto"])
def test_metric_for_other_targets_raises_input_error(targets, model):
    kind, data = ESTIMATORS[TASKS[targets].kind], graph_of(targets)
    wrong = next(name for name, entry in METRICS.items() if targets not in entry.targets)
    with pytest.raises(InputError, match=f"for {targets}, got '{wrong}'"):
        kind(model, metric=wrong).fit(data)


@pytest.mark.parametrize("targets", TASKS)
def test_every_metric_for_the_targets_is_accepted(targets):
    kind, data = ESTIMATORS[TASKS[targets].kind], graph_of(targets)
    for name, entry in METRICS.items():
        if targets in entry.targets:
            found = kind("mlp", metric=name, settings={"epochs": 2}).fit(data)
            assert found.config_.metric == found.task_.metric == name
            assert found.scores().headline.metric == name


def test_task_is_restored_from_its_json_dict(fitted):
    _, estimator = fitted
    task = estimator.task_
    again = task_of(json.loads(json.dumps(task.to_dict())), task.names)
    assert again == task


@pytest.mark.parametrize("targets", ["classes", "labels"])
def test_temperature_scaling_improves_overconfident_probabilities(targets):
    random = np.random.default_rng(0)
    log_odds = random.normal(size=400)
    y = (random.uniform(size=400) < 1 / (1 + np.exp(-log_odds))).astype(float)
    sure = 1 / (1 + np.exp(-4 * log_odds))
    if targets == "classes":
        task, y, p = Classes((0, 1), "accuracy"), y.astype(int), np.stack([1 - sure, sure], 1)
    else:
        task, y, p = LabelSets(("a", "b"), "roc-auc"), y.reshape(200, 2), sure.reshape(200, 2)
    t = task.temperature(p, y)
    assert t == pytest.approx(4, rel=0.5)
    assert task.gain(task.tempered(p, t), y)[1] > task.gain(p, y)[1]
    assert task.tempered(p, 1.0) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("measure", ["f1", "macro-f1", "balanced-accuracy"])
def test_best_threshold_maximizes_the_measure(measure):
    random = np.random.default_rng(0)
    p = np.round(random.beta(1, 6, size=300), 2)  # with ties
    there = random.uniform(size=300) < p
    metric = {"f1": lambda chosen: f1_score(there, chosen)}
    metric["macro-f1"] = lambda chosen: f1_score(there, chosen, average="macro")
    metric["balanced-accuracy"] = lambda chosen: (
        (chosen[there].mean() + (~chosen[~there]).mean()) / 2
    )
    found = metric[measure](p >= best_threshold(p, there, measure))
    assert found == pytest.approx(max(metric[measure](p >= t) for t in np.unique(p)))


def rare_classes(nodes=600, ratio=20, seed=0):
    """Classifier and a graph; one node in ``ratio`` has a rare class that depends on features."""
    random = np.random.default_rng(seed)
    y = torch.zeros(nodes, dtype=torch.int64)
    y[torch.from_numpy(random.permutation(nodes)[: nodes // ratio])] = 1
    x = torch.from_numpy(random.normal(size=(nodes, 4))).float()
    x[:, 0] += 3 * y
    edges = torch.from_numpy(random.integers(nodes, size=(2, 2 * nodes)))
    return gread.GraphClassifier("mlp", settings={"epochs": 30}), x.numpy(), y.numpy(), edges


@pytest.mark.parametrize("names", [("common", "rare"), ("zebra", "apple")])
def test_rare_class_is_predicted_regardless_of_its_name(names):
    classifier, x, y, edges = rare_classes()
    classifier.fit(x, np.array(names)[y].tolist(), edges=edges)
    assert classifier.task_.metric == "average-precision"
    assert "compared by average-precision" in classifier.diagnosis_.notes[0]
    assert classifier.task_.names[classifier.task_.rare] == names[1]
    scores = classifier.scores()
    assert scores.average_precision > 0.5
    assert scores.headline.value == pytest.approx(scores.average_precision)
    assert (classifier.predict() == names[1]).mean() == pytest.approx(0.05, abs=0.04)


def test_the_threshold_is_the_best_on_validation_nodes():
    classifier, x, y, edges = rare_classes()
    classifier.fit(x, y, edges=edges)
    held = classifier.data_.val_mask.numpy()
    (threshold,) = classifier.thresholds_[0]
    p = classifier.predict_proba()[:, 1]
    np.testing.assert_array_equal(classifier.predict(), (p >= threshold).astype(int))
    best = f1_score(y[held], p[held] >= threshold, average="macro")
    assert best >= max(f1_score(y[held], p[held] >= t, average="macro") for t in p[held]) - 1e-12


def test_accuracy_is_used_for_common_classes_or_if_requested():
    classifier, x, y, edges = rare_classes(ratio=5)
    classifier.fit(x, y, edges=edges)
    assert classifier.task_.metric == "accuracy"
    assert classifier.thresholds_ == (None, None, None)
    classifier, x, y, edges = rare_classes()
    classifier.set_params(metric="accuracy").fit(x, y, edges=edges)
    assert classifier.task_.metric == "accuracy"
    assert not classifier.diagnosis_.notes


def test_refitting_discards_the_state_of_the_first_fit():
    classifier, x, y, edges = rare_classes()
    classifier.fit(x, y, edges=edges)
    labels = np.stack([y, x[:, 1] > 0], 1).astype(int)
    classifier.fit(x, labels, edges=edges)
    assert classifier.task_.targets == "labels"
    assert classifier.predict_proba().shape == (600, 2)


@pytest.mark.parametrize("name", GRAPHS)
def test_generated_graphs_have_the_targets_in_their_name(name):
    data = GRAPHS[name](400, seed=3)
    task, y, _ = targets_of(data, None, as_graph(data), "auto")
    assert task.targets == {"imbalanced": "classes"}.get(name, name)
    if name == "imbalanced":
        assert y.mean() == 1 / 200
    assert task.known(y).all()


def targets(kind="auto", **columns):
    table = Table("t", {name: column(values) for name, values in columns.items()})
    return read_targets(table, list(columns), kind)


@pytest.mark.parametrize(
    ("kind", "columns", "expected", "words"),
    [
        ("auto", {"y": ["a", "b"]}, Classes, ""),
        ("auto", {"y": [1, 2, None]}, Classes, ""),
        ("auto", {"y": [0.5, 1.5, 2.0]}, Numbers, "predicted as a number"),
        ("regression", {"y": [1, 2, 3]}, Numbers, ""),
        ("classification", {"y": [10 * k for k in range(40)]}, Classes, ""),
        ("auto", {"y": ["a;b", "a", "b", "c;a", "c"]}, LabelSets, "each of the 3 labels"),
        ("auto", {"a": [1, 0, None], "b": [0, 1, 1]}, LabelSets, ""),
    ],
)
def test_a_task_is_recognized(kind, columns, expected, words):
    task, y, said = targets(kind, **columns)
    assert type(task) is expected
    assert len(y) == len(next(iter(columns.values())))
    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize(
    ("kind", "columns", "sentence"),
    [
        ("auto", {"y": ["a", "a"]}, "must have two classes or more, got only 'a'"),
        ("regression", {"y": [2.5, 2.5, None]}, "must hold different numbers, got only 2.5"),
        ("regression", {"y": [None, None]}, "must hold the number of some nodes, got none"),
        ("auto", {"a": [1, 1], "b": [0, 1]}, "label 'a' must be 0 for some nodes and 1 for others"),
        ("auto", {"a": [1, None], "b": [None, 1]}, "must hold the labels of some nodes, got none"),
        ("regression", {"a": [1, 0], "b": [0, 1]}, "must have one label column, got 2"),
        ("auto", {"a": [1, 0], "p_a": [0, 1]}, "labels must have other names .*, got 'p_a'"),
        ("ranking", {"y": [1, 2]}, "task must be one of auto, classification, regression"),
    ],
)
def test_invalid_targets_raise_input_error(kind, columns, sentence):
    with pytest.raises(InputError, match=sentence):
        targets(kind, **columns)


@pytest.mark.parametrize(
    ("task", "y", "sentence"),
    [
        (Classes(("a", "b", "c"), ""), [0, 1, 2, 0, 1], "of every class, got none of 'c'"),
        (Classes(("a", "b"), ""), [0, 0, 1, 0, 1], "must be of two classes or more, got one"),
        (LabelSets(("a", "b"), ""), [[0, 1], [1, 1], [0, 0]], "label 'b', got none without"),
        (Numbers(("x",), ""), [1.0, 1.0, 2.0, 3.0], "training nodes must have different numbers"),
    ],
)
def test_split_without_required_targets_raises_input_error(task, y, sentence):
    parts = np.array([0, 0, *range(1, len(y) - 1)])
    with pytest.raises(InputError, match=sentence):
        task.check(np.array(y), np.minimum(parts, 2))


@pytest.mark.parametrize("targets", ["labels", "numbers"])
def test_class_weights_are_rejected_for_labels_and_numbers(targets):
    kind, data = ESTIMATORS[TASKS[targets].kind], graph_of(targets)
    with pytest.raises(InputError, match=f"class_weight must be None for {targets}"):
        kind("mlp", class_weight="balanced").fit(data)


def test_drawn_split_is_stratified_by_target(fitted):
    _, estimator = fitted
    task, y = estimator.task_, estimator.data_.y.numpy()
    strata = task.strata(y)
    assert (task.known(y) == (strata >= 0)).all()
    for group in np.unique(strata[strata >= 0]):
        inside = strata == group
        assert estimator.data_.train_mask.numpy()[inside].mean() == pytest.approx(0.6, abs=0.1)


def test_a_folder_of_the_first_version_loads(tmp_path):
    data = graph_of("classes")
    classifier = gread.GraphClassifier("mlp", settings=FAST).fit(data)
    folder = classifier.save(tmp_path / "model")
    about = json.loads((folder / "classifier.json").read_text())
    for name in ("task", "thresholds"):
        del about[name]
    for name in ("target", "notes"):
        del about["diagnosis"][name]
    del about["parameters"]["metric"]
    about["training"]["metric"] = None
    (folder / "classifier.json").write_text(json.dumps(about))
    again = gread.GraphClassifier.load(folder)
    np.testing.assert_array_equal(again.predict_proba(), classifier.predict_proba())
    np.testing.assert_array_equal(again.predict(), classifier.predict())
    assert again.scores() == classifier.scores()


@pytest.mark.parametrize(
    ("targets", "change"),
    [
        ("classes", {"rare": 7}),
        ("classes", {"metric": "r2"}),
        ("classes", {"targets": "colours"}),
        ("classes", {"unknown": 1}),
        ("numbers", {"scale": 0.0}),
        ("numbers", {"centre": "middle"}),
    ],
)
def test_invalid_task_in_a_folder_raises_input_error(targets, change, tmp_path):
    kind = ESTIMATORS[TASKS[targets].kind]
    folder = kind("mlp", settings=FAST).fit(graph_of(targets)).save(tmp_path / "model")
    about = json.loads((folder / "classifier.json").read_text())
    about["task"] |= change
    (folder / "classifier.json").write_text(json.dumps(about))
    with pytest.raises(InputError):
        GraphEstimator.load(folder)
