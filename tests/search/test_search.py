import zlib
from itertools import islice
from statistics import fmean

import optuna
import pytest

from gread.base.errors import InputError
from gread.runs.store import ResultStore
from gread.search import worker
from gread.search.search import SAMPLERS, SearchProgress, rungs, search
from gread.search.space import Space
from gread.search.study import load_study, trials_of
from tests.processes import Forked
from tests.search.conftest import TABLE


def stored(store, name="csbm-gread-bs"):
    return load_study(name, None, store.path.parent / "studies")[0]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_trial_value_is_the_mean_validation_of_its_runs(find, store, sampler):
    found = find(trials=6, sampler=sampler, seeds=[0, 1], batch=3)
    assert [trial.number for trial in found] == list(range(6))
    results = {result.spec.key: result for result in store}
    assert len(results) == 6 * 4
    for trial, kept in zip(found, stored(store).trials, strict=True):
        runs = [results[key] for key in kept.user_attrs["runs"]]
        assert trial.validation == tuple(run.val for run in runs)
        assert kept.value == trial.mean == fmean(run.val for run in runs)
        assert {(run.spec.split, run.spec.seed) for run in runs} == {(0, 0), (1, 0), (0, 1), (1, 1)}
        settings = {**runs[0].spec.hyper, "lr": runs[0].spec.train.lr, "epochs": 2}
        assert trial.settings.items() <= settings.items()


def test_repeated_search_computes_only_additional_trials(find, store):
    seen = []
    first = find(trials=3, on_progress=seen.append)
    assert (seen[-1].finished, seen[-1].runs) == (3, 6)
    assert find(trials=3, on_progress=seen.append) == first
    assert seen[-1].runs == 0
    more = find(trials=5, on_progress=seen.append)
    assert more[:3] == first
    assert (len(more), seen[-1].runs, len(store)) == (5, 4, 10)


@pytest.mark.slow
def test_random_search_trials_depend_only_on_study_name_and_number(find, tmp_path):
    one = find(trials=6, batch=1)
    assert find(trials=6, batch=4, store=ResultStore(tmp_path / "other")) == one
    other = find(trials=6, study="other")
    assert not {str(t.settings) for t in one} & {str(t.settings) for t in other}


def test_search_progress_contains_no_test_values(find):
    seen: list[SearchProgress] = []
    found = find(trials=4, batch=2, on_progress=seen.append)
    assert seen[0] == SearchProgress(0, 4, 0, None)
    assert sorted({now.runs for now in seen}) == list(range(9))
    assert sorted({(now.finished, now.runs) for now in seen if now.runs % 2 == 0}) == [
        *((0, 0), (1, 2), (2, 4), (3, 6), (4, 8))  # a trial is reported when its runs are stored
    ]
    assert seen[-1].best == max(found, key=lambda trial: trial.mean)
    assert not any("test" in name for name in vars(seen[-1]) | vars(found[0]))


def test_a_run_that_fails_counts_as_zero(find, store):
    table = {"epochs": 2, "hidden_channels": 4, "time": [9.0], "solver": ["rk4"]}
    found = find(
        trials=1,
        model="gread-z",
        space=Space("gread-z", table),
        options={"num_nodes": 30, "sigma": 50.0},
    )
    statuses = [result.status for result in store]
    assert "failed" in statuses
    assert found[0].validation.count(0.0) >= statuses.count("failed")


def test_rungs_are_a_ninth_a_third_and_all_runs():
    assert rungs(10, prune=True) == [2, 4, 10]
    assert rungs(30, prune=True) == [4, 10, 30]
    assert rungs(1, prune=True) == [1]
    assert rungs(10, prune=False) == [10]


@pytest.mark.slow
def test_pruning_leaves_the_best_third_of_each_rung(find, store):
    found = find(trials=9, prune=True, splits=range(9), batch=9)
    complete = [trial for trial in found if trial.complete]
    lengths = [len(trial.validation) for trial in found]
    assert set(lengths) == {1, 3, 9}
    assert len(complete) == lengths.count(9)
    assert len(store) == sum(lengths) < 81
    first = sorted((trial.validation[0] for trial in found), reverse=True)
    assert all((trial.validation[0] >= first[2]) == (len(trial.validation) > 1) for trial in found)
    kept = stored(store).trials
    assert {trial.state.name for trial in kept} == {"COMPLETE", "PRUNED"}
    assert all(set(trial.intermediate_values) <= {1, 3} for trial in kept)
    assert len(find(trials=12, prune=True, splits=range(9), batch=1)) == 12


def test_invalid_search_arguments_create_no_study(find, store):
    for changes, sentence in [
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"sampler": "tpx"}, "unknown sampler 'tpx', did you mean 'tpe'"),
        ({"splits": []}, "a search must have a split and a seed, got none"),
        ({"splits": range(11)}, "split must be below 10, the number of splits, got 10"),
        ({"batch": -1}, "batch must be a whole number of at least 1, got -1"),
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0"),
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
    ]:
        with pytest.raises(InputError, match=sentence):
            find(**changes)
    with pytest.raises(InputError, match="unknown dataset 'csbn', did you mean 'csbm'"):
        search("csbn", trials=1, store=store)
    assert not (store.path.parent / "studies").exists()
    assert len(store) == 0


