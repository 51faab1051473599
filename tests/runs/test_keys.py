"""Stored runs keep their keys, even if models change."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

from gread.base.errors import InputError
from gread.models.catalog import MODELS, model
from gread.runs.complete import complete
from gread.runs.result import Result
from gread.runs.run import run
from gread.runs.spec import ALWAYS, RunSpec
from gread.runs.store import ResultStore
from gread.training.config import TrainConfig
from tests.processes import Forked

VERSION_1 = Path(__file__).with_name("store-of-version-1")
"""Store written before specs were plain values, when ``own-model`` was registered."""

STORED = {
    "7b3a5dca6f7665a5b71b": {"model": "gcn", "hyper": {}},
    "bd25c0b06c00c2209df1": {"model": "grand", "hyper": {"hidden_channels": 4, "time": 2.0}},
    "b0a0641a4fa642a30d72": {},
    "c7ad0949c8473f489a4a": {"seed": 1, "record": ("energy", "evaluations", "coefficients")},
    "fca52eeec85d27d1f8c9": {"train": TrainConfig(epochs=3, parts=3)},
    "0f0fc011e17cd2e824d3": {"train": TrainConfig(epochs=3, parts=2, halo=1)},
    "bf1396d6f5717d59b4e9": {"train": TrainConfig(epochs=3, processes=2)},
}
"""Differences from the common settings, by key."""


def as_given(**changes) -> RunSpec:
    """Spec as a user writes it, without defaults."""
    settings = {
        "dataset": "csbm",
        "model": "gread-bs",
        "hyper": {"hidden_channels": 4},
        "train": TrainConfig(epochs=3),
        "options": {"num_nodes": 30},
    }
    return RunSpec(**(settings | changes))


@pytest.fixture
def version_1(tmp_path) -> ResultStore:
    shutil.copy(VERSION_1 / "results.sqlite", tmp_path)
    return ResultStore(tmp_path)


def test_version_1_rows_keep_their_keys_and_json_text(version_1):
    with closing(sqlite3.connect(version_1.path)) as connection, connection:
        rows = dict(connection.execute("SELECT key, result FROM runs").fetchall())
    assert len(rows) == 9
    for key, text in rows.items():
        result = Result.from_json(text)
        assert result.spec.key == key
        assert result.to_json() == text


@pytest.mark.parametrize("key", STORED)
def test_specs_without_defaults_match_version_1_rows(version_1, key):
    spec = as_given(**STORED[key])
    assert complete(spec).key == key
    assert version_1.get(spec).spec.key == key
    assert [result.spec.key for result in version_1.find([key])] == [key]
    assert version_1.missing([spec]) == []


def test_a_halo_without_parts_is_not_in_the_key():
    assert as_given(train=TrainConfig(epochs=3, halo=5)).key == as_given().key


def test_added_training_fields_are_omitted_from_json_at_their_default():
    assert set(json.loads(as_given().to_json())["train"]) == set(ALWAYS)
    assert {field.name for field in fields(TrainConfig)} > set(ALWAYS)


@pytest.mark.slow
def test_rows_of_unregistered_models_are_listed_but_cannot_be_rerun(version_1):
    (found,) = (result for result in version_1 if result.spec.model == "own-model")
    assert found.spec.hyper == {"hidden_channels": 4, "width": 3}
    assert version_1.get(found.spec) == found
    command = Forked("-m", "gread", "runs", "--store", str(version_1.path.parent), "--json").end()
    listed = json.loads(command.stdout)
    assert {row["spec"]["model"] for row in listed} >= {"own-model", "gcn"}
    with pytest.raises(InputError, match="unknown model 'own-model'"):
        run(found.spec)


@pytest.fixture
def register():
    """Function that registers models for one test; a name may be reused."""
    names = set()

    def enter(name, build, **declared) -> None:
        MODELS._entries.pop(name, None)
        names.add(name)
        model(name, title=name, group="classical", reference="ours")(build)
        for field, value in declared.items():
            object.__setattr__(MODELS[name], field, value)

    yield enter
    for name in names:
        del MODELS._entries[name]


def mlp(*sizes):
    return MODELS["mlp"].build(*sizes)


def test_changed_hyperparameter_default_preserves_stored_specs_and_keys(tmp_path, register):
    register("grown", lambda i, h, o, *, depth=2: mlp(i, h, o))
    store = ResultStore(tmp_path)
    store.put(run(as_given(model="grown")))
    (before,) = store
    register("grown", lambda i, h, o, *, depth=3: mlp(i, h, o))
    assert complete(before.spec) == before.spec
    assert list(store) == [before]
    assert before.spec.hyper["depth"] == 2
    assert store.get(as_given(model="grown")) is None  # the default now means another run
    assert store.get(as_given(model="grown", hyper={"hidden_channels": 4, "depth": 2})) == before


def test_added_hyperparameter_is_omitted_from_keys_at_its_compatible_value(tmp_path, register):
    seen = []
    register("grown", lambda i, h, o, *, depth=2: mlp(i, h, o))
    store = ResultStore(tmp_path)
    store.put(run(as_given(model="grown")))
    (before,) = store

    def build(i, h, o, *, depth=2, gated=True):
        seen.append(gated)
        return mlp(i, h, o)

    register("grown", build, added={"gated": False})
    assert store.get(as_given(model="grown")) == before
    assert complete(before.spec) == before.spec
    run(before.spec)
    gated = complete(as_given(model="grown", hyper={"hidden_channels": 4, "gated": True}))
    assert gated.key != before.spec.key
    assert store.missing([gated]) == [gated]
    run(gated)
    assert seen == [False, True]


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (
            "import gread.runs.spec, gread.runs.result",
            ("gread.models.catalog", "gread.data.catalog"),
        ),
        ("from gread.data.catalog import DATASETS; DATASETS['texas'].title", ()),
        ("from gread.data.load import load; from gread.report.statistics import standings", ()),
    ],
    ids=["specs and results", "datasets", "statistics"],
)
def test_specs_datasets_and_statistics_import_no_heavy_packages(code, absent):
    heavy = ("torch", "torch_geometric", "numpy", "scipy", *absent)
    check = f"import sys; print([name for name in {heavy} if name in sys.modules])"
    command = [sys.executable, "-c", f"{code}; {check}"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("metric", "test", "accepted"),
    [
        (None, 0.5, True),
        (None, -0.5, False),
        ("accuracy", 1.5, False),
        ("r2", -3.5, True),
        ("nll", 2.5, True),
        ("r2", float("nan"), False),
        ("r2", "0.5", False),
    ],
)
def test_result_check_rejects_values_outside_the_metric_range(metric, test, accepted):
    train = TrainConfig()
    object.__setattr__(train, "metric", metric)
    result = Result(as_given(train=train), "ok", test=test)
    if accepted:
        result.check()
    else:
        with pytest.raises(InputError, match="test must be a "):
            result.check()
