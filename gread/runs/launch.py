"""Execution of many runs; only missing ones are computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from gread.base.checks import check_count
from gread.base.memory import OutOfMemory
from gread.runs.cost import estimate
from gread.runs.executors.find import find_executor
from gread.runs.executors.job import Executor, Job
from gread.runs.grouping import MOST, populations
from gread.runs.records import ALONE
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore

ATTEMPTS = 3
"""Consecutive attempts in which every job is lost before giving up."""


def launch(
    specs: Iterable[RunSpec],
    store: ResultStore,
    *,
    executor: str | Executor = "local",
    devices: Sequence[str] = ("cpu",),
    workers: int | None = None,
    root: str | None = None,
    deterministic: bool = False,
    together: bool | None = None,
    members: int = MOST,
    histories: bool = True,
    imports: Sequence[str] = (),
    on_result: Callable[[Result], None] | None = None,
) -> None:
    """Compute and store every spec that has no result yet.

    Only this process writes results, one by one. An interrupted launch is resumed by the same call.
    Runs lost with a dead process are retried. Specs with a record that measures the machine run
    last, one at a time and without other load.

    Args:
        specs: Runs to compute.
        store: Store of the results.
        executor: ``"local"`` for this machine, ``"ray"`` for a Ray instance that is started here
            or that ``RAY_ADDRESS`` names, ``"ray=ADDRESS"`` for a cluster; see
            ``gread.runs.EXECUTORS``.
        devices: Devices that are used in turn.
        workers: Number of processes. The default is 1, which is this process; on a cluster it is
            the number that fits.
        root: The data root.
        deterministic: As in `run`.
        together: Whether specs of one form are computed as populations, as large as memory allows.
            This is the default on GPUs. On a CPU the gain is smaller, and separate runs are bitwise
            equal to `run`. A population that runs out of memory is halved.
        members: Largest number of members of a population. If the launch is interrupted, all
            members of a running population are lost.
        histories: Whether results contain the numbers of every epoch, most of the stored data.
        imports: Modules that every process imports first, for names that they register.
        on_result: Function that is called with every new result.

    Raises:
        ConnectionError: All retries of some runs failed because their processes died.
    """
    if workers is not None:
        check_count("workers", workers)
    check_count("members", members)
    if isinstance(executor, str):
        executor = find_executor(executor)
    if workers is None and not executor.remote:
        workers = 1
    if together is None:
        together = all(device.startswith("cuda") for device in devices)
    missing = store.missing(specs)
    timed = [spec for spec in missing if set(ALONE) & set(spec.record)]
    others = [spec for spec in missing if not set(ALONE) & set(spec.record)]
    groups = [[spec] for spec in others]
    if together and others:
        memory = executor.memory(devices[0], workers)
        groups = populations(others, devices[0], root, memory, members)
    if workers != 1:
        # Longest first, to balance the load at the end.
        groups.sort(key=lambda group: sum(map(estimate, group)), reverse=True)
    jobs = [
        Job(group, root, devices[turn % len(devices)], deterministic, histories)
        for turn, group in enumerate(groups)
    ]
    last = [Job([spec], root, devices[0], deterministic, histories) for spec in timed]
    for some, count in ((jobs, workers), *(([job], 1) for job in last)):
        with closing(_insist(executor, some, count, imports)) as done:
            for results in done:
                store.put(*results)
                for result in results:
                    if on_result is not None:
                        on_result(result)


def _insist(
    executor: Executor, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
) -> Generator[list[Result], None, None]:
    """Yield results as they arrive; retry lost jobs after the others.

    A job that ran out of memory is retried last, alone.
    """
    attempts = 0
    crowded = []
    while jobs:
        lost: dict[Job, ConnectionError] = {}
        with closing(executor.compute(jobs, workers, imports)) as outcomes:
            for job, outcome in outcomes:
                if isinstance(outcome, ConnectionError):
                    lost[job] = outcome
                elif isinstance(outcome, OutOfMemory):
                    if len(jobs) == 1:
                        raise outcome
                    crowded.append(job)
                else:
                    yield outcome
        attempts = attempts + 1 if len(lost) == len(jobs) else 0
        jobs = list(lost)
        runs, reason = sum(len(job.specs) for job in jobs), next(iter(lost.values()), "")
        if attempts == ATTEMPTS:
            raise ConnectionError(
                f"{runs} runs failed {ATTEMPTS} times in a row, the others are stored: {reason}"
            )
        if jobs:
            warnings.warn(f"{runs} runs were lost and are retried: {reason}", stacklevel=3)
    for job in crowded:
        yield from _insist(executor, [job], workers, imports)
