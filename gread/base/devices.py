"""Devices by name."""

from __future__ import annotations

import warnings

from gread.base.errors import InputError


def choose_device(name: str) -> str:
    """Return a usable device by name; ``auto`` prefers a GPU."""
    import torch  # importing it takes seconds

    if name == "auto":
        if not torch.cuda.is_available():
            return "cpu"
        reason = _unable("cuda")
        if reason:
            warnings.warn(f"the GPU is not usable, so the CPU is used: {reason}", stacklevel=2)
        return "cpu" if reason else "cuda"
    reason = _unable(name)
    if reason:
        raise InputError(f"device must be one that this machine has, got {name!r}: {reason}")
    return name


def _unable(device: str) -> str:
    """Reason why a device is unusable: missing, busy, full or unsupported by this PyTorch build."""
    import torch

    try:
        torch.ones(1, device=device).add(1).item()
    except (RuntimeError, AssertionError) as error:
        return str(error).partition("\n")[0][:200]
    return ""
