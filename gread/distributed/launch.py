"""Processes on this machine: if one dies, all end, and are restarted if requested."""

from __future__ import annotations

import pickle
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from gread.base.checks import check_count, check_positive
from gread.base.errors import InputError
from gread.base.processes import Surroundings, start_method, uninterrupted
from gread.distributed.exchange import process_group

T = TypeVar("T")

SECONDS = 300.0  # timeout of a process; another may be reading a large graph


def run_processes(
    work: Callable[..., T],
    arguments: Sequence[Any],
    *,
    processes: int,
    device: str = "cpu",
    restarts: int = 0,
    seconds: float = SECONDS,
) -> list[T]:
    """Call ``work(*arguments)`` in each process of a group on this machine.

    Args:
        work: Module-level function; `gread.distributed.rank` returns the number of its process.
        arguments: Arguments of all calls.
        processes: Number of processes.
        device: ``"cpu"``, or ``"cuda"`` with one GPU per process.
        restarts: Maximum number of restarts after a process was killed or did not answer.
        seconds: Time after which a process stops waiting for the others.

    Raises:
        ConnectionError: A process died, and no restart is left or it would die again.
    """
    check_count("processes", processes)
    check_positive("seconds", seconds)
    for left in reversed(range(restarts + 1)):
        try:
            return _once(work, arguments, processes, device, seconds)
        except ConnectionError as error:
            if not left or (isinstance(error, _Died) and error.exited):
                raise
            warnings.warn(f"{error}: all processes are restarted", stacklevel=2)
    raise AssertionError


class _Ended(NamedTuple):
    """End of a process."""

    value: Any = None
    error: Exception | None = None


def _once(
    work: Callable[..., T], arguments: Sequence[Any], processes: int, device: str, seconds: float
) -> list[T]:
    context = start_method(work.__module__)
    with tempfile.TemporaryDirectory(prefix="gread-") as folder:
        where = Path(folder, "meet").as_uri()
        group = partial(process_group, device, seconds=seconds, where=where, processes=processes)
        all_alike = group, device, Surroundings.current(processes), partial(work, *arguments)
        pipes = [context.Pipe(duplex=False) for _ in range(processes)]
        started: list[Any] = []
        try:
            with uninterrupted():
                for number, (_, end) in enumerate(pipes):
                    process = context.Process(target=_begin, args=(number, end, *all_alike))
                    process.start()
                    started.append(process)
                    end.close()
            ended = _watch(started, [end for end, _ in pipes], seconds)
        finally:
            for process in started:
                process.kill()
                process.join()
            for end, _ in pipes:
                end.close()
    errors = [one.error for one in ended if one.error is not None]
    # The error of a process is more informative than the lost connections of the others.
    for error in sorted(errors, key=lambda one: isinstance(one, ConnectionError)):
        raise error
    return [one.value for one in ended]


def _watch(started: Sequence[Any], ends: Sequence[Connection], seconds: float) -> list[_Ended]:
    """Wait for all processes; after the first failure, the others have ``seconds`` to end."""
    found: dict[int, _Ended] = {}
    count, deadline = len(started), float("inf")
    while len(found) < count and time.monotonic() < deadline:
        open_ends = [end for number, end in enumerate(ends) if number not in found]
        limit = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        for number in map(ends.index, wait(open_ends, limit)):
            try:
                found[number] = ends[number].recv()
            except EOFError:
                started[number].join()
                found[number] = _Ended(error=_Died(number, count, started[number].exitcode))
            if found[number].error is not None:
                deadline = min(deadline, time.monotonic() + seconds)
    dead = [one for one in found.values() if isinstance(one.error, _Died)]
    # If one is dead, the errors of the others are consequences.
    return dead or [found.get(n, _Ended(error=_Died(n, count, None))) for n in range(count)]


class _Died(ConnectionError):
    """A process died or does not answer; a code above 0 means that it raised an error."""

    def __init__(self, number: int, processes: int, code: int | None):
        self.exited = code is not None and code > 0
        how = "does not answer" if code is None else f"died with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        super().__init__(
            f"process {number} of {processes} {how}; the same command resumes from the last "
            "checkpoint"
        )


def _begin(
    number: int,
    end: Connection,
    group: Callable[..., AbstractContextManager[None]],
    device: str,
    there: Surroundings,
    work: Callable[[], Any],
) -> None:
    """Entry point of a process."""
    there.apply()
    with closing(end):
        try:
            choose_gpu(device, number)
            with group(rank=number):
                ended = _Ended(work())
        except (InputError, ArithmeticError, OSError) as error:
            ended = _Ended(error=type(error)(str(error)))
        # By value: PyTorch would send shared memory, which is freed when this process ends.
        end.send_bytes(pickle.dumps(ended))


def choose_gpu(device: str, number: int) -> None:
    """Select the GPU with the number of this process."""
    if torch.device(device).type != "cuda":
        return
    if number >= torch.cuda.device_count():
        raise InputError(
            f"every process needs a separate GPU, got {torch.cuda.device_count()} for process "
            f"{number} of this machine"
        )
    torch.cuda.set_device(number)
