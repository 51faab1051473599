"""What makes a file hostile, and what says that it has won."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Case: TypeAlias = Callable[[Path], None]
"""Makes its file in a folder, and reads it as a user would."""

EXECUTED = "executed"
"""The file that code leaves in the folder if somebody runs it."""


class Code:
    """Runs where somebody unpickles it."""

    def __init__(self, folder: Path):
        self.trace = folder / EXECUTED

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def pickled(folder: Path) -> bytes:
    """A pickle with code in it."""
    return pickle.dumps(Code(folder))


def write(path: Path, content: str | bytes) -> Path:
    """Writes a file, and gives its place."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
