"""Graphs by name: ``load("csbm", homophily=0.2)`` gives a PyG ``Data``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch_geometric.data import Data

from gread.data.splits import random_splits as random_splits
from gread.data.synthetic import csbm as csbm
from gread.data.synthetic import grid as grid
from gread.inputs import InputError
from gread.registry import Registry

DATASETS: Registry[Callable[..., Data]] = Registry("dataset", {"csbm": csbm, "grid": grid})


def load(name: str, **options: Any) -> Data:
    """The graph that ``name`` stands for.

    Args:
        name: A name of ``gread.DATASETS``.
        options: Those of its function, for instance of `csbm`.

    Example:
        >>> load("grid", height=10, width=20).num_nodes
        200
    """
    make = DATASETS[name]
    known = inspect.signature(make).parameters
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}; choose from: {', '.join(known)}")
    return make(**options)
