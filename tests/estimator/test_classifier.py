import json
import time

import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gread
from gread import GraphClassifier
from gread.base.errors import InputError
from gread.estimator.comparison import compare
from gread.estimator.tune import tune
from gread.models.catalog import MODELS
from gread.training.fit import logits_of
from tests.estimator.conftest import FAST


def test_parameters_are_kept_and_cloned():
    classifier = GraphClassifier("gcn", settings=FAST, class_weight="balanced", random_state=3)
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    assert copy.set_params(model="mlp").model == "mlp"
    with pytest.raises(NotFittedError):
        copy.predict()


def test_classifier_learns_a_homophilous_graph(data):
    classifier = GraphClassifier(settings={"epochs": 60}).fit(data)
    assert classifier.score() > 0.8
    assert classifier.predict_proba().sum(axis=1) == pytest.approx(1)
    assert set(classifier.predict()) <= {0, 1, 2}


def test_progress_is_shown_only_with_verbose(data, capfd, monkeypatch):
    monkeypatch.setattr("gread.base.progress.EVERY", 0.001)
    GraphClassifier(settings=FAST).fit(data)
    assert capfd.readouterr() == ("", "")
    seen = []

    def wait(epoch):
        seen.append(epoch.number)
        time.sleep(0.02)

    GraphClassifier(settings=FAST, verbose=True).fit(data, on_epoch=wait)
    assert seen == list(range(12))
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "s: epoch 7 loss" in shown.err


def test_seed_determines_results_and_global_rng_is_unchanged(data):
    torch.manual_seed(5)
    first = GraphClassifier(settings=FAST).fit(data).predict_proba()
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.rand(1) == after
    np.testing.assert_array_equal(GraphClassifier(settings=FAST).fit(data).predict_proba(), first)
    other = GraphClassifier(settings=FAST, random_state=1).fit(data).predict_proba()
    assert (other != first).any()


def given_as(kind, data, columns):
    """Arguments of `fit` for the same graph in another form."""
    y = np.where(np.arange(150) % 10 == 0, -1, data.y.numpy())
    nodes, edges = columns
    ends = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].numpy()
    if kind == "matrix":
        adjacency = scipy.sparse.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(150, 150))
        return {"X": data.x.numpy(), "y": y, "edges": adjacency}
    if kind == "frames":
        return {"X": pandas.DataFrame(nodes), "y": "topic", "edges": pandas.DataFrame(edges)}
    graph = networkx.Graph()
    for k in range(150):
        graph.add_node(nodes["id"][k], x=data.x[k].tolist())
        if nodes["topic"][k] is not None:
            graph.nodes[nodes["id"][k]]["topic"] = nodes["topic"][k]
    graph.add_edges_from(zip(edges["src"], edges["dst"], strict=True))
    return {"X": graph, "y": "topic"}


def test_every_kind_of_graph_gives_the_same_predictions(data, columns):
    found = []
    for kind in ("matrix", "frames", "networkx"):
        classifier = GraphClassifier(settings=FAST).fit(**given_as(kind, data, columns))
        assert (classifier.data_.y >= 0).sum() == 135
        found.append(classifier.predict_proba())
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
    np.testing.assert_allclose(found[2], found[0], atol=1e-4)


def test_classes_keep_their_names(table_graph):
    classifier = GraphClassifier(settings=FAST).fit(table_graph, "topic")
    assert classifier.classes_.tolist() == ["blue", "green", "red"]
    assert set(classifier.predict()) <= {"blue", "green", "red"}
    assert "topic" not in classifier.preprocessing_.encoders


def test_a_given_split_is_kept(data, table_graph):
    kept = GraphClassifier(settings=FAST).fit(data).data_
    assert (kept.train_mask == data.train_mask[:, 0]).all()
    words = ["train", "val", "test"] * 50
    classifier = GraphClassifier(settings=FAST).fit(table_graph, "topic", split=words)
    known = classifier.data_.y >= 0
    for part, name in enumerate(("train_mask", "val_mask", "test_mask")):
        assert (classifier.data_[name] == known & (torch.arange(150) % 3 == part)).all()


