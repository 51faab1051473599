"""The commands for a user's own graph, with valid and invalid input."""

import csv
import json
import re
import signal
import sys
import time

import networkx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from matplotlib.image import imread

import gread as library
from gread.base.toml import read_toml
from gread.cli import main
from gread.cli.fit import _print_tuning
from gread.estimator.fitted import Tuning
from gread.training.metrics import METRICS
from tests.cli.test_cli import gread  # noqa: F401  # the command in this process
from tests.processes import Forked

FAST = ("--set", "epochs=3", "--set", "hidden_channels=4")
ONE_STEP = ("--set", "solver=euler", "--set", "time=1")
"""Settings of a model with few operators; exporting each takes milliseconds."""


def write_csv(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture
def files(tmp_path):
    """Files of eighty nodes in two classes; every eighth node has no class."""
    data = library.csbm(80, 2, homophily=0.9, degree=6, num_features=3, num_splits=1, seed=0)
    nodes = {"id": [f"n{k}" for k in range(80)]}
    nodes["topic"] = ["" if k % 8 == 0 else "ab"[int(data.y[k])] for k in range(80)]
    nodes |= {f"x{k}": np.round(data.x[:, k].numpy(), 3).tolist() for k in range(3)}
    ends = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].tolist()
    edges = {"src": [f"n{k}" for k in ends[0]], "dst": [f"n{k}" for k in ends[1]]}
    paths = [
        write_csv(tmp_path / name, part)
        for name, part in zip(("n.csv", "e.csv"), (nodes, edges), strict=True)
    ]
    return nodes, edges, *paths


@pytest.fixture
def fit(gread, files, tmp_path):  # noqa: F811
    """Train briefly."""

    def run(*arguments, nodes=files[2], edges=files[3], label="topic", out="model"):
        given_edges = () if edges is None else ("--edges", edges)
        named = ("--nodes", nodes, *given_edges, "--label", label, "--out", tmp_path / out)
        return gread("fit", *named, *FAST, *arguments)

    return run


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_fit_and_predict_from_two_csv_files(fit, gread, tmp_path):  # noqa: F811
    shown = fit()
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    for words in ("homophily", "Recommended: reaction bs", "macro-F1", "ROC-AUC", "MLP"):
        assert words in text
    for words in (
        "Label propagation",
        "GCN",
        "true \\ predicted",
        "mean confidence",
        "10 nodes to predict",
    ):
        assert words in text
    assert "reading" in shown.stderr
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"README.md", "config.json", "classifier.json", "model.safetensors"} <= names
    for picture in ("diagnosis", "confusion", "calibration"):
        assert imread(tmp_path / "model" / f"{picture}.png").shape[0] > 500
    assert gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv").returncode == 0
    rows = rows_of(tmp_path / "p.csv")
    assert list(rows[0]) == ["id", "prediction", "confidence", "p_a", "p_b"]
    assert [row["id"] for row in rows] == [f"n{k}" for k in range(0, 80, 8)]
    for row in rows:
        shares = {name: float(row[f"p_{name}"]) for name in "ab"}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
        assert float(row["confidence"]) == shares[row["prediction"]] == max(shares.values())


@pytest.mark.slow
def test_predict_accepts_an_extended_graph(fit, gread, files, tmp_path):  # noqa: F811
    fit()
    nodes, edges, *_ = files
    more = {name: [*values, values[0]] for name, values in nodes.items()}
    more["id"][-1] = "new"
    grown = write_csv(tmp_path / "n2.csv", more)
    joined = {"src": [*edges["src"], "new"], "dst": [*edges["dst"], "n1"]}
    ends = write_csv(tmp_path / "e2.csv", joined)
    out = ("--out", tmp_path / "p.csv")
    shown = gread("predict", tmp_path / "model", "--nodes", grown, "--edges", ends, *out)
    assert shown.returncode == 0, shown.stderr
    assert [row["id"] for row in rows_of(tmp_path / "p.csv")] == more["id"]


