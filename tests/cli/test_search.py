"""``gread search`` as a user runs it."""

import json
import signal
import time

import pytest

from gread.runs.store import ResultStore
from tests.cli.test_cli import gread  # noqa: F401
from tests.processes import Forked

SPACE = """
epochs = 2
hidden_channels = [4, 8]
solver = "euler"
time = { low = 0.1, high = 3.0 }
"""


@pytest.fixture
def find(gread, tmp_path):  # noqa: F811
    """Search briefly, with a separate store."""
    (tmp_path / "space.toml").write_text(SPACE)

    def run(*arguments, dataset="csbm"):
        places = ("--space", tmp_path / "space.toml", "--store", tmp_path / "store")
        return gread("search", dataset, "--splits", "0,1", *places, *arguments)

    return run


def test_search_shows_validation_but_no_test_accuracy(find):
    shown = find("--trials", 4)
    assert shown.returncode == 0, shown.stderr
    assert "study csbm-gread-bs: 4 trials, 0 pruned" in shown.stdout
    assert "selected: trial " in shown.stdout
    assert "hidden_channels=" in shown.stdout
    assert ": validation " in shown.stderr  # printed for every new best trial
    assert "test " not in shown.stderr
    assert "test " not in shown.stdout.replace("its test accuracy", "")


@pytest.mark.slow
def test_report_shows_test_accuracy_and_importance_and_writes_files(find, tmp_path):
    shown = find("--trials", 8, "--report")
    assert shown.returncode == 0, shown.stderr
    assert "\ntest " in shown.stdout
    assert "(for reference; not a valid selection criterion): " in shown.stdout
    assert "importance" in shown.stdout
    studies = tmp_path / "store" / "studies"
    assert (studies / "tuned" / "gread-bs.toml").exists()
    assert (studies / "csbm-gread-bs.png").exists()
    found = json.loads(find("--report", "--json", "--out", tmp_path / "out").stdout)
    assert found["trials"] == 8
    assert found["finished"]
    assert len(found["test"]) == 2
    assert set(found["importance"]) == {"hidden_channels", "time"}
    assert (tmp_path / "out" / "csbm-gread-bs.png").exists()


def test_train_accepts_a_preset_file_from_a_search(find, gread, tmp_path):  # noqa: F811
    find("--trials", 2, "--report")
    path = tmp_path / "store" / "studies" / "tuned" / "gread-bs.toml"
    shown = gread("train", "csbm", "--preset", path, "--splits", 0, "--store", tmp_path / "two")
    assert shown.returncode == 0, shown.stderr
    assert f"preset: {path}" in shown.stdout.replace("\n", "")


def test_search_json_has_validation_but_no_test_accuracy(find):
    found = json.loads(find("--trials", 3, "--prune", "--sampler", "tpe", "--json").stdout)
    assert found["trials"] == 3
    assert len(found["selected"]["validation"]) == 2
    assert "test" not in found


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "--trials must be a number of trials, unless --report is given"),
        (("--report",), "there is no study 'csbm-gread-bs'"),
        (("--trials", "0"), "trials must be a whole number of at least 1, got 0"),
        (("--trials", "2", "--sampler", "tpx"), "unknown sampler 'tpx', did you mean 'tpe'?"),
        (("--trials", "2", "--rule", "best"), "unknown rule 'best', did you mean 'best-mean'?"),
        (("--trials", "2", "--model", "gred-bs"), "unknown model 'gred-bs', did you mean"),
        (("--trials", "2", "--model", "gcn"), "gcn has no hyperparameter 'solver'"),
        (("--trials", "2", "--space", "none.toml"), "the file none.toml cannot be read"),
        (("--trials", "2", "--splits", "0-10"), "split must be below 10"),
        (("--trials", "2", "--seeds", "a"), "--seeds must be numbers like 0-9 or 0,3,5, got 'a'"),
        (("--trials", "2", "--batch", "-1"), "batch must be a whole number of at least 1, got -1"),
        (("--trials", "2", "--study", "a/b"), "a study must be named with letters"),
        (("--trials", "2", "--storage", "nosuch://x/y"), "the storage nosuch://x/y cannot be used"),
        (("--trials", "2", "--store", "/proc/nowhere"), "the store /proc/nowhere/results.sqlite"),
        (("--trials", "2", "--device", "cuda:77"), "device must be one that this machine has"),
    ],
)
def test_invalid_search_arguments_exit_with_code_2(find, arguments, sentence):
    result = find(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_changed_settings_of_an_existing_study_are_rejected(find):
    find("--trials", 1)
    result = find("--trials", 1, "--sampler", "tpe")
    assert result.returncode == 2
    assert 'study \'csbm-gread-bs\' has sampler "random", got "tpe"' in result.stderr
    assert find("--trials", 1, "--sampler", "tpe", "--study", "other").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_search_resumes_with_the_same_command(tmp_path, how):
    (tmp_path / "space.toml").write_text(SPACE.replace("epochs = 2", "epochs = 20"))
    command = [
        *("-m", "gread", "search", "csbm", "--trials", "24", "--batch", "4"),
        *("--splits", "0", "--space", "space.toml", "--json"),  # the store is runs/store
    ]
    process = Forked(*command, cwd=tmp_path)
    database = tmp_path / "runs" / "store" / "results.sqlite"
    while not database.exists() or len(ResultStore(database.parent)) < 6:
        assert process.poll() is None, process.end()
        time.sleep(0.05)
    process.send_signal(how)
    stopped = process.end(timeout=60)
    if how is signal.SIGINT:
        assert stopped.returncode == 130, stopped.stderr
        assert "gread: stopped; finished runs are stored" in stopped.stderr
        assert "Traceback" not in stopped.stderr
    store = ResultStore(database.parent)
    before = {result.spec.key: result.finished for result in store}
    assert 6 <= len(before) < 24
    done = Forked(*command, cwd=tmp_path).end()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trials"] == 24
    after = {result.spec.key: result.finished for result in store}
    assert len(after) == 24
    assert before.items() <= after.items()
