"""Free memory, and checks against it."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gread.base.errors import InputError

GB = 1e9


def free_memory(device: str = "cpu") -> float:
    """Free bytes on a device; infinity if unknown.

    For a CPU, the minimum over machine, container, batch system and ``ulimit -v``.
    """
    if device.partition(":")[0] == "cuda":
        import torch

        return float(torch.cuda.mem_get_info(device)[0])
    return max(0.0, min(_of_the_machine(), _of_the_group(), _of_the_process()))


def _of_the_machine() -> float:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
        return sizes["MemAvailable"] * 1024.0
    except (OSError, ValueError, KeyError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _of_the_process() -> float:
    """Free bytes under ``ulimit -v``."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
            return float(limit - pages * resource.getpagesize())
    except (ImportError, OSError, ValueError):
        pass
    return math.inf


CGROUPS = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Folder, limit, usage and file cache of both cgroup versions, by the controllers of a group."""


def _of_the_group(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> float:
    """Free bytes under control groups, including parents; reclaimable file caches count as free."""
    free = math.inf
    with suppress(OSError, ValueError):
        for line in membership.read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in CGROUPS:
                folder, limit, used, cache = CGROUPS[controllers]
                group = Path(path.lstrip("/"))
                for place in {root / folder / part for part in (group, *group.parents)}:
                    free = min(free, _left(place / limit, place / used, cache))
    return free


def _left(limit: Path, used: Path, cache: str) -> float:
    try:
        most = int(limit.read_text("ascii"))
        rows = limit.with_name("memory.stat").read_text("ascii").splitlines()
        kept = int(dict(row.split() for row in rows)[cache])
        return most - int(used.read_text("ascii")) + kept
    except (OSError, ValueError, KeyError):  # no limit, or not readable
        return math.inf


class OutOfMemory(MemoryError):
    """Raised if there is not enough memory; the message states what to reduce."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory, by its type or its message."""
    torch = sys.modules.get("torch")  # its errors exist only if it is imported
    if isinstance(error, MemoryError) or (torch and isinstance(error, torch.OutOfMemoryError)):
        return True
    words = ("DefaultCPUAllocator", "_ALLOC_FAILED")  # the second is from cuBLAS and cuDNN
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


@contextmanager
def enough_memory(reduce: str) -> Iterator[None]:
    """Context manager that converts memory errors to `OutOfMemory`, which recommends ``reduce``."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, OutOfMemory) or not is_out_of_memory(error):
            raise
        room = ""
        if asked := re.search(r"allocate ([\d.]+) ?(bytes|[KMGT]iB)", str(error)):
            number, unit = asked.groups()  # PyTorch and NumPy use several units
            size = f"{float(number) / GB:.2g} GB" if unit == "bytes" else f"{number} {unit}"
            room = f" for {size} more"
        raise OutOfMemory(f"there is not enough memory{room}: choose {reduce}") from error


TRAINING = "fewer hidden_channels, a larger step_size, more parts (parts=16) or fewer workers"
LEAST = 2**28  # bytes that stay free while a file is read


def check_fits(path: Path, factor: float) -> None:
    """Require memory for reading a file, which takes ``factor`` times its size."""
    size, free = path.stat().st_size, free_memory()
    if factor * size > free:
        raise InputError(
            f"{path} must fit into memory, got {size / GB:.1f} GB, which needs about "
            f"{factor * size / GB:.1f} GB, with {free / GB:.1f} GB free: leave out columns, or "
            "store it as Parquet"
        )


def check_unpacks(size: float) -> None:
    """Require that the declared unpacked size of a file fits into memory."""
    free = free_memory()
    if size > free:
        raise InputError(
            f"its content must fit into memory, got {size / GB:,.1f} GB, with {free / GB:.1f} GB "
            "free"
        )


def check_left() -> None:
    """Require at least `LEAST` free bytes while data grows."""
    if free_memory() < LEAST:
        raise InputError("its content must fit into memory, which is full: drop columns")
