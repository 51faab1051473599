"""Cache of parsed graphs as memory-mapped safetensors files with their statistics.

Parsing Squirrel's text takes many seconds, so it is done once. Writers hold a lock and write
atomically.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError, safe_open
from torch_geometric.data import Data

from gread.base.tensors import write_tensors
from gread.data.statistics import Statistics

FORMAT = 1
"""Format version of cached files; changing it invalidates older files."""


def cached(path: Path, build: Callable[[], tuple[Data, Statistics]]) -> Data:
    """Return the graph of ``build``, cached at ``path`` if the folder is writable."""
    found = read(path)
    if found is not None:
        return found
    with contextlib.ExitStack() as lock:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.enter_context(FileLock(path.with_suffix(".lock")))
            writable = True
        except OSError:  # the folder cannot be written to
            writable = False
        found = read(path)  # another process may have been faster
        if found is not None:
            return found
        data, statistics = build()
        if writable:
            with contextlib.suppress(OSError):  # the disk is full: the file is recreated next time
                _write(path, data, statistics)
        return data


def read(path: Path) -> Data | None:
    """Read the graph at ``path``; None if it is missing, corrupt or outdated."""
    statistics = read_statistics(path)
    if statistics is None:
        return None
    try:
        with safe_open(path, framework="pt") as file:
            return Data(**{name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError):
        return None


def read_statistics(path: Path) -> Statistics | None:
    """Statistics in the header of ``path``, without reading the graph."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (OSError, SafetensorError):
        return None
    if metadata.get("format") != str(FORMAT):
        return None
    try:
        return Statistics(**json.loads(metadata["statistics"]))
    except (KeyError, TypeError, ValueError, RecursionError):  # not written by gread
        return None


def _write(path: Path, data: Data, statistics: Statistics) -> None:
    metadata = {"format": str(FORMAT), "statistics": json.dumps(asdict(statistics))}
    write_tensors(path, data.to_dict(), metadata)
