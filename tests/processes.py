"""Python processes that are forked from a server with preloaded modules, if possible."""

import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path

from gread.base.processes import start_method

FRESH = start_method("gread.runs.run")
"""Multiprocessing context: a fork server, or spawned processes with a GPU and outside Linux."""

IMPORTED = (
    *("gread.cli", "gread.runs.run", "gread.search.search", "gread.experiments.reproduce"),
    *("gread.estimator.classifier", "gread.estimator.export", "gread.estimator.tune"),
    *("matplotlib.pyplot", "optuna", "pandas"),
    *("sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection", "sklearn.tree"),
)
"""Modules that commands import, which takes each command more than a second."""


def start_server() -> None:
    """Start the server unless it runs; the package would start one with fewer preloaded modules."""
    FRESH.set_forkserver_preload([name for name in IMPORTED if find_spec(name) is not None])
    forkserver.ensure_running()


@dataclass
class Outcome:
    returncode: int
    stdout: str
    stderr: str


class Forked:
    """``python PROGRAM``, with the part of ``subprocess.Popen`` that tests use.

    Args:
        program: Command line: a path, ``-c`` and code, or ``-m`` and a module, with arguments.
        cwd: Working directory.
        env: Environment; by default that of this process.
    """

    def __init__(self, *program, cwd=None, env=None):
        self._folder = Path(tempfile.mkdtemp())
        self._files = [self._folder / "stdout", self._folder / "stderr"]
        for file in self._files:
            file.touch()
        about = ([str(part) for part in program], cwd, dict(env or os.environ), self._files)
        start_server()
        self._process = FRESH.Process(target=_run, args=about)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait_for(self, text: str, timeout: float = 60) -> str:
        """Wait for a text in standard error, and return the output so far."""
        until = time.monotonic() + timeout
        while text not in (printed := self._files[1].read_text()):
            assert self.poll() is None and time.monotonic() < until, printed
            time.sleep(0.05)
        return printed

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, timeout: float = 300) -> Outcome:
        """Wait for the end; return exit code and output."""
        self._process.join(timeout)
        if self.poll() is None:
            self._process.kill()
            raise TimeoutError(f"still running after {timeout} s; {self._files[1].read_text()}")
        printed = [file.read_text() for file in self._files]
        shutil.rmtree(self._folder)
        return Outcome(self.poll(), *printed)


def _run(program: list[str], cwd, env: dict[str, str], files: list[Path]) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd or ".")
    first, *rest = program
    if first in ("-c", "-m"):
        sys.path.insert(0, os.getcwd())
        what, *rest = rest
    sys.argv[:] = [first, *rest]
    if first == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(first, run_name="__main__")
