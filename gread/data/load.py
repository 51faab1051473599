"""Graphs by name: ``load("texas")`` gives a PyG ``Data`` with ten splits."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gread.base.errors import InputError
from gread.data.catalog import DATASETS

if TYPE_CHECKING:
    from torch_geometric.data import Data


def load(name: str, root: str | Path | None = None, **options: Any) -> Data:
    """The graph that ``name`` stands for.

    Args:
        name: A name of ``gread.DATASETS``.
        root: The data root; by default ``GREAD_DATA``, or a folder in the platform's cache.
        options: Those of the dataset, for instance of `csbm`; benchmark graphs take
            ``normalize_features``, ``standardize_features``, ``largest_component`` and, if their
            edges have directions, ``directed``. Without it every edge is there in both directions.

    Example:
        >>> load("grid", height=10, width=20).num_nodes
        200
    """
    entry = DATASETS[name]
    make = entry.make
    hidden = {"root", *(() if entry.directed else ("directed",))}
    known = [option for option in inspect.signature(make).parameters if option not in hidden]
    for option in options:
        if option not in known:
            choices = f"choose from: {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no option {option!r}; {choices}")
    if "root" in inspect.signature(make).parameters:
        options["root"] = root
    return make(**options)
