"""Many runs: here or elsewhere, only what is missing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from gread.base.checks import check_count
from gread.base.memory import OutOfMemory
from gread.runs.cost import estimate
from gread.runs.executors.find import find_executor
from gread.runs.executors.job import Executor, Job
from gread.runs.grouping import populations
from gread.runs.records import ALONE
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore

ATTEMPTS = 3
"""So often in a row all that is left may be lost with the processes that compute it."""


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
    histories: bool = True,
    imports: Sequence[str] = (),
    on_result: Callable[[Result], None] | None = None,
) -> None:
    """Computes and stores every spec that has no result yet.

    Results are stored as they come, by this process alone: whatever ends the launch, calling it
    again goes on. Runs that are lost with a process that dies are computed again. Specs with a
    record that measures the machine come last, one by one and with nothing beside them.

    Args:
        specs: What to compute.
        store: Where results go.
        executor: Where to compute: ``"local"`` is this machine, ``"ray"`` a Ray that is started on
            it or that ``RAY_ADDRESS`` names, ``"ray=ADDRESS"`` the cluster there; see
            ``gread.runs.EXECUTORS``.
        devices: Runs take turns on them.
        workers: Number of processes. By default one, which is this process; on a cluster as many
            as there is room for.
        root: The data root.
        deterministic: As in `run`.
        together: Whether specs of one form are computed as populations, as large as memory allows.
            By default they are on GPUs, where many cost little more than one; on a CPU they gain
            less, and apart each gives the same numbers as `run`, bit by bit. One that needs more
            memory than there is after all is halved.
        histories: Whether results keep the numbers of every epoch, most of what is stored.
        imports: Modules that every process imports first: those that register what specs name.
        on_result: Called with every new result.

    Raises:
        ConnectionError: Whatever was tried, the processes that compute died.
    """
    if workers is not None:
        check_count("workers", workers)
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
        groups = populations(others, devices[0], root, executor.memory(devices[0], workers))
    if workers != 1:
        # So that nobody waits for the longest at the end.
        groups.sort(key=lambda group: sum(map(estimate, group)), reverse=True)
    jobs = [
        Job(group, root, devices[turn % len(devices)], deterministic, histories)
        for turn, group in enumerate(groups)
    ]
    last = [Job([spec], root, devices[0], deterministic, histories) for spec in timed]
    for some, beside in ((jobs, workers), *(([job], 1) for job in last)):
        with closing(_insist(executor, some, beside, imports)) as done:
            for results in done:
                store.put(*results)
                for result in results:
                    if on_result is not None:
                        on_result(result)


def _insist(
    executor: Executor, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
) -> Generator[list[Result], None, None]:
    """Results as they come; jobs that are lost come again after the others.

    One that found no room beside others comes last, alone.
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
                f"{runs} runs were lost {ATTEMPTS} times in a row, the others are stored: {reason}"
            )
        if jobs:
            warnings.warn(f"{runs} runs were lost and are computed again: {reason}", stacklevel=3)
    for job in crowded:
        yield from _insist(executor, [job], workers, imports)
