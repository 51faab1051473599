import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gread.base.errors import InputError
from gread.runs.store import StoreError
from gread.search.search import search
from gread.search.study import StudySettings, create_study, journal, load_study, study_name

PLAN = StudySettings("csbm", "gread-bs", {"time": [1.0, 2.0]}, "random", False, [0, 1], [0, 1])


def test_runs_of_a_setting_iterate_splits_before_seeds():
    specs = PLAN.specs({"time": 2.0, "lr": 0.5})
    assert [(spec.seed, spec.split) for spec in specs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {(spec.hyper["time"], spec.train.lr) for spec in specs} == {(2.0, 0.5)}


@pytest.mark.parametrize("url", [None, "sqlite:///{}/study.sqlite"])
def test_a_study_is_found_again_with_its_plan(tmp_path, url):
    storage = url and url.format(tmp_path)
    create_study("mine", PLAN, storage, tmp_path, 5)
    create_study("mine", PLAN, storage, tmp_path, 3)
    study, plan = load_study("mine", storage, tmp_path)
    assert plan == PLAN
    assert study.user_attrs["trials"] == 5
    assert journal("mine", tmp_path).exists() == (storage is None)


def test_another_plan_is_refused(tmp_path):
    create_study("mine", PLAN, None, tmp_path, 5)
    sentence = r"study 'mine' has splits \[0, 1\], got \[0\]: choose another --study"
    with pytest.raises(InputError, match=sentence):
        create_study("mine", replace(PLAN, splits=[0]), None, tmp_path, 5)
    with pytest.raises(InputError, match='study \'mine\' has sampler "random", got "tpe"'):
        create_study("mine", replace(PLAN, sampler="tpe"), None, tmp_path, 5)


@pytest.mark.parametrize("url", [None, "sqlite:///{}/study.sqlite"])
def test_loading_an_unknown_study_fails_and_creates_no_journal(tmp_path, url):
    with pytest.raises(InputError, match="there is no study 'mine'"):
        load_study("mine", url and url.format(tmp_path), tmp_path)
    assert not journal("mine", tmp_path).exists()


def test_study_names_are_valid_file_names(tmp_path):
    assert study_name("cora", "gread-fb*") == "cora-gread-fb-star"
    with pytest.raises(InputError, match=r"letters, digits and .\+-_, got '../mine'"):
        create_study("../mine", PLAN, None, tmp_path, 5)


def test_incomplete_journal_line_is_dropped(tmp_path):
    create_study("mine", PLAN, None, tmp_path, 5)
    path = journal("mine", tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 2, "half')
    study = create_study("mine", PLAN, None, tmp_path, 5)
    study.set_user_attr("more", 1)
    assert path.read_bytes().startswith(whole)
    assert load_study("mine", None, tmp_path)[0].user_attrs["more"] == 1


@pytest.mark.slow
def test_stale_lock_of_a_killed_process_is_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # as a command with a relative store
    monkeypatch.setattr("gread.search.journal.LOCK", 3)
    folder = Path("studies")
    create_study("mine", PLAN, None, folder, 5)
    path = journal("mine", folder).absolute()
    path.with_name(path.name + ".lock").symlink_to(path)
    start = time.monotonic()
    assert create_study("mine", PLAN, None, folder, 7).user_attrs["trials"] == 7
    assert time.monotonic() - start > 2


def test_invalid_journal_file_raises_store_error(tmp_path):
    journal("mine", tmp_path).write_text("no\njournal\n")
    with pytest.raises(StoreError, match=r"the journal .*mine.journal cannot be used"):
        create_study("mine", PLAN, None, tmp_path, 5)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nonsense", "Could not parse SQLAlchemy URL"),
        ("nosuch://host/study", "Can't load plugin"),
        ("sqlite:////proc/nowhere/study.sqlite", "unable to open database file"),
    ],
)
def test_invalid_storage_url_raises_store_error(tmp_path, url, reason):
    with pytest.raises(StoreError, match=rf"the storage {url} cannot be used: .*{reason}"):
        create_study("mine", PLAN, url, tmp_path, 5)


def test_a_password_is_not_shown(tmp_path):
    pytest.importorskip("psycopg2")
    url = "postgresql+psycopg2://me:secret@127.0.0.1:9/study"
    with pytest.raises(
        StoreError, match=r"postgresql\+psycopg2://me:\*\*\*@127.0.0.1:9/study"
    ) as e:
        create_study("mine", PLAN, url, tmp_path, 5)
    assert "secret" not in str(e.value)


def test_missing_package_errors_name_the_pip_extra(tmp_path, store, space, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(StoreError, match=r"pip install 'gread\[postgresql\]'"):
        create_study("mine", PLAN, "postgresql+psycopg2://me@127.0.0.1:9/study", tmp_path, 5)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        InputError, match=r"needs the package optuna: pip install 'gread\[search\]'"
    ):
        search("csbm", trials=1, space=space, store=store)
