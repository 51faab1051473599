"""Many runs: in this process or in several, only what is missing."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from gread.inputs import check_count
from gread.runs.run import Result, run
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore


def launch(
    specs: Iterable[RunSpec],
    store: ResultStore,
    *,
    devices: Sequence[str] = ("cpu",),
    workers: int = 1,
    root: str | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> None:
    """Computes and stores every spec that has no result yet.

    Results are stored one by one as they come: whatever ends the launch, calling it again goes on.

    Args:
        specs: What to compute.
        store: Where results go.
        devices: Runs take turns on them.
        workers: Number of processes; one means this process.
        root: The data root.
        on_result: Called with every new result.
    """
    check_count("workers", workers)
    missing = store.missing(specs)
    jobs = [(spec, root, devices[turn % len(devices)]) for turn, spec in enumerate(missing)]
    results = map(_compute, jobs) if workers == 1 else _in_processes(jobs, workers)
    for result in results:
        store.put(result)
        if on_result is not None:
            on_result(result)


Job = tuple[RunSpec, str | None, str]


def _compute(job: Job) -> Result:
    spec, root, device = job
    return run(spec, root=root, device=device)


def _in_processes(jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """Results as they come; leaving the loop early ends the processes."""
    context = multiprocessing.get_context("spawn")  # forking would copy torch's threads half
    threads = max(1, torch.get_num_threads() // workers)
    pool = ProcessPoolExecutor(
        min(workers, max(1, len(jobs))), context, torch.set_num_threads, (threads,)
    )
    try:
        for future in as_completed([pool.submit(_compute, job) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
