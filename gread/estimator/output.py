"""Files and folders that are there as a whole, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gread.inputs import InputError


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """A folder to write into, which gets its name when all is written.

    Raises:
        InputError: There is something of this name already.
    """
    folder = Path(path)
    if folder.exists():
        raise InputError(f"{folder} must not exist yet: choose another name, or remove it")
    part = _beside(folder)
    part.mkdir(parents=True)
    try:
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A file to write, which gets its name, and replaces an older one, when all is written."""
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{file} must be a file, got a folder")
    part = _beside(file)
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A name in the same folder, so that renaming is one step."""
    return path.absolute().with_name(f".{path.absolute().name}.{os.getpid()}.part")