@pytest.mark.slow
def test_added_node_predictions_match_the_extended_graph(fit, gread, files, tmp_path):  # noqa: F811
    fit()
    nodes, edges, *_ = files
    new = {name: [values[3], values[5]] for name, values in nodes.items() if name != "topic"}
    new["id"] = ["a", "b"]
    ends = {"src": ["a", "n3", "a"], "dst": ["n1", "b", "b"]}
    named = [write_csv(tmp_path / f"{k}.csv", part) for k, part in enumerate((new, ends))]
    out = ("--out", tmp_path / "p.csv")
    model = tmp_path / "model"
    shown = gread("predict", model, "--add-nodes", named[0], "--add-edges", named[1], *out)
    assert shown.returncode == 0, shown.stderr
    assert "p.csv: 2 nodes" in shown.stderr
    found = rows_of(tmp_path / "p.csv")
    grown = {name: [*values, *new.get(name, ["", ""])] for name, values in nodes.items()}
    joined = {name: [*edges[name], *ends[name]] for name in edges}
    files = write_csv(tmp_path / "n2.csv", grown), write_csv(tmp_path / "e2.csv", joined)
    (tmp_path / "p.csv").unlink()
    assert gread("predict", model, "--nodes", files[0], "--edges", files[1], *out).returncode == 0
    for one, other in zip(found, rows_of(tmp_path / "p.csv")[-2:], strict=True):
        assert one["id"] == other["id"]
        assert float(one["p_a"]) == pytest.approx(float(other["p_a"]), abs=2e-5)


@pytest.mark.slow
def test_a_model_is_chosen_by_default_and_shown_with_its_candidates(gread, files, tmp_path):  # noqa: F811
    named = ("--nodes", files[2], "--edges", files[3], "--label", "topic", "--time", "0.05")
    shown = gread("fit", *named, "--out", tmp_path / "model")
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "│ Label propagation │" in text
    assert "Validation accuracy of the blend: " in text
    auto = ("--model", "auto", "--out", tmp_path / "m", "--json")
    assert json.loads(gread("fit", *named, *auto).stdout)["candidates"][0]["candidate"]


@pytest.mark.slow
def test_fit_reads_edge_types_and_predict_checks_them(fit, gread, files, tmp_path):  # noqa: F811
    nodes, edges, *_ = files
    kinds = ["near" if k % 3 else "far" for k in range(len(edges["src"]))]
    typed = write_csv(tmp_path / "typed.csv", {**edges, "kind": kinds})
    shown = fit("--model", "gread-x", edges=typed, out="plain")
    told = "Unused columns of the edges: kind (--weight COLUMN uses one as weights, --edge-type "
    assert told + "COLUMN uses one as types)." in " ".join(shown.stdout.split())
    shown = fit("--model", "gread-x", "--edge-type", "kind", edges=typed)
    assert shown.returncode == 0, shown.stderr
    assert "Edges have 2 types: near " in shown.stdout
    new = {name: [values[3]] for name, values in nodes.items() if name != "topic"} | {"id": ["a"]}
    out = ("--out", tmp_path / "p.csv", "--add-nodes", write_csv(tmp_path / "new.csv", new))
    for kind, code in (("far", 0), ("between", 2)):
        joins = {"src": ["a"], "dst": ["n1"], "kind": [kind]}
        ends = write_csv(tmp_path / "ends.csv", joins)
        shown = gread("predict", tmp_path / "model", *out, "--add-edges", ends)
        assert shown.returncode == code, shown.stderr
    assert "edges must have types of the training graph ('near', 'far'), got 'between'" in " ".join(
        shown.stderr.split()
    )


@pytest.mark.slow
def test_time_split_reports_its_boundary_dates(fit, files, tmp_path):
    nodes, edges, *_ = files
    days = [f"2020-01-{1 + k % 20:02}" for k in range(80)]
    timed = write_csv(tmp_path / "timed.csv", {**nodes, "joined": days})
    ends = {**edges, "joined": [days[int(name[1:])] for name in edges["dst"]]}
    shown = fit("--time-column", "joined", nodes=timed, edges=write_csv(tmp_path / "t.csv", ends))
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert re.search(r"Split by joined: nodes before 2020-01-1\d train", text)
    assert re.search(r"Training uses no edge from 2020-01-1\d on \(\d+ edges\)", text)
    shown = fit("--time-column", "topic", nodes=timed, out="other")
    assert shown.returncode == 2
    assert "must hold numbers or dates, got text" in shown.stderr