def test_fitted_classifier_predicts_and_scores_a_new_graph(fitted, data):
    np.testing.assert_allclose(fitted.predict_proba(data), fitted.predict_proba(), atol=1e-5)
    other = gread.csbm(60, 3, homophily=0.8, degree=8, num_features=12, num_splits=1, seed=1)
    assert fitted.predict(other).shape == (60,)
    assert 0 <= fitted.score(other, other.y) <= 1


@pytest.mark.parametrize("name", ["gread-x", "mixhop"])
def test_prediction_does_not_change_the_model(data, name):
    classifier = GraphClassifier(name, settings={"epochs": 1, "hidden_channels": 8}).fit(data)
    before = classifier.predict_proba()
    np.testing.assert_allclose(classifier.predict_proba(data), before, atol=1e-6)
    np.testing.assert_array_equal(classifier.predict_proba(), before)


def test_new_component_does_not_change_other_predictions(fitted, data):
    """A new component does not change the predictions of the others."""
    grown = data.clone()
    grown.x = torch.cat([data.x, data.x[:5]])
    found = fitted.predict_proba(grown)
    assert len(found) == 155
    np.testing.assert_allclose(found[:150], fitted.predict_proba(), atol=1e-5)


@pytest.mark.parametrize("name", ["linkx", "glognn", "blend", "cgnn"])
def test_transductive_models_reject_prediction_on_another_graph(data, name):
    assert MODELS[name].transductive({})
    settings = {"epochs": 1, "hidden_channels": 8}
    classifier = GraphClassifier(name, settings=settings).fit(data)
    assert classifier.predict().shape == (150,)
    with pytest.raises(InputError, match="it cannot predict another graph"):
        classifier.predict(data)


@pytest.mark.parametrize("name", ["gcn", "h2gcn", "grand++", "gread-st", "mlp"])
def test_inductive_models_predict_on_another_graph(data, name):
    classifier = GraphClassifier(name, settings={"epochs": 2, "hidden_channels": 8}).fit(data)
    assert classifier.predict_proba(data).shape == (150, 3)


def test_gread_uses_recommended_settings_unless_given(data):
    recommended = GraphClassifier(settings=FAST).fit(data)
    begin = recommended.diagnosis_.recommendation
    assert recommended.settings_["adjacency"] == begin.adjacency
    assert recommended.settings_["time"] == begin.time
    told = GraphClassifier(settings=FAST | {"adjacency": "original", "time": 0.5}).fit(data)
    assert told.settings_["adjacency"] == "original"
    assert told.settings_["time"] == 0.5


def test_diagnosis_does_not_depend_on_classes_of_test_nodes(data):
    hidden = data.clone()
    tested = data.test_mask[:, 0]
    hidden.y = torch.where(tested, data.y.flip(0), data.y)
    settings = {"epochs": 1}
    one = GraphClassifier(settings=settings).fit(data)
    other = GraphClassifier(settings=settings).fit(hidden)
    assert one.diagnosis_ == other.diagnosis_
    assert one.preprocessing_ == other.preprocessing_


def test_graph_without_features_uses_node_degrees(data):
    bare = data.clone()
    bare.x = None
    bare.num_nodes = 150
    classifier = GraphClassifier(settings=FAST).fit(bare)
    assert list(classifier.preprocessing_.encoders) == ["(degree)"]
    np.testing.assert_allclose(classifier.predict_proba(bare), classifier.predict_proba())


