"""What computes: versions of Python and of the packages that decide about numbers."""

from __future__ import annotations

from functools import lru_cache

__version__ = "1.0.0"

PACKAGES = ("torch", "torch-geometric", "torchdiffeq", "numpy")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """From names to versions."""
    import platform  # these take a tenth of the time of `gread --help`
    from importlib import metadata

    return {"python": platform.python_version()} | {n: metadata.version(n) for n in PACKAGES}
