"""Helpers of the scripts: commands as processes, a user's graph, and stored results."""

import csv
import json
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for child processes

HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""Environment without a GPU."""

TRAIN = ("train", "csbm", "--splits", "0-9", "--epochs", "30", "--device", "cpu")
SEARCH = ("search", "csbm", "--trials", "10", "--splits", "0-1", "--batch", "3", "--device", "cpu")
REPRODUCE = ("reproduce", "figure-11", "--scale", "quick", "--workers", "1", "--device", "cpu")
FIT = ("fit", "--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "topic", "--device", "cpu")
SPACE = "epochs = 20\nhidden_channels = [8, 16]\ntime = { low = 0.5, high = 3.0 }\n"


def prepared(folder: Path) -> Path:
    """Working directory with a graph of 120 nodes as two tables, and a search space."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    classes = [node % 3 for node in range(120)]
    rows = [
        [f"n{node}", of + draw.gauss(0, 1), draw.gauss(0, 1), "xyz"[of] if node % 10 else ""]
        for node, of in enumerate(classes)
    ]
    pairs = [(draw.randrange(120), draw.randrange(120)) for _ in range(400)]
    edges = [(a, b) for a, b in pairs if classes[a] == classes[b] or draw.random() < 0.3]
    _write(folder / "nodes.csv", ["id", "a", "b", "topic"], rows)
    _write(folder / "edges.csv", ["source", "target"], [[f"n{a}", f"n{b}"] for a, b in edges])
    (folder / "space.toml").write_text(SPACE, encoding="utf-8")
    return folder


def gread(
    *arguments: str | Path, cwd: Path, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end.

    Args:
        arguments: Command line arguments.
        cwd: Working directory.
        before: Python code that runs first in the process, for instance to set a limit.
        environment: Variables to add.
    """
    return subprocess.run(
        _command(before, arguments),
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )


def started(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the command as a separate process."""
    return subprocess.Popen(
        _command("", arguments),
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _command(before: str, arguments: Sequence[str | Path]) -> list[str]:
    program = f"{before}\nfrom gread.cli import main\nif __name__ == '__main__': main()\n"
    return [sys.executable, "-c", program, *map(str, arguments)]


def sentence(code: int, text: str) -> str:
    """One-line error of a command; fails for any other outcome."""
    said = [line for line in text.splitlines() if line.startswith("gread: ")]
    assert code == 2 and len(said) == 1, (code, text)
    assert "Traceback" not in text, text
    return said[0]


T = TypeVar("T")


def in_fresh_process(function: Callable[..., T], *arguments: Any) -> T:
    """Result of a function that forks, run in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def forked(arguments: Sequence[str | Path], folder: Path, log: Path | None = None) -> int:
    """Start the command in a fork of this process, and return the process id of the child.

    This process has already imported gread, so the command starts quickly.

    Args:
        arguments: Command line arguments.
        folder: Working directory.
        log: File of the output; by default a file of that name in the folder.
    """
    from gread.cli import main

    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.chdir(folder)
        out = os.open(log or "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.argv = ["gread", *map(str, arguments)]
        main()
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Exit status of a child: 0, an error code, or a negative signal number."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def results(store: Path) -> dict[str, dict[str, Any]]:
    """Reproducible parts of results by key, without durations and dates.

    The database must be valid.
    """
    file = store / "results.sqlite"
    if not file.exists():
        return {}
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        try:
            rows = connection.execute("SELECT key, result FROM runs").fetchall()
        except sqlite3.OperationalError:  # killed before the table was created
            rows = []
    connection.close()
    changing = {"seconds", "finished"}
    return {
        key: {name: value for name, value in json.loads(text).items() if name not in changing}
        for key, text in rows
    }


def files(folder: Path) -> dict[str, bytes]:
    """Visible files of a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _write(file: Path, header: list[str], rows: Sequence[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([header, *rows])
