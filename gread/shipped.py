"""Tables that ship inside the package, as TOML."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(folder: str, name: str) -> Mapping[str, Any] | None:
    """The table ``name`` in a folder below ``gread/``; None where there is none."""
    file = resources.files("gread").joinpath(folder, name)
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else None
