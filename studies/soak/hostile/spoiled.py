"""Hostile content, and the trace of executed code."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Case: TypeAlias = Callable[[Path], None]
"""Function that writes a file to a folder and reads it as a user would."""

EXECUTED = "executed"
"""File that executed code leaves in the folder."""


class Code:
    """Object that runs code when it is unpickled."""

    def __init__(self, folder: Path):
        self.trace = folder / EXECUTED

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def pickled(folder: Path) -> bytes:
    """Pickle that contains code."""
    return pickle.dumps(Code(folder))


def write(path: Path, content: str | bytes) -> Path:
    """Write a file, and return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
