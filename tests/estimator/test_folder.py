import json
import math
import os
import pickle
import shutil
import subprocess
import sys
from copy import copy
from dataclasses import replace
from itertools import pairwise

import networkx
import numpy as np
import pandas
import pytest
import torch

import gread
from gread import GraphClassifier
from gread.base.errors import InputError
from gread.estimator import folder as folders
from gread.estimator.classifier import ESTIMATORS
from gread.estimator.comparison import compare
from gread.estimator.tune import tune
from gread.models.catalog import MODELS
from tests.estimator.conftest import FAST


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    return fitted.save(tmp_path_factory.mktemp("saved") / "model")


def test_a_loaded_classifier_predicts_the_same(fitted, saved, data):
    loaded = GraphClassifier.load(saved)
    np.testing.assert_array_equal(loaded.predict_proba(), fitted.predict_proba())
    np.testing.assert_array_equal(loaded.predict_proba(data), fitted.predict_proba(data))
    assert loaded.get_params() == fitted.get_params() | {"model": fitted.model_}
    assert loaded.classes_.tolist() == [0, 1, 2]
    assert loaded.ids_ == fitted.ids_
    assert loaded.diagnosis_ == fitted.diagnosis_
    assert loaded.scores() == fitted.scores()


def test_saving_a_loaded_classifier_writes_identical_files(saved, tmp_path):
    again = GraphClassifier.load(saved).save(tmp_path / "again")
    for name in ("config.json", "classifier.json", "model.safetensors", "graph.safetensors"):
        assert (again / name).read_bytes() == (saved / name).read_bytes()


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers"])
def test_a_loaded_estimator_trains_and_compares_like_the_saved_one(kind, data, tmp_path):
    data = data.clone()
    if kind == "labels":
        data.y = torch.stack([data.y == 1, data.x[:, 0] > 0], 1).float()
    elif kind == "numbers":
        data.y = 7 + data.y + data.x[:, 0].double()
    estimator = ESTIMATORS["regression" if kind == "numbers" else "classification"]
    one = estimator("gcn", settings={"epochs": 1, "hidden_channels": 4}).fit(data)
    two = estimator.load(one.save(tmp_path / "m"))
    assert compare(two) == compare(one)
    assert two.fit_.best == one.fit_.best
    again = two.predictions()
    np.testing.assert_array_equal(two.train().predictions(), again)


def test_folder_of_an_earlier_version_is_trained_but_not_tuned(saved, fitted, tmp_path):
    shutil.copytree(saved, tmp_path / "m")
    about = json.loads((saved / "classifier.json").read_text())
    for name in ("split_given", "all_edges", "best_epoch"):
        del about[name]
    (tmp_path / "m" / "classifier.json").write_text(json.dumps(about))
    loaded = GraphClassifier.load(tmp_path / "m")
    found = (one.like("mlp", {"epochs": 1}).predictions() for one in (loaded, fitted))
    np.testing.assert_array_equal(*found)
    with pytest.raises(InputError, match="fit it again if its model folder is from an earlier"):
        tune(loaded, minutes=0.01)


def test_an_undefined_metric_is_stored_as_valid_json(fitted, tmp_path):
    classifier = copy(fitted)
    classifier.fit_ = replace(fitted.fit_, best=replace(fitted.fit_.best, test=math.nan))
    text = (classifier.save(tmp_path / "m") / "classifier.json").read_text()
    json.loads(text, parse_constant=pytest.fail)
    found = GraphClassifier.load(tmp_path / "m").fit_.best
    assert math.isnan(found.test)
    assert found.val == fitted.fit_.best.val


def test_gread_from_pretrained_reads_the_classifier_folder(fitted, saved):
    pytest.importorskip("huggingface_hub")
    model = gread.GREAD.from_pretrained(saved)
    data = fitted.data_
    with torch.no_grad():
        found = model(data.x, data.edge_index).double().softmax(dim=1).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(), atol=1e-6)


@pytest.mark.parametrize("name", ["gcn", "linkx", "h2gcn", "grand++", "sheaf-bundle", "gread-fb*"])
def test_loaded_models_of_every_kind_give_the_same_predictions(data, tmp_path, name):
    settings = {"epochs": 1, "hidden_channels": 8}
    classifier = GraphClassifier(name, settings=settings, class_weight={0: 2.0}).fit(data)
    loaded = GraphClassifier.load(classifier.save(tmp_path / "m"))
    np.testing.assert_allclose(loaded.predict_proba(), classifier.predict_proba(), atol=1e-6)
    assert loaded.class_weight == {0: 2.0}
    if MODELS[name].transductive({}):
        with pytest.raises(InputError, match="cannot predict another graph"):
            loaded.predict(data)


