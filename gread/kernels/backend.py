"""Which kernels to use: C on a CPU, Triton on a GPU, plain PyTorch where those are missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from gread.kernels import reference as plain

_plain = bool(os.environ.get("GREAD_PLAIN"))


@contextmanager
def plain_only() -> Iterator[None]:
    """Turns every fast path off: plain PyTorch, step by step, dense features.

    The environment variable ``GREAD_PLAIN=1`` does so for a whole process.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> model = gread.GREAD(data.num_features, 4, 2).eval()
        >>> with gread.plain_only():
        ...     slow = model(data.x, data.edge_index)
        >>> torch.allclose(slow, model(data.x, data.edge_index), atol=1e-6)
        True
    """
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


def fast() -> bool:
    """Whether fast paths may be taken; torch.compile sees the plain ones."""
    return not (_plain or torch.compiler.is_compiling())


def kernels_for(x: Tensor) -> ModuleType:
    """The module whose kernels work on ``x``."""
    if fast() and x.dtype in (torch.float32, torch.float64):
        found = available(x.device.type)
        return plain if isinstance(found, Exception) else found
    return plain


@cache
def available(device: str) -> ModuleType | Exception:
    """The fast kernels for a kind of device, or why there are none."""
    try:
        if device == "cpu":
            from gread.kernels import cpu

            cpu.library()
            return cpu
        if device == "cuda":
            from gread.kernels import gpu

            return gpu
    except (ImportError, OSError) as error:
        return error
    return ImportError(f"there are none for {device}")
