"""Comparable times: the sides take turns, and every round gives one ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median
from time import perf_counter
from typing import Any, TypeAlias

import torch
from torch import nn
from torch_geometric.data import Data

from gread.bench import naive
from gread.bench.section import Row
from gread.data.load import load
from gread.data.synthetic import csbm
from gread.models.gread import GREAD
from gread.training.config import TrainConfig
from gread.training.fit import fit

Side: TypeAlias = Callable[[int], float]
"""Function that repeats its work a given number of times and returns seconds per repetition."""

ROUNDS = 9
FEWEST_ROUNDS = 3
PATIENCE = 40.0
"""Seconds after which a slow comparison ends, once it has the fewest rounds."""
BLOCK = 0.3
"""Approximate seconds of work in one turn."""

SLOWLY = TrainConfig(lr=1e-5)
"""Settings with a learning rate at which no reaction diverges; it does not change the time."""


def interleave(sides: Mapping[str, Side], quick: bool) -> dict[str, list[float]]:
    """Seconds of each side per round; sides alternate, so a busy machine affects all of them."""
    counts = {
        name: 1 if quick else max(1, min(300, round(BLOCK / side(1))))
        for name, side in sides.items()
    }
    found: dict[str, list[float]] = {name: [] for name in sides}
    began = perf_counter()
    for number in range(1 if quick else ROUNDS):
        if number >= FEWEST_ROUNDS and perf_counter() - began > PATIENCE:
            break
        for name, side in sides.items():
            found[name].append(side(counts[name]))
    return found


def ratio(found: Mapping[str, list[float]], slow: str, fast: str) -> Row:
    """Speedup of ``fast`` with its extremes over rounds, and both times."""
    ratios = [a / b for a, b in zip(found[slow], found[fast], strict=True)]
    return {
        "ratio": median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        f"{fast} ms": 1000 * median(found[fast]),
        f"{slow} ms": 1000 * median(found[slow]),
    }


def call_seconds(work: Callable[[], object], count: int) -> float:
    """Mean seconds of ``count`` calls of ``work``."""
    synchronize()
    began = perf_counter()
    for _ in range(count):
        work()
    synchronize()
    return (perf_counter() - began) / count


Training: TypeAlias = Callable[[nn.Module, Data, TrainConfig], Sequence[float]]
"""Function that trains a model and returns the seconds of each epoch."""


def _with_fit(model: nn.Module, data: Data, config: TrainConfig) -> Sequence[float]:
    return fit(model, data, config).seconds


def _naively(model: nn.Module, data: Data, config: TrainConfig) -> Sequence[float]:
    """The loop of ``gread/bench/naive.py``, which reads accuracies in each epoch."""
    rates = {"lr": config.lr, "weight_decay": config.weight_decay}
    marks = [perf_counter()]
    naive.train(
        model, data, epochs=config.epochs, on_epoch=lambda _: marks.append(perf_counter()), **rates
    )
    return [after - before for before, after in pairwise(marks)]


def fitted(
    build: Callable[[], nn.Module], data: Data, config: TrainConfig, train: Training = _with_fit
) -> Side:
    """Return a side that trains a new model and measures an epoch with its evaluation."""

    def epoch_seconds(count: int) -> float:
        warm_up = 6 if torch.cuda.is_available() else 1  # a CUDA graph is captured in these
        torch.manual_seed(0)
        model = build().to(data.x.device)
        seconds = train(model, data, replace(config, epochs=warm_up + count))
        if (ended := len(seconds)) < warm_up + count:
            raise ArithmeticError(f"training ended after {ended} epochs: nothing was measured")
        return mean(seconds[warm_up:])

    return epoch_seconds


def both(
    hyper: Mapping[str, Any], data: Data, config: TrainConfig = SLOWLY, product: str = "scatter"
) -> dict[str, Side]:
    """Sides of one GREAD: ours, and naive with the product ``"scatter"`` or ``"coo"``."""
    own = {"in_channels": data.num_features, "out_channels": int(data.y.max()) + 1, **hyper}
    return {
        "ours": fitted(lambda: GREAD(**own), data, config),
        "naive": fitted(lambda: naive.NaiveGREAD(**own, product=product), data, config, _naively),
    }


def graph(name: str, device: str, quick: bool) -> Data:
    """Load the dataset, or a tiny graph if ``quick``."""
    return (small_graph(60) if quick else load(name)).to(device)


def small_graph(nodes: int) -> Data:
    """Random graph with features so small that no reaction diverges."""
    return csbm(nodes, 5, homophily=0.8, degree=4, num_features=8, mean=0.05, sigma=0.1)


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
