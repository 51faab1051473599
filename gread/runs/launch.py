"""Many runs: in this process or in several, only what is missing."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing

import torch

from gread.inputs import check_count
from gread.memory import OutOfMemory, is_out_of_memory
from gread.runs.grouping import populations, work
from gread.runs.run import ALONE, Result, run, run_together
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore


def launch(
    specs: Iterable[RunSpec],
    store: ResultStore,
    *,
    devices: Sequence[str] = ("cpu",),
    workers: int = 1,
    root: str | None = None,
    deterministic: bool = False,
    together: bool | None = None,
    histories: bool = True,
    imports: Sequence[str] = (),
    on_result: Callable[[Result], None] | None = None,
) -> None:
    """Computes and stores every spec that has no result yet.

    Results are stored as they come: whatever ends the launch, calling it again goes on. Specs with
    a record that measures the machine come last, in this process and with nothing beside them.

    Args:
        specs: What to compute.
        store: Where results go.
        devices: Runs take turns on them.
        workers: Number of processes; one means this process.
        root: The data root.
        deterministic: As in `run`.
        together: Whether specs of one form are computed as populations, as large as memory allows.
            By default they are on GPUs, where many cost little more than one; on a CPU they gain
            less, and apart each gives the same numbers as `run`, bit by bit. One that needs more
            memory than there is after all is halved.
        histories: Whether results keep the numbers of every epoch, most of what is stored.
        imports: Modules that every process imports first: those that register what specs name.
        on_result: Called with every new result.
    """
    check_count("workers", workers)
    if together is None:
        together = all(device.startswith("cuda") for device in devices)
    missing = store.missing(specs)
    timed = [spec for spec in missing if set(ALONE) & set(spec.record)]
    others = [spec for spec in missing if not set(ALONE) & set(spec.record)]
    groups = populations(others, devices[0], root, workers) if together else [[s] for s in others]
    if workers > 1:
        groups.sort(key=work, reverse=True)  # so that nobody waits for the longest at the end
    jobs = [
        (group, root, devices[turn % len(devices)], deterministic, histories)
        for turn, group in enumerate(groups)
    ]
    last = [([spec], root, devices[0], deterministic, histories) for spec in timed]
    with closing(_compute_all(jobs, last, workers, imports)) as done:
        for results in done:
            store.put(*results)
            for result in results:
                if on_result is not None:
                    on_result(result)


Job = tuple[Sequence[RunSpec], str | None, str, bool, bool]


def _compute(job: Job) -> list[Result]:
    specs, root, device, deterministic, histories = job
    if len(specs) == 1:
        results = [run(specs[0], root=root, device=device, deterministic=deterministic)]
    else:
        try:
            results = run_together(specs, root=root, device=device, deterministic=deterministic)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            results = []
        if not results:  # outside of the except, which would hold on to what has to go
            torch.cuda.empty_cache()
            middle = len(specs) // 2
            return [
                result
                for half in (specs[:middle], specs[middle:])
                for result in _compute((half, root, device, deterministic, histories))
            ]
    return results if histories else [result.without_history() for result in results]


def _compute_all(
    jobs: Sequence[Job], last: Sequence[Job], workers: int, imports: Sequence[str]
) -> Generator[list[Result], None, None]:
    """Results as they come; those of the last jobs one by one, with nothing beside them."""
    if workers == 1:
        yield from map(_compute, jobs)
    elif jobs:
        yield from _in_processes(jobs, workers, imports)
    yield from map(_compute, last)


def _in_processes(
    jobs: Sequence[Job], workers: int, imports: Sequence[str]
) -> Generator[list[Result], None, None]:
    """Results as they come; leaving the loop early ends the processes and what they compute."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, max(1, len(jobs))),
        multiprocessing.get_context("spawn"),  # forking would copy torch's threads half
        _begin,
        (max(1, torch.get_num_threads() // workers), sys.path, imports),
    )
    try:
        for future in as_completed([pool.submit(_compute, job) for job in jobs]):
            yield future.result()
    except BrokenProcessPool as error:
        raise OutOfMemory(
            "a process was killed from outside, most often since memory is full: choose fewer "
            "workers; what is done is stored"
        ) from error
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(threads: int, path: list[str], imports: Sequence[str]) -> None:
    """What a process does first."""
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    sys.path[:] = path
    for module in imports:
        importlib.import_module(module)


def _end_with_the_parent() -> None:
    """A parent that is killed cannot end its processes, so they watch it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
