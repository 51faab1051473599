"""Python in processes of their own that are no more than a fork away."""

import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gread.base.processes import start_method

FRESH = start_method("gread.runs.run")
"""Where nothing but gread has been imported: that takes seconds, here once for all of them."""

FRESH.set_forkserver_preload(["gread.runs.run", "gread.estimator.race"])


@dataclass
class Outcome:
    returncode: int
    stdout: str
    stderr: str


class Forked:
    """``python PROGRAM``, with the part of ``subprocess.Popen`` that tests use.

    Args:
        program: As on the command line: a path, ``-c`` and code, or ``-m`` and a module, and what
            these are given.
        cwd: The folder it works in.
        env: Its variables, where they are not those of this process.
    """

    def __init__(self, *program, cwd=None, env=None):
        self._folder = Path(tempfile.mkdtemp())
        self._files = [self._folder / "stdout", self._folder / "stderr"]
        for file in self._files:
            file.touch()
        about = ([str(part) for part in program], cwd, dict(env or os.environ), self._files)
        self._process = FRESH.Process(target=_run, args=about)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait_for(self, text: str, timeout: float = 60) -> str:
        """What it has printed to standard error, once that holds the text."""
        until = time.monotonic() + timeout
        while text not in (printed := self._files[1].read_text()):
            assert self.poll() is None and time.monotonic() < until, printed
            time.sleep(0.05)
        return printed

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, timeout: float = 300) -> Outcome:
        """How it ended, and what it printed."""
        self._process.join(timeout)
        if self.poll() is None:
            self._process.kill()
            raise TimeoutError(f"not after {timeout} s; {self._files[1].read_text()}")
        printed = [file.read_text() for file in self._files]
        shutil.rmtree(self._folder)
        return Outcome(self.poll(), *printed)


def _run(program: list[str], cwd, env: dict[str, str], files: list[Path]) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server lets none through
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
