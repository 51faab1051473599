"""Datasets by name: ``load("texas")`` returns a PyG ``Data`` with ten splits."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gread.base.errors import InputError
from gread.data.catalog import DATASETS

if TYPE_CHECKING:
    from torch_geometric.data import Data

REVERSED = "reversed"
"""Value of the option ``directed`` that reverses every edge."""


def load(name: str, root: str | Path | None = None, **options: Any) -> Data:
    """Load a dataset by name.

    Args:
        name: A name of ``gread.DATASETS``.
        root: The data root; by default ``GREAD_DATA``, or a folder in the platform's cache.
        options: Options of the dataset, for example those of `csbm`. Benchmark graphs accept
            ``normalize_features``, ``standardize_features``, ``largest_component`` and, if their
            edges have directions, ``directed``: True keeps them, ``"reversed"`` reverses every
            edge. By default, every edge is in both directions.

    Returns:
        A PyG ``Data`` with masks [N, splits].

    Raises:
        DataError: A file is missing and cannot be downloaded.
        InputError: The name or an option is unknown.

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
    directed = options.get("directed", False)
    if directed not in (False, True, REVERSED):
        raise InputError(f"directed must be true, false or {REVERSED!r}, got {directed!r}")
    if directed == REVERSED:
        options["directed"] = True
    if "root" in inspect.signature(make).parameters:
        options["root"] = root
    data = make(**options)
    if directed == REVERSED:
        data.edge_index = data.edge_index.flip(0)
    return data
