"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

from gread.inputs import InputError

GB = 1e9


def free_memory() -> float:
    """Bytes that a new array may take, as far as the system says; else infinity."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
        return sizes["MemAvailable"] * 1024.0
    except (OSError, ValueError, KeyError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def check_fits(path: Path, factor: float) -> None:
    """Requires that a file can be read, where that takes ``factor`` times its size."""
    size, free = path.stat().st_size, free_memory()
    if factor * size > free:
        raise InputError(
            f"{path} must fit into memory, got {size / GB:.1f} GB, for which about "
            f"{factor * size / GB:.1f} GB are needed and {free / GB:.1f} GB are free: leave out "
            "columns, or store it as Parquet"
        )
