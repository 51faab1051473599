"""TOML files of the package and of users."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from gread.base.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def read_toml(folder: str, name: str) -> Mapping[str, Any] | None:
    """Read the file ``name`` in a folder below ``gread/``; None if it does not exist.

    The result is cached, so callers must not change it.
    """
    file = resources.files("gread").joinpath(folder, name)
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else None


MOST_BYTES = 2**20  # size limit of a settings file


def read_file(path: str | Path) -> Mapping[str, Any]:
    """Read a user's TOML file."""
    file = Path(path)
    if file.exists() and (not file.is_file() or file.stat().st_size > MOST_BYTES):
        raise InputError(f"{path} must be a file of settings, of {MOST_BYTES:,} bytes at most")
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # no file, no UTF-8, no TOML
        raise InputError(f"the file {path} cannot be read: {error}") from error
