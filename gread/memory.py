"""How much memory there is, and how much a model takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from gread.inputs import InputError

GB = 1e9


def free_memory(device: str = "cpu") -> float:
    """Bytes that new arrays may take, as far as the system says; else infinity."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
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


LEAST = 2**28
"""Bytes that stay free while a file is read."""


def check_fits(path: Path, factor: float) -> None:
    """Requires that a file can be read, where that takes ``factor`` times its size."""
    size, free = path.stat().st_size, free_memory()
    if factor * size > free:
        raise InputError(
            f"{path} must fit into memory, got {size / GB:.1f} GB, for which about "
            f"{factor * size / GB:.1f} GB are needed and {free / GB:.1f} GB are free: leave out "
            "columns, or store it as Parquet"
        )


def check_unpacks(size: float) -> None:
    """Requires that what a packed file holds, by its own account, fits into memory."""
    free = free_memory()
    if size > free:
        raise InputError(
            f"what it holds must fit into memory, got {size / GB:,.1f} GB where {free / GB:.1f} GB "
            "are free"
        )


def check_left() -> None:
    """Requires, while something grows, that there is memory left for it."""
    if free_memory() < LEAST:
        raise InputError("what it holds must fit into memory, which is full: leave out columns")


def bytes_held(
    model: nn.Module, x: Tensor, edge_index: Tensor, extra: Mapping[str, Tensor] | None = None
) -> int:
    """Storages that autograd keeps after a forward pass, small ones left out."""
    given = [*model.parameters(), x, edge_index]
    known = {tensor.untyped_storage().data_ptr() for tensor in given}
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.numel() >= x.size(0) and storage.data_ptr() not in known:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        # What it keeps lives as long as the logits.
        logits = model.train()(x, edge_index, **(extra or {}))
    total = sum(held.values())
    del logits
    return total