@pytest.mark.slow
def test_class_weights_increase_recall_of_the_rare_class():
    data = gread.csbm(1200, 2, homophily=0.6, degree=6, num_features=8, num_splits=1, seed=2)
    rare = torch.arange(1200) % 12 == 0
    data.y = rare.long()
    data.x = torch.randn(1200, 8, generator=torch.Generator().manual_seed(0)) + rare[:, None] * 0.6
    recalls = []
    about = {"settings": {"epochs": 60}, "metric": "accuracy"}  # without a threshold
    for weight in (None, "balanced", {1: 12.0}):
        classifier = GraphClassifier("mlp", class_weight=weight, **about).fit(data)
        (_, (_, found)) = classifier.scores().confusion
        recalls.append(found)
    assert recalls[1] > recalls[0]
    assert recalls[2] > recalls[0]


def test_training_stops_early_without_validation_improvement(data):
    classifier = GraphClassifier("mlp", settings={"epochs": 500, "patience": 5}).fit(data)
    assert len(classifier.fit_.history) < 500


@pytest.mark.parametrize(
    ("options", "arguments", "sentence"),
    [
        ({"model": "gred"}, {}, "unknown model 'gred'"),
        ({"settings": {"tme": 1}}, {}, "gread-bs has no hyperparameter 'tme'"),
        ({"device": "cuda:77"}, {}, "device must be one that this machine has"),
        ({"class_weight": "heavy"}, {}, "class_weight must be None, 'balanced' or a mapping"),
        ({"class_weight": {9: 1.0}}, {}, "class_weight must name the classes 0, 1, 2, got 9"),
        ({"features": "y"}, {}, "data has no column 'y'"),
        ({}, {"y": [1, 2]}, "there must be a value for each of 150 nodes, got 2"),
        ({}, {"y": [0] * 150}, "must have two classes or more"),
        ({}, {"y": [-1] * 150}, "must name the class of some nodes, got none"),
        ({}, {"y": [0, 1] + [-1] * 148}, "there must be nodes with a class to train"),
        ({}, {"split": 7}, "split must be a whole number from 0 to 0, got 7"),
    ],
)
def test_invalid_fit_arguments_raise_input_error(data, options, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        GraphClassifier(**options).fit(data, **arguments)


def test_fit_without_classes_raises_input_error(columns):
    frames = [pandas.DataFrame(part) for part in columns]
    with pytest.raises(InputError, match="y must be the name of the column of classes"):
        GraphClassifier().fit(frames[0], edges=frames[1])


PARTS = {**FAST, "parts": 5, "halo": 150}


@pytest.mark.slow
def test_training_by_parts_equals_full_training_without_dropout(data, tmp_path):
    settings = {"input_dropout": 0.0}
    whole = GraphClassifier(settings={**FAST, **settings}).fit(data)
    parted = GraphClassifier(settings={**PARTS, **settings}).fit(data)
    assert parted.config_.parts == 5
    np.testing.assert_allclose(parted.predict_proba(), whole.predict_proba(), atol=1e-3)
    loaded = GraphClassifier.load(parted.save(tmp_path / "model"))
    assert loaded.config_ == parted.config_
    np.testing.assert_array_equal(loaded.predict_proba(), parted.predict_proba())


def test_graph_larger_than_memory_is_partitioned_with_a_warning(data, monkeypatch):
    monkeypatch.setattr("gread.training.memory.free_memory", lambda device: 2e5)
    with pytest.warns(UserWarning, match=r"training on the whole graph takes about .* parts"):
        classifier = GraphClassifier(settings=FAST).fit(data)
    assert classifier.config_.parts > 1
    assert classifier.predict_proba().shape == (150, 3)


def test_explicit_single_part_disables_partitioning(data, monkeypatch):
    monkeypatch.setattr("gread.training.memory.free_memory", lambda device: 2e5)
    classifier = GraphClassifier(settings={**FAST, "parts": 1}).fit(data)
    assert classifier.config_.parts == 1


@pytest.mark.parametrize("model", ["h2gcn", "linkx"])
def test_whole_graph_models_reject_several_parts(data, model):
    with pytest.raises(InputError, match="parts must be 1 for"):
        GraphClassifier(model, settings={"parts": 2}).fit(data)


def test_a_new_graph_may_be_smaller_than_the_number_of_parts(data):
    classifier = GraphClassifier(settings=PARTS).fit(data)
    few = data.subgraph(torch.arange(3))
    assert classifier.predict_proba(few).shape == (3, 3)


@pytest.fixture(scope="module")
def two_classes():
    return gread.csbm(120, 2, homophily=0.8, degree=8, num_features=6, num_splits=1, seed=3)


@pytest.mark.slow
def test_two_classes_are_learned_by_the_binary_loss(two_classes, tmp_path):
    settings = {"epochs": 60, "hidden_channels": 8, "loss": "binary", "metric": "roc-auc"}
    classifier = GraphClassifier(settings=settings, class_weight="balanced").fit(two_classes)
    found = classifier.predict_proba()
    assert found.shape == (120, 2)
    assert found.sum(axis=1) == pytest.approx(1)
    assert classifier.score() > 0.8
    (threshold,) = classifier.thresholds_[0]
    np.testing.assert_array_equal(classifier.predict(), found[:, 1] >= threshold)
    data = classifier.data_
    log_odds = logits_of(classifier.module_, data, data.train_mask, classifier.config_)
    np.testing.assert_allclose(found[:, 1], log_odds.sigmoid().numpy()[:, 0], atol=1e-6)
    np.testing.assert_allclose(classifier.predict_proba(two_classes), found, atol=1e-5)
    assert list(compare(classifier)) == ["GREAD-BS", "MLP", "Label propagation", "GCN"]
    folder = classifier.save(tmp_path / "model")
    loaded = GraphClassifier.load(folder)
    assert loaded.config_ == classifier.config_
    np.testing.assert_array_equal(loaded.predict_proba(), found)
    assert json.loads((folder / "config.json").read_text())["out_channels"] == 1


@pytest.mark.parametrize("metric", ["macro-f1", "nll"])
@pytest.mark.parametrize("loss", ["cross-entropy", "binary"])
def test_the_metric_selects_the_epoch(two_classes, loss, metric):
    settings = {"epochs": 12, "hidden_channels": 8, "loss": loss, "metric": metric}
    found = GraphClassifier(settings=settings).fit(two_classes).fit_
    best = min if metric == "nll" else max
    assert found.best.val == best(epoch.val for epoch in found.history)


@pytest.mark.slow
def test_tuning_keeps_the_lowest_validation_nll(two_classes):
    settings = {"epochs": 2, "hidden_channels": 8, "metric": "nll"}
    first = GraphClassifier(settings=settings).fit(two_classes)
    seen = [first.fit_.best.val]
    tune(first, minutes=0.02, on_trial=lambda _, best: seen.append(best.fit_.best.val))
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "squared-error"}, "loss must be one of cross-entropy, binary for classes"),
        ({"loss": "binry"}, "unknown loss 'binry', did you mean 'binary'"),
        ({"loss": "binary"}, "loss 'binary' needs 2 classes, got 3"),
        ({"metric": "r2"}, "metric must be one of accuracy, .* got 'r2'"),
    ],
)
def test_invalid_losses_and_metrics_raise_input_error(data, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        GraphClassifier(settings=settings).fit(data)


@pytest.mark.parametrize("split", [-1, 1, True])
def test_the_number_of_a_split_must_exist(data, split):
    with pytest.raises(InputError, match=f"split must be a whole number from 0 to 0, got {split}"):
        GraphClassifier("mlp", settings=FAST).prepare(data, split=split)


def test_the_number_of_a_split_needs_masks(data):
    with pytest.raises(InputError, match="a number is for a PyG Data with masks"):
        GraphClassifier("mlp", settings=FAST).prepare(
            data.x, data.y, edges=data.edge_index, split=1
        )


def test_class_weights_must_be_numbers(data):
    with pytest.raises(InputError, match="class_weight must hold numbers, got 'x'"):
        GraphClassifier("mlp", settings=FAST, class_weight={0: "x"}).prepare(data)