def test_linkx_predicts_only_its_training_graph(fit, gread, files, tmp_path):  # noqa: F811
    assert fit("--model", "linkx").returncode == 0
    out = ("--out", tmp_path / "p.csv")
    assert gread("predict", tmp_path / "model", *out).returncode == 0
    shown = gread("predict", tmp_path / "model", "--nodes", files[2], "--edges", files[3], *out)
    assert shown.returncode == 2
    assert "linkx has weights for every node" in shown.stderr


@pytest.mark.slow
def test_fit_predict_and_diagnose_print_valid_json(fit, gread, tmp_path, files):  # noqa: F811
    found = json.loads(fit("--json").stdout)
    assert list(found["scores"]) == ["GREAD-BS", "MLP", "Label propagation", "GCN"]
    assert found["settings"]["hidden_channels"] == 4
    assert {"reading", "preparing", "training"} <= set(found["seconds"])
    out = ("--out", tmp_path / "p.csv")
    assert json.loads(gread("predict", tmp_path / "model", *out, "--json").stdout)["nodes"] == 10
    shown = gread(
        "diagnose", "--nodes", files[2], "--edges", files[3], "--label", "topic", "--json"
    )
    assert json.loads(shown.stdout)["labelled"] == 70


def test_diagnose_writes_a_figure(gread, tmp_path, files):  # noqa: F811
    named = ("--nodes", files[2], "--edges", files[3], "--label", "topic")
    shown = gread("diagnose", *named, "--out", tmp_path / "d")
    assert shown.returncode == 0, shown.stderr
    assert "70 with a class" in shown.stdout
    assert imread(tmp_path / "d" / "diagnosis.png").shape[1] > 1500


def test_graphml_file_needs_no_edges_option(fit, gread, files, tmp_path):  # noqa: F811
    nodes, edges, *_ = files
    graph = networkx.Graph(list(zip(edges["src"], edges["dst"], strict=True)))
    for k, name in enumerate(nodes["id"]):
        known = {"x": nodes["x0"][k]} | ({"topic": nodes["topic"][k]} if nodes["topic"][k] else {})
        graph.add_node(name, **known)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    shown = fit(nodes=tmp_path / "g.graphml", edges=None)
    assert shown.returncode == 0, shown.stderr
    out = ("--out", tmp_path / "p.csv")
    assert (
        gread("predict", tmp_path / "model", "--nodes", tmp_path / "g.graphml", *out).returncode
        == 0
    )
    assert len(rows_of(tmp_path / "p.csv")) == 80


@pytest.mark.slow
def test_tune_runs_trials_within_its_time_limit(fit, tmp_path):
    pytest.importorskip("optuna")
    shown = fit("--tune", "0.02", "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["seconds"]["tuning"] < 30
    assert found["tuning"]["trials"] > 0
    assert fit("--tune", "0", out="other").returncode == 2


@pytest.mark.slow
def test_tuning_reports_trials_and_validation_improvement(fit):
    pytest.importorskip("optuna")
    text = " ".join(fit("--tune", "0.02").stdout.split())
    assert re.search(r"Tuning: \d+ trials", text)
    assert "No trial improved validation" in text or "Validation accuracy improved" in text


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Tuning(0, 0, 0.8, None, False, {}), "No trial finished in time"),
        (Tuning(3, 2, 0.8, 0.7, False, {}), "3 trials (2 more diverged). No trial improved"),
        (
            Tuning(9, 0, 0.8, 0.85, True, {"lr": (0.01, 0.02)}),
            "Validation accuracy improved from 80.0% to 85.0% with these settings",
        ),
    ],
)
def test_tuning_summary_describes_every_outcome(capsys, told, words):
    classifier = library.GraphClassifier("gread-bs")
    classifier.tuning_, classifier.config_ = told, classifier.config()
    _print_tuning(classifier)
    assert words in " ".join(capsys.readouterr().out.split())


def test_tuning_summary_of_a_regressor_uses_its_metric(capsys):
    regressor = library.GraphRegressor(settings={"loss": "squared-error"})
    regressor.config_ = regressor.config()
    regressor.tuning_ = Tuning(2, 0, -0.25, 0.5, True, {"lr": (0.01, 0.02)})
    _print_tuning(regressor)
    assert "Validation r2 improved from -0.250 to 0.500" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.slow
