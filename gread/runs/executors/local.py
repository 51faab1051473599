"""The executor of this machine."""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import weakref
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

import torch

from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.memory import OutOfMemory
from gread.base.processes import Surroundings, start_method, uninterrupted
from gread.runs.executors.job import Job, Outcome, compute_in_worker
from gread.runs.grouping import free
from gread.runs.result import Result


class Local:
    """Executor in this process, or in several processes of this machine.

    The processes live as long as the executor, because a search computes many batches and a process
    takes seconds to start.
    """

    remote = False

    def __init__(self, address: str = ""):
        if address:
            raise InputError(f"the executor local must have no address, got {address!r}")
        self._processes: _Processes | None = None

    def choose_device(self, name: str) -> str:
        """Return a device of this machine."""
        return choose_device(name)

    def memory(self, device: str, workers: int | None) -> float:
        """Memory limit of one process."""
        return free(device) / (workers or 1)

    def start(self, device: str, workers: int | None, imports: Sequence[str]) -> None:
        """Start the worker processes, each with a context on the device."""
        if workers is not None and workers > 1:
            self._pool(workers, imports).start(device)

    def compute(
        self, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
    ) -> Generator[Outcome, None, None]:
        """Compute jobs in sequence in this process, or in worker processes."""
        if workers is None or workers == 1:
            for job in jobs:
                yield job, job.compute()
            return
        processes = self._pool(workers, imports)
        try:
            yield from processes.compute(jobs)
        except BaseException:
            self._processes = None
            processes.end()
            raise
        if processes.broken:
            self._processes = None

    def _pool(self, workers: int, imports: Sequence[str]) -> _Processes:
        started = workers, tuple(imports)
        if self._processes is None or self._processes.started != started:
            self._processes = _Processes(*started)
        return self._processes


KILLED = "a process was killed, probably because memory is full: choose fewer workers"


class _Processes:
    """Pool of worker processes; closing it waits until they have ended.

    Attributes:
        started: Largest number of processes, and modules that they import first.
        broken: Whether a process has died; Python then ends the others.
    """

    def __init__(self, workers: int, imports: tuple[str, ...]):
        self.started = workers, imports
        self.broken = False
        self._others = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(
            workers,
            start_method("gread.runs.run"),
            _begin,
            (Surroundings.current(workers), imports),
        )
        weakref.finalize(self, self._pool.shutdown)

    def start(self, device: str) -> None:
        """Start all processes: the pool starts one for every task if no process is idle."""
        with suppress(BrokenProcessPool), uninterrupted():  # `compute` reports it
            for _ in range(self.started[0]):
                self._pool.submit(_warm, device)

    def compute(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        """Yield the outcome of each job as it finishes."""
        waiting: dict[Future[list[Result]], Job] = {}
        for job in jobs:
            try:
                with uninterrupted():  # may start a process
                    waiting[self._pool.submit(compute_in_worker, job)] = job
            except BrokenProcessPool:  # an idle process died
                self.broken = True
                yield job, ConnectionError(KILLED)
        for future in as_completed(waiting):
            # Returned, not raised: a traceback would keep this frame and the processes alive.
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                self.broken = True
                yield waiting[future], ConnectionError(KILLED)
            elif isinstance(error, OutOfMemory):
                yield waiting[future], error
            else:
                yield waiting[future], future.result()

    def end(self) -> None:
        """Terminate the processes."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.terminate()
        self._pool.shutdown(cancel_futures=True)


def _begin(there: Surroundings, imports: Sequence[str]) -> None:
    """Initialize a worker process."""
    there.apply()
    # A spawned process, unlike a forked one, would free all objects first, which takes a second.
    atexit.register(os._exit, 0)
    for module in imports:
        importlib.import_module(module)


def _warm(device: str) -> None:
    """Create the context of a GPU, which takes seconds."""
    torch.empty(0, device=device)
