"""Where runs are computed: on this machine, or wherever else somebody registers.

An executor is handed jobs and gives back what became of each. Which runs make a job, what is done
about one that was lost, and where results go is the same for all, in `gread.runs.launch`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch

from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.memory import OutOfMemory, is_out_of_memory
from gread.base.processes import Surroundings, start_method, uninterrupted
from gread.base.registry import Registry
from gread.runs.grouping import free
from gread.runs.run import Graph, Result, run, run_together
from gread.runs.spec import RunSpec


@dataclass(frozen=True, eq=False)
class Job:
    """Runs that are computed at once.

    Attributes:
        specs: One, or several of one form.
        root: The data root.
        device: Where to compute.
        deterministic: As in ``gread.runs.run``.
        histories: Whether results keep the numbers of every epoch.
    """

    specs: Sequence[RunSpec]
    root: str | None
    device: str
    deterministic: bool
    histories: bool

    def compute(self, graph: Graph | None = None) -> list[Result]:
        """The results, here and now; a population that needs too much memory is halved.

        Args:
            graph: Of the specs, where it need not be loaded.
        """
        about = {"root": self.root, "device": self.device, "deterministic": self.deterministic}
        if len(self.specs) == 1:
            results = [run(self.specs[0], graph=graph, **about)]  # type: ignore[arg-type]
        else:
            try:
                results = run_together(self.specs, graph=graph, **about)  # type: ignore[arg-type]
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                results = []
            if not results:  # outside of the except, which would hold on to what has to go
                torch.cuda.empty_cache()
                middle = len(self.specs) // 2
                halves = self.specs[:middle], self.specs[middle:]
                return [r for half in halves for r in replace(self, specs=half).compute(graph)]
        return results if self.histories else [result.without_history() for result in results]


Outcome: TypeAlias = tuple[Job, list[Result] | ConnectionError | OutOfMemory]
"""A job with its results, with how the process that computed it was lost, or with what it found no
room for beside the others."""


class Executor(Protocol):
    """Computes jobs somewhere.

    Attributes:
        remote: Whether it computes elsewhere, as many jobs at a time as there is room for.
    """

    remote: bool

    def choose_device(self, name: str) -> str:
        """The device of that name, which there must be; ``auto`` takes a GPU, if any."""

    def memory(self, device: str, workers: int | None) -> float:
        """Bytes that a population may take on a device."""

    def compute(
        self, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
    ) -> Generator[Outcome, None, None]:
        """What became of each job, as it comes; leaving early ends what is computed.

        Args:
            jobs: What to compute.
            workers: How many at a time.
            imports: Modules that a process imports first.
        """


EXECUTORS: Registry[Callable[[str], Executor]] = Registry(
    "executor", modules=("gread.runs.executors.ray",)
)
"""From an address, or nothing, to an executor."""


def find_executor(text: str) -> Executor:
    """The executor that ``NAME`` or ``NAME=ADDRESS`` stands for.

    Example:
        >>> find_executor("local").choose_device("cpu")
        'cpu'
    """
    name, _, address = text.partition("=")
    return EXECUTORS[name](address)


@EXECUTORS.register("local")
class Local:
    """This process, or several of this machine.

    These stay as long as the executor does: a search computes batch after batch, and a process
    takes seconds to start where it has to import everything.
    """

    remote = False

    def __init__(self, address: str = ""):
        if address:
            raise InputError(f"the executor local must have no address, got {address!r}")
        self._processes: _Processes | None = None

    def choose_device(self, name: str) -> str:
        """One that this machine has."""
        return choose_device(name)

    def memory(self, device: str, workers: int | None) -> float:
        """The part of each process."""
        return free(device) / (workers or 1)

    def compute(
        self, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
    ) -> Generator[Outcome, None, None]:
        """One after the other in this process, or in others that are started for it."""
        if workers is None or workers == 1:
            for job in jobs:
                yield job, job.compute()
            return
        started = workers, tuple(imports)
        if self._processes is None or self._processes.started != started:
            self._processes = _Processes(*started)
        processes = self._processes
        try:
            yield from processes.compute(jobs)
        except BaseException:
            self._processes = None
            processes.end()
            raise
        if processes.broken:
            self._processes = None


KILLED = "a process was killed, most often since memory is full: choose fewer workers"


class _Processes:
    """Processes that compute jobs; who lets go of them waits until they have ended.

    Attributes:
        started: How many at most, and what they import first.
        broken: Whether one of them has died: Python ends the others then.
    """

    def __init__(self, workers: int, imports: tuple[str, ...]):
        self.started = workers, imports
        self.broken = False
        self._others = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(
            workers,
            start_method(),
            _begin,
            (Surroundings.of_one_of(workers), imports),
        )
        weakref.finalize(self, self._pool.shutdown)

    def compute(self, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        """What became of each job, as it comes."""
        waiting: dict[Future[list[Result]], Job] = {}
        for job in jobs:
            try:
                with uninterrupted():  # it may start a process
                    waiting[self._pool.submit(compute_beside_others, job)] = job
            except BrokenProcessPool:  # one of them died while there was nothing to do
                self.broken = True
                yield job, ConnectionError(KILLED)
        for future in as_completed(waiting):
            # Not raised: the traceback would hold on to this frame, and so to the processes.
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                self.broken = True
                yield waiting[future], ConnectionError(KILLED)
            elif isinstance(error, OutOfMemory):
                yield waiting[future], error
            else:
                yield waiting[future], future.result()

    def end(self) -> None:
        """Ends them, whatever they are doing."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.terminate()
        self._pool.shutdown(cancel_futures=True)


def compute_beside_others(job: Job, graph: Graph | None = None) -> list[Result]:
    """In one of several processes: what it is done with on a GPU is for the others."""
    full: str | None = None
    try:
        results = job.compute(graph)
    except OutOfMemory as error:
        full = str(error)
    if job.device.startswith("cuda"):
        torch.cuda.empty_cache()
    if full is not None:  # outside of the except, which would hold on to what has to go
        raise OutOfMemory(full)
    return results


def _begin(there: Surroundings, imports: Sequence[str]) -> None:
    """What a process does first."""
    there.take_on()
    for module in imports:
        importlib.import_module(module)
