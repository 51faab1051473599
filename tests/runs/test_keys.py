"""Stored runs keep their keys, also if models change."""

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


def test_rows_of_the_first_version_keep_their_keys_and_their_text(version_1):
    with closing(sqlite3.connect(version_1.path)) as connection, connection:
        rows = dict(connection.execute("SELECT key, result FROM runs").fetchall())
    assert len(rows) == 9
    for key, text in rows.items():
        result = Result.from_json(text)
        assert result.spec.key == key
        assert result.to_json() == text


@pytest.mark.parametrize("key", STORED)
def test_specs_as_users_write_them_find_the_rows_of_the_first_version(version_1, key):
    spec = as_given(**STORED[key])
    assert complete(spec).key == key
    assert version_1.get(spec).spec.key == key
    assert [result.spec.key for result in version_1.find([key])] == [key]
    assert version_1.missing([spec]) == []


def test_a_halo_without_parts_is_not_in_the_key():
    assert as_given(train=TrainConfig(epochs=3, halo=5)).key == as_given().key


def test_fields_of_a_training_that_were_added_are_left_out_at_their_default():
    assert set(json.loads(as_given().to_json())["train"]) == set(ALWAYS)
    assert {field.name for field in fields(TrainConfig)} > set(ALWAYS)


@pytest.mark.slow
def test_a_row_of_a_model_that_is_not_registered_is_listed(version_1):
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


def test_a_new_default_changes_neither_the_key_nor_the_meaning_of_a_stored_run(tmp_path, register):
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


def test_a_hyperparameter_that_is_added_is_left_out_while_it_means_as_before(tmp_path, register):
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
def test_nothing_heavy_is_imported_for(code, absent):
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
def test_numbers_of_a_result_are_those_that_its_metric_can_have(metric, test, accepted):
    train = TrainConfig()
    object.__setattr__(train, "metric", metric)
    result = Result(as_given(train=train), "ok", test=test)
    if accepted:
        result.check()
    else:
        with pytest.raises(InputError, match="test must be a "):
            result.check()