def test_progress_is_logged_when_output_is_not_a_terminal(fit, monkeypatch):
    monkeypatch.setattr("gread.base.progress.EVERY", 0.001)
    shown = fit("--set", "epochs=30")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"^0 s: epoch \d+ loss", shown.stderr, re.M)
    assert "comparing with simpler models" in shown.stderr


@pytest.mark.slow
def test_a_model_is_exported_to_one_file(fit, gread, tmp_path):  # noqa: F811
    assert fit("--model", "gcn").returncode == 0
    shown = gread("export", tmp_path / "model", tmp_path / "model.pt2")
    assert shown.returncode == 0, shown.stderr
    assert "x [N, 3], edge_index [2, E] with edges in both directions" in shown.stderr
    program = torch.export.load(tmp_path / "model.pt2").module()
    graph = library.GraphClassifier.load(tmp_path / "model").data_
    assert gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv").returncode == 0
    found = program(graph.x, graph.edge_index)[::8].tolist()
    for (p, q), row in zip(found, rows_of(tmp_path / "p.csv"), strict=True):
        assert (float(row["p_a"]), float(row["p_b"])) == pytest.approx((p, q), abs=1e-5)
    about = json.loads(gread("export", tmp_path / "model", tmp_path / "m.pt2", "--json").stdout)
    assert about["classes"] == ["a", "b"]
    assert about["features"] == ["x0", "x1", "x2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "file", "sentence"),
    [
        ("linkx", "m.pt2", "linkx cannot be exported"),
        ("gcn", "m.pt", "must end with .pt2 or .onnx"),
    ],
)
def test_unsupported_exports_print_a_one_line_error(fit, gread, tmp_path, model, file, sentence):  # noqa: F811
    assert fit("--model", model).returncode == 0
    shown = gread("export", tmp_path / "model", tmp_path / file)
    assert shown.returncode == 2
    assert sentence in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / file).exists()


@pytest.mark.slow
def test_fit_accepts_a_split_column_and_class_weights(fit, files, tmp_path):
    nodes = files[0] | {"part": [("train", "val", "test")[k % 3] for k in range(80)]}
    path = write_csv(tmp_path / "s.csv", nodes)
    shown = fit("--split", "part", "--class-weight", "balanced", nodes=path)
    assert shown.returncode == 0, shown.stderr
    assert "part" not in library.GraphClassifier.load(tmp_path / "model").preprocessing_.encoders


def check_deployed(gread, folder, nodes, outputs):  # noqa: F811
    """Check that a model predicts an added node and can be exported."""
    new = {name: [values[1]] for name, values in nodes.items() if name.startswith("x")}
    new = {"id": ["new"], **new}
    path, out = write_csv(folder / "new.csv", new), folder / "added.csv"
    shown = gread("predict", folder / "model", "--add-nodes", path, "--out", out)
    assert shown.returncode == 0, shown.stderr
    (row,) = rows_of(out)
    assert list(row) == list(rows_of(folder / "p.csv")[0])
    assert row["id"] == "new"
    shown = gread("export", folder / "model", folder / "model.pt2")
    assert shown.returncode == 0, shown.stderr
    assert outputs in shown.stderr


@pytest.mark.slow
def test_numeric_label_is_predicted_by_regression(fit, gread, files, tmp_path):  # noqa: F811
    prices = ["" if k % 8 == 0 else 10 + x for k, x in enumerate(files[0]["x0"])]
    path = write_csv(tmp_path / "r.csv", files[0] | {"topic": prices})
    shown = fit(*ONE_STEP, nodes=path)
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    for words in (
        "it is predicted as a number",
        "55 with a number",
        "MAE",
        "R²",
        "10 nodes to predict",
    ):
        assert words in text
    assert gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv").returncode == 0
    rows = rows_of(tmp_path / "p.csv")
    assert list(rows[0]) == ["id", "prediction"]
    assert all(0 < float(row["prediction"]) < 30 for row in rows)
    check_deployed(gread, tmp_path, files[0], "to numbers [N, 1]")
    classes = fit("--task", "classification", nodes=path, out="other")
    assert classes.returncode == 2
    assert "must hold classes, got numbers such as" in classes.stderr


