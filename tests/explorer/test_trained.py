"""Data of trained models and stored results for the page."""

import json
from dataclasses import replace

import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.experiments.accuracy import PAPER
from gread.experiments.protocol import runs_of
from gread.explorer.leaderboard import leaderboard
from gread.explorer.trained import MOMENTS, portrait, portrait_of_folder, portrait_of_run
from gread.models.catalog import MODELS
from gread.runs.result import Result
from gread.runs.run import run
from gread.runs.spec import RunSpec
from gread.training.config import TrainConfig

CONTINUOUS = [name for name, entry in MODELS.items() if entry.continuous]


def small(model, **more):
    return RunSpec(
        dataset="csbm",
        model=model,
        hyper={"hidden_channels": 8} | more.pop("hyper", {}),
        train=TrainConfig(epochs=2),
        options={"num_nodes": 60},
        **more,
    )


@pytest.mark.parametrize("model", CONTINUOUS)
def test_last_moment_of_portrait_matches_the_model_predictions(model):
    polynomial = model in ("gread-f", "gread-ac", "gread-z")  # which diverge from large states
    spec = small(model, hyper={"time": 0.05, "step_size": 0.05} if polynomial else {})
    seen = []
    result = run(spec, on_epoch=lambda epoch, model, data: seen.append((model, data)))
    found = portrait_of_run(result, lambda epoch: None)
    trained, data = seen[-1]
    with torch.no_grad():
        logits = trained.eval()(data.x, data.edge_index)
    assert found["predictions"][-1] == logits.argmax(dim=1).tolist()
    assert found["accuracy"]["test"][-1] == pytest.approx(result.test, abs=1e-4)
    assert len(found["places"]) == len(found["times"]) == MOMENTS
    assert all(len(places) == 120 for places in found["places"])
    assert all(0 <= place <= 1 for places in found["places"] for place in places)
    json.dumps(found, allow_nan=False)


def test_nodes_with_equal_states_share_a_position(graph):
    model = gread.GREAD(3, 4, 2, time=1.0).double()
    graph.x[1] = graph.x[0]
    masks = {name: graph[name][:, 0] for name in ("train_mask", "val_mask", "test_mask")}
    data = graph.clone().update(masks)
    found = portrait(model, data, key="k", title="t", labels=["a", "b"])
    assert found["places"][0][:2] == found["places"][0][2:4]
    assert found["parts"].count(3) == 12 - sum(int(mask.sum()) for mask in masks.values())
    assert found["alike"][11] is None  # node 11 has no neighbours
    assert found["degrees"][11] == 0


@pytest.mark.parametrize(("reaction", "linear"), [("bs", True), ("ac", False), (None, False)])
def test_only_linear_reactions_have_a_response(graph, reaction, linear):
    model = gread.GREAD(3, 4, 2, reaction=reaction, time=0.5).double()
    for name in ("train_mask", "val_mask", "test_mask"):
        graph[name] = graph[name][:, 0]
    found = portrait(model, graph, key="k", title="t", labels=["a", "b"])
    assert (found["response"] is not None) == linear
    assert len(found["beta"]) == (0 if reaction is None else 4)


def test_model_folder_is_shown_on_its_training_graph(tmp_path):
    data = gread.load("csbm", num_nodes=80, homophily=0.8, degree=8)
    settings = {"epochs": 3, "hidden_channels": 8}
    gread.GraphClassifier(settings=settings).fit(data).save(tmp_path / "good")
    found = portrait_of_folder(tmp_path / "good")
    classifier = gread.GraphClassifier.load(tmp_path / "good")
    assert [found["labels"][k] for k in found["predictions"][-1]] == [
        str(label) for label in classifier.predict()
    ]
    assert found["title"] == "GREAD-BS in good"
    gread.GraphClassifier("gcn", settings=settings).fit(data).save(tmp_path / "gcn")
    with pytest.raises(InputError, match="continuous time, got GCN"):
        portrait_of_folder(tmp_path / "gcn")
    (tmp_path / "good" / "graph.safetensors").unlink()
    with pytest.raises(InputError, match="must hold the graph of its training"):
        portrait_of_folder(tmp_path / "good")


@pytest.mark.slow
def test_folder_of_a_blend_is_rejected(tmp_path):
    data = gread.load("csbm", num_nodes=80)
    gread.GraphClassifier("auto", time=0.02).fit(data).save(tmp_path / "blend")
    with pytest.raises(InputError, match=r"a single model, .*, got a blend of --model auto"):
        portrait_of_folder(tmp_path / "blend")


def rated(spec, test, val=0.5):
    return Result(spec, "ok", test=test, val=val)


def cell(board, model, dataset):
    return {row["model"]: row["cells"] for row in board["rows"]}[model][dataset]


def test_the_leaderboard_has_the_papers_numbers_without_any_run():
    board = leaderboard([])
    assert {row["model"] for row in board["rows"]} == set(PAPER)
    assert cell(board, "GREAD-BS", "texas") == {"ours": None, "paper": [88.92, 3.72]}


def test_protocol_runs_take_precedence_over_other_runs():
    protocol = runs_of("gread-bs", "texas")
    others = [small("gread-bs", split=k) for k in range(3)]
    results = [rated(spec, 0.8) for spec in protocol[:2]]
    results += [rated(RunSpec(dataset="texas", model="gread-bs", split=k), 1.0) for k in range(9)]
    results += [rated(spec, 0.25 * k) for k, spec in enumerate(others)]
    board = leaderboard(results)
    assert cell(board, "GREAD-BS", "texas")["ours"] == [80.0, 0.0, 2]
    assert cell(board, "GREAD-BS", "csbm")["ours"] == [25.0, pytest.approx(20.4124), 3]
    assert board["rows"][0]["model"] == "GREAD-BS"


def test_leaderboard_selects_settings_by_validation_not_test_accuracy():
    def group(epochs, val, test):
        train = TrainConfig(epochs=epochs)
        specs = [RunSpec(dataset="csbm", model="gcn", split=k, train=train) for k in range(2)]
        return [rated(spec, test, val) for spec in specs]

    board = leaderboard([*group(1, 0.6, 0.4), *group(2, 0.5, 0.9)])
    assert cell(board, "GCN", "csbm")["ours"][0] == 40.0


def test_leaderboard_leaves_out_runs_with_another_metric():
    auc = TrainConfig(metric="roc-auc")
    specs = [RunSpec(dataset="csbm", model="gcn", split=k, train=auc) for k in range(2)]
    specs.append(replace(specs[0], train=TrainConfig(metric="not-registered")))
    results = [rated(spec, 0.9, 0.9) for spec in specs]
    assert "csbm" not in {dataset["name"] for dataset in leaderboard(results)["datasets"]}
    results.append(rated(RunSpec(dataset="csbm", model="gcn"), 0.6))
    assert cell(leaderboard(results), "GCN", "csbm")["ours"] == [60.0, 0.0, 1]


@pytest.mark.parametrize(("metric", "form"), [("roc-auc", "{:.2%}"), ("nll", "{:.4f}")])
def test_portrait_of_a_run_names_its_metric(metric, form):
    result = run(replace(small("gread-bs"), train=TrainConfig(epochs=2, metric=metric)))
    (note, *_) = portrait_of_run(result, lambda epoch: None)["notes"]
    shown = form.format(result.test).removesuffix("%")
    assert f"Test {metric} {shown}, stored {shown} " in note
