"""Atomic writes of files and folders."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from gread.base.errors import InputError


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Context manager for a new folder that is renamed to ``path`` when it is complete."""
    folder = Path(path)
    taken = f"{folder} must not exist yet: choose another name, or remove it"
    if folder.exists():
        raise InputError(taken)
    part = _temporary_name(folder)
    try:
        with _named(folder):
            part.mkdir(parents=True)
            yield part
            if folder.exists():  # another process was faster
                raise InputError(taken)
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Context manager for a file that replaces an older one when it is complete."""
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{file} must be a file, got a folder")
    part = _temporary_name(file)
    try:
        with _named(file):
            part.parent.mkdir(parents=True, exist_ok=True)
            yield part
            part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text atomically."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the file name to errors of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise failure(path, error.errno) from error


def failure(path: Path, code: int) -> OSError:
    """Build the error of a failed write, with the reason from the operating system."""
    error = OSError(f"{path} cannot be written: {os.strerror(code)}")
    error.errno = code
    return error


def _temporary_name(path: Path) -> Path:
    """Return a temporary name in the same folder, and remove leftovers of killed processes."""
    path, host = path.absolute(), socket.gethostname()
    for left in path.parent.glob(f".{escape(path.name)}.*.part"):
        where, _, process = left.name[len(path.name) + 2 : -len(".part")].rpartition("-")
        if where == host and process.isdigit() and gone(int(process)):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(True)
    return path.with_name(f".{path.name}.{host}-{os.getpid()}.part")


def gone(process: int) -> bool:
    """Whether a process on this machine has ended."""
    try:
        if os.name == "posix":
            os.kill(process, 0)  # signal 0 only checks
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # process of another user
    return False