@pytest.mark.slow
@pytest.mark.parametrize("lists", [False, True])
def test_multilabel_targets_are_predicted(fit, gread, files, tmp_path, lists):  # noqa: F811
    nodes = dict(files[0])
    topic = nodes.pop("topic")
    high = ["high" if x > 0 else "" for x in nodes["x1"]]
    if lists:
        both = ["" if not one else f"{one};{two}" for one, two in zip(topic, high, strict=True)]
        nodes["topic"], label = both, "topic"
    else:
        nodes["a"] = ["" if not one else int(one == "a") for one in topic]
        nodes["high"], label = [int(bool(two)) for two in high], "a,high"
    shown = fit(*ONE_STEP, nodes=write_csv(tmp_path / "l.csv", nodes), label=label)
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    for words in ("56 with a set of labels", "micro-F1", "macro ROC-AUC"):
        assert words in text
    assert ("lists labels separated by ';'" in text) == lists
    assert gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv").returncode == 0
    rows = rows_of(tmp_path / "p.csv")
    names = ["a", "b", "high"] if lists else ["a", "high"]
    assert list(rows[0]) == ["id", *names, *(f"p_{name}" for name in names)]
    assert len(rows) == 10
    assert {row[name] for row in rows for name in names} <= {"0", "1"}
    check_deployed(gread, tmp_path, files[0], f"to probabilities [N, {len(names)}]")


@pytest.mark.slow
def test_rare_class_changes_the_metric_and_gets_a_threshold(fit, files, tmp_path):
    nodes = files[0] | {"topic": ["b" if k % 13 == 0 else "a" for k in range(80)]}
    shown = fit(nodes=write_csv(tmp_path / "r.csv", nodes))
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "are compared by average-precision instead of accuracy (--metric overrides)" in text
    assert "Class b is predicted if its probability is at least" in text
    shown = fit("--metric", "accuracy", nodes=tmp_path / "r.csv", out="other")
    assert "average-precision instead" not in shown.stdout
    assert "predicted if its probability" not in shown.stdout


def test_the_help_names_every_metric(gread):  # noqa: F811
    shown = " ".join(gread("fit", "--help").stdout.split())
    about = read_toml("cli", "help.toml")["fit"]["metric"]["help"]
    assert "--metric" in shown
    for name, entry in METRICS.items():
        for targets in entry.targets:
            start = {"classes": "Classes: ", "labels": "labels: ", "numbers": "Numbers: "}[targets]
            assert name in about.partition(start)[2].partition(".")[0].split(", ")


def changed(**columns):
    return lambda part: part | columns


BAD = {
    "an unknown node": (
        None,
        lambda e: e | {"dst": ["x9", *e["dst"][1:]]},
        (),
        "none of them: 'x9'",
    ),
    "duplicate ids": (
        lambda n: n | {"id": ["n1", *n["id"][1:]]},
        None,
        (),
        "node ids must be unique",
    ),
    "a missing column": (None, None, ("--features", "x0,x7"), "n.csv has no column 'x7'"),
    "no label column": (changed(), None, ("--label", "tpic"), "did you mean 'topic'?"),
    "one class": (
        lambda n: n | {"topic": ["a"] * 80},
        None,
        (),
        "two classes or more, got only 'a'",
    ),
    "no label": (lambda n: n | {"topic": [""] * 80}, None, (), "must name the class of some nodes"),
    "few labels": (
        lambda n: n | {"topic": ["a", "b"] + [""] * 78},
        None,
        (),
        "there must be nodes with a class to train",
    ),
    "a weight of text": (
        None,
        lambda e: e | {"w": ["heavy"] * len(e["src"])},
        ("--weight", "w", "--source", "src", "--target", "dst"),
        "must hold numbers, got text, such as 'heavy'",
    ),
    "nan": (lambda n: n | {"x0": ["nan", *n["x0"][1:]]}, None, (), "must hold finite numbers"),
    "infinity": (lambda n: n | {"x0": ["inf", *n["x0"][1:]]}, None, (), "must hold finite numbers"),
    "a constant number": (
        lambda n: n | {"topic": [2.5] * 80},
        None,
        ("--task", "regression"),
        "must hold different numbers, got only 2.5",
    ),
    "a class that does not train": (
        lambda n: (
            n
            | {"topic": ["c"] * 9 + ["a", "b"] * 35 + ["a"]}
            | {"part": ["test"] * 9 + ["train", "train", "val"] * 23 + ["val", "test"]}
        ),
        None,
        ("--split", "part"),
        "training nodes must be of every class, got none of 'c'",
    ),
    "a metric of numbers": (None, None, ("--metric", "mae"), "for classes, got 'mae'"),
    "an unknown metric": (None, None, ("--metric", "f1"), "unknown metric 'f1'"),
    "an unknown task": (None, None, ("--task", "ranking"), "unknown task 'ranking'"),
    "text as a number": (None, None, ("--task", "regression"), "must hold numbers, got text"),
    "labels of text": (None, None, ("--label", "x0"), "must hold 0 and 1, got text"),
    "a model": (None, None, ("--model", "gred"), "unknown model 'gred'"),
    "a device": (None, None, ("--device", "cuda:77"), "device must be one that this machine has"),
    "a weight of classes": (None, None, ("--class-weight", "b"), "class_weight must be None"),
    "a split": (None, None, ("--split", "x0"), "must contain train, val"),
    "the label as feature": (None, None, ("--features", "topic"), "must not name the column"),
    "a seed": (None, None, ("--seed", "-1"), "random_state must be a whole number of at least 0"),
    "minutes": (None, None, ("--tune", "-1"), "tune must be a positive number"),
    "parts": (None, None, ("--set", "parts=0"), "parts must be a whole number of at least 1"),
    "too many parts": (None, None, ("--set", "parts=81"), "parts must be at most the 80 nodes"),
    "parts of a model with weights a node": (
        None,
        None,
        ("--set", "parts=2", "--model", "linkx"),
        "parts must be 1 for LINKX",
    ),
    "divergence": (None, None, ("--set", "lr=1e30"), "the state overflows"),
}