def test_save_and_load_do_not_use_pickle(fitted, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "dump", "dumps", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    fitted.save(tmp_path / "m")
    assert {path.suffix for path in (tmp_path / "m").iterdir()} == {".json", ".safetensors", ".md"}
    GraphClassifier.load(tmp_path / "m").predict()


def test_loading_restores_text_classes_and_ids(table_graph, tmp_path):
    classifier = GraphClassifier(settings=FAST, features="x0,x1").fit(table_graph, "topic")
    loaded = GraphClassifier.load(classifier.save(tmp_path / "m"))
    assert loaded.ids_[:2] == ["n0", "n1"]
    assert loaded.predict().tolist() == classifier.predict().tolist()
    assert loaded.predict(table_graph).tolist() == classifier.predict(table_graph).tolist()
    card = (tmp_path / "m" / "README.md").read_text()
    assert "blue, green, red" in card
    assert "- numbers, standardized: x0, x1" in card
    assert "GREAD-BS, macro-F1" in card
    fingerprint = json.loads((tmp_path / "m" / "classifier.json").read_text())["fingerprint"]
    assert fingerprint in card


def test_folder_without_training_graph_predicts_only_given_graphs(saved, data, tmp_path):
    shutil.copytree(saved, tmp_path / "m")
    (tmp_path / "m" / "graph.safetensors").unlink()
    loaded = GraphClassifier.load(tmp_path / "m")
    assert loaded.predict(data).shape == (150,)
    with pytest.raises(InputError, match="a graph must be given"):
        loaded.predict()
    with pytest.raises(InputError, match=r"the model cannot be saved: .* without its training gr"):
        loaded.save(tmp_path / "again")
    for use in (loaded.train, lambda: loaded.like("mlp", FAST), lambda: tune(loaded, minutes=1)):
        with pytest.raises(InputError, match=r"no model can be trained: .* without its training"):
            use()


def test_features_of_a_loaded_graph_are_memory_mapped(saved):
    with folders.safe_open(saved / folders.GRAPH, framework="pt") as file:
        names = set(file.keys())
    assert names == {"ids", "x", "edge_index", "y", "train_mask", "val_mask", "test_mask"}
    loaded = GraphClassifier.load(saved)
    mapped = (saved / folders.GRAPH).resolve().as_posix()
    with open("/proc/self/maps") as maps:
        assert mapped in maps.read()
    assert loaded.data_.x.shape == (150, 12)


@pytest.mark.parametrize("file", ["classifier.json", "model.safetensors", "graph.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format": 1}', b"\xff\xfe"])
def test_corrupt_model_folder_raises_a_one_line_error(saved, tmp_path, file, content):
    shutil.copytree(saved, tmp_path / "m")
    (tmp_path / "m" / file).write_bytes(content)
    with pytest.raises(InputError) as raised:
        GraphClassifier.load(tmp_path / "m")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["nowhere", "./no/where", "/nowhere/at"])
def test_missing_model_folder_raises_input_error(name):
    with pytest.raises(InputError, match="there is no model folder"):
        GraphClassifier.load(name)


@pytest.mark.slow
def test_folder_in_the_hub_cache_is_loaded_offline(saved, tmp_path):
    """The folder has the layout of the Hub's cache and is read without network access."""
    pytest.importorskip("huggingface_hub")
    place = tmp_path / "hub" / "models--someone--model"
    shutil.copytree(saved, place / "snapshots" / ("0" * 40))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    code = (
        "import gread\n"
        "print(gread.GraphClassifier.load('someone/model').predict().shape)\n"
        "print(gread.GREAD.from_pretrained('someone/model').in_channels)\n"
        "gread.GraphClassifier.load('someone/other')"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code]  # the Hub reads the environment at import
    shown = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert shown.stdout.split("\n")[:2] == ["(150,)", "12"], shown.stderr
    assert "InputError: there is no model folder someone/other, and none on" in shown.stderr


@pytest.mark.parametrize("kind", ["pair", "numpy"])
def test_ids_of_a_networkx_graph_keep_their_type(kind, tmp_path):
    ids = [(k // 8, k % 8) if kind == "pair" else np.int64(k) for k in range(64)]
    graph = networkx.Graph()
    graph.add_nodes_from((node, {"x": k % 7, "y": k % 2}) for k, node in enumerate(ids))
    graph.add_edges_from(pairwise(ids))
    classifier = GraphClassifier("gcn", settings={"epochs": 1}).fit(graph, "y")
    assert GraphClassifier.load(classifier.save(tmp_path / "m")).ids_ == ids


def test_arguments_of_numpy_and_pandas_can_be_saved(tmp_path):
    nodes = pandas.DataFrame({"a": range(60), "b": range(60), "y": np.arange(60) % 2})
    given = {"features": nodes.columns[:2], "class_weight": {np.int64(0): np.float32(2)}}
    classifier = GraphClassifier("mlp", settings={"epochs": 1}, directed=np.bool_(True), **given)
    classifier.fit(nodes, "y", edges=np.array([[0, 1], [1, 2]]))
    loaded = GraphClassifier.load(classifier.save(tmp_path / "m"))
    assert (loaded.features, loaded.class_weight) == (["a", "b"], {0: 2.0})
    assert loaded.directed is True
