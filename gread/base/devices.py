"""Devices by name."""

from __future__ import annotations

import warnings

from gread.base.errors import InputError


def choose_device(name: str) -> str:
    """The device of that name, which must be able to compute; ``auto`` takes a GPU that is."""
    import torch  # which takes seconds

    if name == "auto":
        if not torch.cuda.is_available():
            return "cpu"
        reason = _unable("cuda")
        if reason:
            warnings.warn(f"the GPU cannot compute, so the CPU does: {reason}", stacklevel=2)
        return "cpu" if reason else "cuda"
    reason = _unable(name)
    if reason:
        raise InputError(f"device must be one that this machine has, got {name!r}: {reason}")
    return name


def _unable(device: str) -> str:
    """Why nothing can be computed there: none, busy, full, or PyTorch was built for another."""
    import torch

    try:
        torch.ones(1, device=device).add(1).item()
    except (RuntimeError, AssertionError) as error:
        return str(error).partition("\n")[0][:200]
    return ""
