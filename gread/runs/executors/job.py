"""Jobs and executors.

An executor computes jobs and returns the outcome of each. Grouping runs into jobs, retrying lost
jobs and storing results are independent of the executor (`gread.runs.launch`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch

from gread.base.memory import OutOfMemory, is_out_of_memory
from gread.runs.result import Result
from gread.runs.run import Graph, run, run_together
from gread.runs.spec import RunSpec


@dataclass(frozen=True, eq=False)
class Job:
    """Runs that are computed together.

    Attributes:
        specs: One spec, or several of one form.
        root, device, deterministic: As in `gread.runs.run`.
        histories: Whether results contain the values of every epoch.
    """

    specs: Sequence[RunSpec]
    root: str | None
    device: str
    deterministic: bool
    histories: bool

    def compute(self, graph: Graph | None = None) -> list[Result]:
        """Compute the results in this process; halve a population that runs out of memory.

        Args:
            graph: Graph of the specs, if it is already loaded.
        """
        place, fixed = self.device, self.deterministic
        if len(self.specs) == 1:
            (spec,) = self.specs
            results = [run(spec, root=self.root, device=place, deterministic=fixed, graph=graph)]
        else:
            try:
                results = run_together(
                    self.specs, root=self.root, device=place, deterministic=fixed, graph=graph
                )
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                results = []
            if not results:  # outside of the except block, whose traceback keeps tensors alive
                torch.cuda.empty_cache()
                middle = len(self.specs) // 2
                halves = self.specs[:middle], self.specs[middle:]
                return [r for half in halves for r in replace(self, specs=half).compute(graph)]
        return results if self.histories else [result.without_history() for result in results]


def compute_in_worker(job: Job, graph: Graph | None = None) -> list[Result]:
    """Compute a job in one of several processes and release GPU memory afterwards."""
    full: str | None = None
    try:
        results = job.compute(graph)
    except OutOfMemory as error:
        full = str(error)
    if job.device.startswith("cuda"):
        torch.cuda.empty_cache()
    if full is not None:  # outside of the except block, whose traceback keeps tensors alive
        raise OutOfMemory(full)
    return results


Outcome: TypeAlias = tuple[Job, list[Result] | ConnectionError | OutOfMemory]
"""A job with its results, or with the error if its process was lost or ran out of memory."""


class Executor(Protocol):
    """Interface of executors.

    Attributes:
        remote: Whether it computes on other machines, with as many concurrent jobs as fit.
    """

    remote: bool

    def choose_device(self, name: str) -> str:
        """Return a device by name; ``auto`` prefers a GPU."""

    def memory(self, device: str, workers: int | None) -> float:
        """Memory limit in bytes of a population on a device."""

    def start(self, device: str, workers: int | None, imports: Sequence[str]) -> None:
        """Start processes for later jobs, if that takes time, and return at once.

        Args:
            device: Device of the jobs.
            workers: Number of concurrent jobs.
            imports: Modules that a process imports first.
        """

    def compute(
        self, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
    ) -> Generator[Outcome, None, None]:
        """Yield the outcome of each job; closing the iterator stops the computation.

        Args:
            jobs: Jobs to compute.
            workers: Number of concurrent jobs.
            imports: Modules that a process imports first.
        """
