"""Rough estimates of the duration of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from gread.data.catalog import DATASETS
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.runs.result import Result
from gread.runs.spec import HIDDEN_CHANNELS, RunSpec

START, PER_NUMBER = 8e-3, 3e-9
"""Seconds per epoch on one CPU core, and per value that a product with Ã writes."""

GUESS = (3000, 10000)
"""Nodes and edges assumed for an unknown dataset."""

ENOUGH = 20
"""Number of results that determine the speed of a device."""


def estimate(spec: RunSpec) -> float:
    """Estimated seconds of a run of any model on one CPU core, within a factor of a few.

    Example:
        >>> short = RunSpec(dataset="csbm", model="gread-bs")
        >>> estimate(short) < estimate(RunSpec(dataset="cora", model="gread-bs"))
        True
    """
    nodes, edges = _size(spec.dataset)
    width = int(spec.hyper.get("hidden_channels", HIDDEN_CHANNELS))  # type: ignore[arg-type]
    products = _products(spec)
    return spec.train.epochs * (START + PER_NUMBER * width * products * (nodes + 2 * edges))


def speed(known: Iterable[Result], device: str) -> float:
    """Ratio of measured to estimated time on this kind of device; 1 if unknown."""
    kind = device.partition(":")[0]
    taken = [(r.seconds, estimate(r.spec)) for r in known if r.device.startswith(kind)]
    if len(taken) < ENOUGH:
        return 1.0
    return sum(seconds for seconds, _ in taken) / sum(guess for _, guess in taken)


def _products(spec: RunSpec) -> int:
    """Number of products with Ã in a forward pass."""
    hyper = spec.hyper
    if "time" in hyper and "step_size" in hyper:
        method = SOLVERS.get(str(hyper.get("solver")))
        stages = method.stages if isinstance(method, Tableau) else 20
        return 2 * stages * math.ceil(float(hyper["time"]) / float(hyper["step_size"]))  # type: ignore[arg-type]
    layers = hyper.get("num_steps", hyper.get("num_layers", 2))
    return 2 * int(layers)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _size(dataset: str) -> tuple[int, int]:
    """Nodes and edges; for a dataset that is not downloaded, its listed size or a guess."""
    if dataset not in DATASETS:
        return GUESS
    entry = DATASETS[dataset]
    found = entry.statistics(build=False)
    if found is not None:
        return found.nodes, found.edges
    sizes = entry.paper or entry.size
    return (int(sizes["nodes"]), int(sizes["edges"])) if sizes else GUESS
