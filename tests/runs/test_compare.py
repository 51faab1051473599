"""Comparison of stored runs."""

import pytest

from gread.base.errors import InputError
from gread.runs.compare import compare
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.config import TrainConfig


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())
    return ResultStore(tmp_path)


def put(store, model, tests, **about):
    """Store one run per split with the given values, which start later in every call."""
    finished = f"2026-01-01T00:00:{len(store):02}"
    for split, test in enumerate(tests):
        spec = RunSpec(dataset="csbm", model=model, split=split, **about)
        store.put(Result(spec, "ok", test=test, finished=finished))


def test_only_runs_on_the_same_graph_are_compared(store, tmp_path):
    for graph, test in ((1, 0.5), (2, 0.7)):
        put(store, "gcn", [test], options={"seed": graph})
        put(store, "mlp", [test - 0.1], options={"seed": graph})
    put(store, "gcn", [0.9, 0.9], options={"seed": 3})
    put(store, "mlp", [0.1, 0.1], options={"seed": 4})
    found = compare("gcn", "mlp", store=tmp_path)["csbm"]
    assert (found.pairs, found.difference) == (1, pytest.approx(10))


def test_options_that_prepare_features_may_differ(store, tmp_path):
    put(store, "gcn", [0.5, 0.5], options={"normalize_features": True})
    put(store, "mlp", [0.4, 0.4])
    assert compare("gcn", "mlp", store=tmp_path)["csbm"].pairs == 2


def test_only_runs_with_the_same_metric_are_compared(store, tmp_path):
    put(store, "gcn", [0.5, 0.5], train=TrainConfig(metric="accuracy"))
    put(store, "mlp", [0.4])
    put(store, "mlp", [0.9, 0.9], train=TrainConfig(metric="nll"))
    found = compare("gcn", "mlp", store=tmp_path)["csbm"]
    assert (found.pairs, found.difference) == (1, pytest.approx(10))
    with pytest.raises(InputError, match="must have runs in common"):
        compare("gcn", "gread-bs", store=tmp_path)


@pytest.mark.parametrize(
    ("metric", "difference", "percent"),
    [("roc-auc", -20, True), ("nll", -0.2, False), ("not-registered", -0.2, False)],
)
def test_only_differences_of_fractions_are_in_points(store, tmp_path, metric, difference, percent):
    put(store, "gcn", [0.5, 0.6], train=TrainConfig(metric=metric))
    put(store, "mlp", [0.7, 0.8], train=TrainConfig(metric=metric))
    found = compare("gcn", "mlp", store=tmp_path)["csbm"]
    assert found.difference == pytest.approx(difference)
    assert (found.metric, found.percent) == (metric, percent)
