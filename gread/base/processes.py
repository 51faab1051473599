"""Start of worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, NamedTuple


def start_method(preload: str) -> Any:
    """Multiprocessing context: on Linux, a fork server that has imported ``preload``.

    The preloaded import saves seconds. On other systems, and with a GPU, each process is spawned:
    forks are unsafe on macOS, and CUDA does not start in a fork of the server ("initialization
    error" on an H200). A fork of this process is never used, because it would copy only the calling
    thread, not torch's threads.
    """
    import torch  # importing it takes seconds

    if sys.platform != "linux" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    return context


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Context manager that defers Ctrl-C while worker processes start; later they ignore it."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Surroundings(NamedTuple):
    """Import path, environment and threads of the parent, which a fork server does not inherit."""

    path: list[str]
    environment: dict[str, str]
    threads: int

    @staticmethod
    def current(processes: int) -> Surroundings:
        """The current surroundings, with a share of the threads for each process."""
        import torch

        threads = max(1, torch.get_num_threads() // processes)
        return Surroundings(list(sys.path), dict(os.environ), threads)

    def apply(self) -> None:
        """Apply the surroundings in a new process; only the parent handles Ctrl-C."""
        import torch

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
        sys.path[:] = self.path
        os.environ.clear()
        os.environ.update(self.environment)
        torch.set_num_threads(self.threads)


def _end_with_the_parent() -> None:
    """End this process when its parent is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
