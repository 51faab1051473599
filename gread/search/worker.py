"""Processes of a study: heartbeats, and abandoned trials."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from gread.base.files import gone

if TYPE_CHECKING:
    import optuna

BEAT = 5.0  # seconds between two heartbeats
STALE = 30.0  # seconds after which a silent process is presumed dead; its trials may run twice


class Worker:
    """Registration of this process with a study and its heartbeat; exit releases its trials."""

    def __init__(self, study: optuna.Study):
        self.study = study
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Worker:
        self._set_heartbeat(time.time())
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._left.set()
        self._thread.join()
        try:
            self._set_heartbeat(0.0)
        except Exception:
            if error is None:  # otherwise the error that ended the search is reported
                raise

    def takes(self, trial: optuna.Trial) -> None:
        """Mark a trial as assigned to this process."""
        trial.set_user_attr("worker", self.name)

    def _live(self) -> None:
        while not self._left.wait(BEAT):
            with suppress(Exception):  # a lost storage ends the search, not this thread
                self._set_heartbeat(time.time())

    def _set_heartbeat(self, moment: float) -> None:
        self.study.set_user_attr(f"worker {self.name}", moment)


def abandoned(study: optuna.Study) -> list[optuna.Trial]:
    """Trials marked as running whose process is dead."""
    import optuna
    from optuna.trial import TrialState

    signs, now = study.user_attrs, time.time()
    found = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        worker = trial.user_attrs.get("worker")
        if worker is None:  # its process was killed, or has not registered yet
            assert trial.datetime_start is not None
            last = trial.datetime_start.timestamp()
        else:
            host, process, _ = worker.rsplit("-", 2)
            ended = host == socket.gethostname() and gone(int(process))
            last = 0.0 if ended else signs.get(f"worker {worker}", 0.0)
        if now - last > STALE:
            found.append(optuna.trial.Trial(study, trial._trial_id))
    return found