def test_a_study_stores_the_splits_and_seeds_that_are_trained(find, store):
    (trial,) = find(trials=1, splits=[2, 0, 2], seeds=[1, 1])
    plan = load_study("csbm-gread-bs", None, store.path.parent / "studies")[1]
    assert (plan.splits, plan.seeds) == ([2, 0], [1])
    runs = {(result.spec.split, result.spec.seed): result.val for result in store}
    assert trial.validation == (runs.pop((2, 1)), runs.pop((0, 1)))
    assert not runs


def test_trials_of_a_failed_search_are_continued_by_the_next(find, store):
    def fail(now):
        if now.runs == 1:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        find(trials=2, splits=range(3), study="broken", on_progress=fail)
    study, plan = load_study("broken", None, store.path.parent / "studies")
    assert [trial.state.name for trial in study.trials] == ["RUNNING", "RUNNING"]
    with pytest.raises(OSError, match="the disk is full"):
        find(trials=2, splits=range(3), study="broken", on_progress=fail)
    assert len(study.trials) == 2  # continued, not created again
    assert trials_of(study, Space(plan.model, plan.space)) == []


def test_settings_that_a_user_enqueues_are_tried(find, store):
    find(trials=2)
    study = stored(store)
    study.enqueue_trial({"time": 1.25, "hidden_channels": 8})
    found = find(trials=4)
    assert found[2].settings["time"] == 1.25
    assert len(found) == 4


@pytest.mark.parametrize("drawn", [0, 1, 2, 3])
def test_resumed_search_completes_partially_sampled_trials(find, tmp_path, monkeypatch, drawn):
    """A process may be killed while it samples a trial."""
    whole = find(trials=2)
    store, space = ResultStore(tmp_path / "killed"), Space("gread-bs", TABLE)
    with pytest.raises(KeyboardInterrupt):
        find(trials=2, store=store, on_progress=interrupt)
    study = stored(store)
    study.sampler = SAMPLERS["random"](zlib.crc32(b"csbm-gread-bs 0"))
    trial = study.ask()
    for name, part in islice(space.parts.items(), drawn):
        part.suggest(name, trial)
    monkeypatch.setattr(worker, "STALE", 0.0)
    assert find(trials=2, store=store) == whole


def interrupt(now):
    raise KeyboardInterrupt


KILLER = """
# Repeatedly starts a search in a child process and kills it after a random time.
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from gread.runs import ResultStore
from gread.search import Space, search, worker
worker.BEAT, worker.STALE = 0.1, 0.5
folder, prune = sys.argv[1], sys.argv[2] == "prune"
space = Space("gread-bs", eval(sys.argv[3]))

def find(name, trials=12):
    return search("csbm", trials=trials, store=ResultStore(f"{folder}/{name}"), space=space,
                  prune=prune, splits=range(4), options={"num_nodes": 30}, batch=3)

find("warm-up", 1)  # children inherit the lazy imports
random.seed(0)
start = time.monotonic()
whole = find("whole")
seconds = time.monotonic() - start
killed = 0
for _ in range(12):
    child = os.fork()
    if child == 0:
        find("killed")
        os._exit(0)
    time.sleep(random.uniform(0, seconds / 4))
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
again = find("killed")
assert len(again) == 12
if not prune:  # pruning depends on the order in which trials report
    assert again == whole
print(killed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["all", "prune"])
def test_repeatedly_killed_search_completes_all_trials(tmp_path, how):
    done = Forked("-c", KILLER, tmp_path, how, TABLE).end()
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3
    study = stored(ResultStore(tmp_path / "killed"))
    assert [trial.number for trial in study.trials] == list(range(12))  # none abandoned
    if how == "all":
        assert len(ResultStore(tmp_path / "killed")) == 48


WORKER = """
import sys
import torch
torch.set_num_threads(1)
from gread.runs import ResultStore
from gread.search import Space, search
folder, storage, table = sys.argv[1:]
counts = []
search("csbm", trials=16, store=ResultStore(folder), space=Space("gread-bs", eval(table)),
       splits=range(2), options={"num_nodes": 30}, batch=2, storage=storage or None,
       on_progress=lambda now: counts.append(now.runs))
print(counts[-1])
"""


def together(folder, storage=""):
    """Run two processes on one study, and return the number of runs of each."""
    processes = [Forked("-c", WORKER, folder, storage, TABLE) for _ in range(2)]
    outcomes = [process.end() for process in processes]
    assert all(done.returncode == 0 for done in outcomes), outcomes
    return [int(done.stdout) for done in outcomes]


@pytest.mark.slow
@pytest.mark.parametrize("database", [False, True], ids=["journal", "sqlite"])
def test_processes_sharing_a_study_complete_exactly_the_requested_trials(tmp_path, database):
    storage = f"sqlite:///{tmp_path}/study.sqlite" if database else ""
    counts = together(tmp_path, storage)
    assert sum(counts) == 32 == len(ResultStore(tmp_path))  # no run was computed twice
    study, plan = load_study("csbm-gread-bs", storage or None, tmp_path / "studies")
    found = trials_of(study, Space(plan.model, plan.space))
    assert len(found) == 16
    left = [t for t in study.trials if t.state == optuna.trial.TrialState.FAIL]
    assert len(study.trials) == 16 + len(left)  # created concurrently and released