@pytest.mark.parametrize(("nodes", "edges", "arguments", "sentence"), BAD.values(), ids=BAD)
def test_invalid_input_prints_an_error_and_writes_no_model(
    fit, files, tmp_path, nodes, edges, arguments, sentence
):
    if nodes is not None:
        write_csv(files[2], nodes(files[0]))
    if edges is not None:
        write_csv(files[3], edges(files[1]))
    check_refused(fit(*arguments), sentence, tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "n.csv is empty"),
        ("id,topic\nä,b\n".encode("latin-1"), "must be UTF-8 text"),
        (b'{"id": 1, "topic": "a"}\n{"id": "1", "topic": "b"}\n', "ids must be of one type"),
        (b"id,topic\n", "must have a node, got no rows"),
    ],
)
def test_invalid_file_prints_an_error_and_writes_no_model(fit, tmp_path, content, sentence):
    path = tmp_path / ("n.jsonl" if content.startswith(b"{") else "n.csv")
    path.write_bytes(content)
    check_refused(fit(nodes=path), sentence, tmp_path)


def test_file_larger_than_memory_prints_an_error(fit, tmp_path):
    with (tmp_path / "n.csv").open("r+b") as file:
        file.truncate(2**43)
    check_refused(fit(), "must fit into memory", tmp_path)


def check_refused(shown, sentence, folder):
    assert shown.returncode == 2
    assert sentence in shown.stderr
    assert "Traceback" not in shown.stderr
    assert not [path for path in folder.iterdir() if "model" in path.name]


def test_existing_output_folder_is_rejected_and_unchanged(fit, gread, tmp_path):  # noqa: F811
    (tmp_path / "model").mkdir()
    shown = fit()
    assert shown.returncode == 2
    assert "must not exist yet" in shown.stderr
    assert not list((tmp_path / "model").iterdir())
    named = gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv")
    assert named.returncode == 2
    assert "is not a model folder of gread" in named.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.slow
def test_invalid_predict_arguments_write_no_file(fit, gread, tmp_path):  # noqa: F811
    fit()
    for arguments, sentence in (
        (("--nodes", "none.csv", "--edges", "none.csv"), "there is no file none.csv"),
        (("--edges", "e.csv"), "--edges must come with --nodes"),
        (("--add-edges", "e.csv"), "--add-edges must come with --add-nodes"),
        (("--add-nodes", "n.csv", "--nodes", "n.csv"), "omit --nodes and --edges"),
    ):
        shown = gread("predict", tmp_path / "model", *arguments, "--out", tmp_path / "p.csv")
        assert shown.returncode == 2
        assert sentence in shown.stderr
        assert not (tmp_path / "p.csv").exists()


