"""What computes: versions of Python and of the packages that decide about numbers."""

from __future__ import annotations

import platform
from functools import lru_cache
from importlib import metadata

__version__ = "0.1.0"


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """From names to versions."""
    names = ("torch", "torch-geometric", "torchdiffeq", "numpy")
    return {"python": platform.python_version()} | {n: metadata.version(n) for n in names}
