import signal
import time

import pytest

from gread.search import worker
from gread.search.study import StudySettings, create_study
from gread.search.worker import Worker, abandoned
from tests.processes import Forked

PLAN = StudySettings("csbm", "gread-bs", {"time": [1.0, 2.0]}, "random", False, [0], [0])


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "BEAT", 0.1)
    monkeypatch.setattr(worker, "STALE", 0.8)
    return create_study("mine", PLAN, None, tmp_path, 5)


def numbers(trials):
    return [trial.number for trial in trials]


def test_only_trials_of_ended_workers_are_abandoned(study):
    with Worker(study) as one, Worker(study) as two:
        one.takes(study.ask())
        two.takes(study.ask())
        time.sleep(1.2)  # long enough to be presumed dead without a heartbeat
        assert abandoned(study) == []
    assert numbers(abandoned(study)) == [0, 1]
    study.tell(0, 0.5)
    assert numbers(abandoned(study)) == [1]


def test_trials_of_a_worker_without_heartbeat_are_abandoned(study):
    gone = Worker(study)
    gone._set_heartbeat(time.time())  # the last heartbeat, as if it were killed
    gone.takes(study.ask())
    study.ask()  # killed before it registers
    assert abandoned(study) == []
    time.sleep(1.0)
    assert numbers(abandoned(study)) == [0, 1]


KILLED = """
import os, signal, sys
from pathlib import Path
from gread.search.study import load_study
from gread.search.worker import Worker
study, _ = load_study("mine", None, Path(sys.argv[1]))
worker = Worker(study)
worker.__enter__()
worker.takes(study.ask())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_trials_of_a_killed_local_process_are_abandoned_immediately(study, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "STALE", 600.0)
    done = Forked("-c", KILLED, tmp_path).end(timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert numbers(abandoned(study)) == [0]


def test_temporary_storage_error_does_not_stop_the_heartbeat_thread(study, monkeypatch):
    moments = []

    def set_heartbeat(moment):
        moments.append(moment)
        if len(moments) == 2:
            raise OSError("temporary error")

    one = Worker(study)
    monkeypatch.setattr(one, "_set_heartbeat", set_heartbeat)
    with one:
        time.sleep(0.5)
    assert len(moments) > 3
    assert moments[-1] == 0.0
