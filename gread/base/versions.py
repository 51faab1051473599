"""Versions of gread, Python and the packages that affect numerical results."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

__version__ = "1.0.0"

PACKAGES = ("torch", "torch-geometric", "torchdiffeq", "numpy")
PACKAGE = Path(__file__).parents[1]


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions by name, with the commit of gread in a checkout.

    Example:
        >>> sorted(versions())[:2]
        ['gread', 'numpy']
    """
    import platform  # importing these takes a tenth of the time of `gread --help`
    from importlib import metadata

    found = {"gread": __version__, "python": platform.python_version()}
    if revision := commit():
        found["gread"] += f"+{revision}"
    return found | {name: metadata.version(name) for name in PACKAGES}


def commit(package: Path = PACKAGE) -> str:
    """Commit of a checkout, with ``.changed`` if files differ from it.

    Empty if the package is not tracked by git or git is not installed.
    """
    import subprocess

    def git(*words: str) -> str:
        command = ["git", "-C", str(package), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if not git("ls-files", "__init__.py"):  # installed inside another checkout
            return ""
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "--short=12", "HEAD") + (".changed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