@pytest.mark.slow
def test_predict_rejects_a_graph_without_unlabelled_nodes(fit, gread, files, tmp_path):  # noqa: F811
    write_csv(files[2], files[0] | {"topic": ["a", "b"] * 40})
    fit()
    shown = gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv")
    assert shown.returncode == 2
    assert "must have nodes without a class, got none" in shown.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.slow
def test_ctrl_c_during_fit_leaves_no_files(files, tmp_path):
    command = ("fit", "--nodes", files[2], "--edges", files[3], "--label", "topic")
    options = ("--set", "epochs=1000000", "--set", "patience=1000000", "--out", tmp_path / "model")
    process = Forked("-m", "gread", *command, *options)
    while not any(path.name.startswith(".model") for path in tmp_path.iterdir()):
        assert process.poll() is None, process.end()
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    done = process.end(timeout=30)
    assert done.returncode == 130
    assert "stopped; nothing was written" in done.stderr
    assert not [path for path in tmp_path.iterdir() if "model" in path.name]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_fit_partitions_a_graph_larger_than_memory(fit, gread, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("gread.training.memory.free_memory", lambda device: 1e5)
    shown = fit()
    assert shown.returncode == 0
    assert "gread: training on the whole graph takes about" in shown.stderr
    assert ".py" not in shown.stderr
    about = json.loads((tmp_path / "model" / "classifier.json").read_text())
    assert about["training"]["parts"] > 1
    assert gread("predict", tmp_path / "model", "--out", tmp_path / "p.csv").returncode == 0


@pytest.mark.slow
def test_fit_accepts_a_number_of_parts(fit, tmp_path):
    assert fit("--set", "parts=4").returncode == 0
    about = json.loads((tmp_path / "model" / "classifier.json").read_text())
    assert about["training"]["parts"] == 4


CELLS = st.one_of(
    st.sampled_from(["", "a", "b", "0", "1", "2", "nan", "inf", "1e400", "NA", "true", "x y z"]),
    st.text(max_size=3),
)


@pytest.mark.slow
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    nodes=st.lists(
        st.tuples(st.integers(0, 12).map(str) | CELLS, CELLS, CELLS, CELLS), max_size=14
    ),
    edges=st.lists(st.tuples(st.integers(0, 12).map(str) | CELLS, CELLS, CELLS), max_size=6),
    options=st.sampled_from([(), ("--weight", "w"), ("--split", "s"), ("--features", "x,s")]),
)
def test_malformed_tables_never_show_a_traceback(tmp_path_factory, capsys, nodes, edges, options):
    folder = tmp_path_factory.mktemp("malformed")
    tables = [["id", "topic", "x", "s"], *nodes], [["source", "target", "w"], *edges]
    check_fit(folder, *tables, options, capsys)


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table=st.booleans(), row=st.integers(0, 24), column=st.integers(0, 2), cell=CELLS)
def test_one_bad_cell_never_shows_a_traceback(tmp_path_factory, capsys, table, row, column, cell):
    nodes = [["id", "topic", "x"], *([str(k), "ab"[k % 2], str(k / 7)] for k in range(24))]
    edges = [["source", "target", "w"], *([str(k), str((k + 1) % 24), "1"] for k in range(24))]
    (nodes if table else edges)[row][column] = cell
    check_fit(tmp_path_factory.mktemp("cell"), nodes, edges, ("--weight", "w"), capsys)


def check_fit(folder, nodes, edges, options, capsys):
    """Check that the command writes a model, or prints a one-line error only."""
    for name, rows in (("nodes.csv", nodes), ("edges.csv", edges)):
        with (folder / name).open("w", newline="", encoding="utf-8", errors="replace") as file:
            csv.writer(file).writerows(rows)
    files = ("--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv", "--label", "topic")
    command = ("gread", "fit", *files, "--out", folder / "model", "--set", "epochs=1", *options)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr(sys, "argv", list(map(str, command)))
        main()
    shown = capsys.readouterr()
    assert left.value.code in (0, 2)
    assert (folder / "model").exists() == (left.value.code == 0)
    if left.value.code == 2:
        assert shown.err.startswith("gread: ")
        assert shown.err.count("\n") == 1
        assert {path.name for path in folder.iterdir()} == {"nodes.csv", "edges.csv"}
