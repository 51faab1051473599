"""Many trainings at once, compared with sequential training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from gread.bench.epochs import EPOCH, EULER, FISHER
from gread.bench.pictures import grouped_bars, ratio_bars
from gread.bench.section import BENCHES, Row, Section
from gread.bench.timing import SLOWLY, Side, both, graph, interleave, ratio, synchronize
from gread.models.catalog import MODELS
from gread.models.gread import GREAD
from gread.training.fit import masks_of
from gread.training.loop import several
from gread.training.population import Population

WARM_UP = 6
"""Epochs that are not counted: in the first ones a CUDA graph is captured."""


@BENCHES.register("population")
def population(device: str, quick: bool) -> Section:
    """An epoch of ten splits as one population, and of sixty settings on ten splits."""
    works = {
        "Cora, F, Euler, 10 splits": ("cora", FISHER, 10),
        "Cora, BS, Euler, 10 splits": ("cora", EULER, 10),
        "Texas, BS, Euler, 600 runs": ("texas", EULER, 600),
    }
    rows: list[Row] = []
    for work, (name, hyper, members) in works.items():
        data = graph(name, device, quick)
        count = 2 if quick else members if device.startswith("cuda") else 10
        sides = both(hyper, data, product="coo" if device.startswith("cuda") else "scatter")
        sides["population"] = partial(_epoch_a_member, partial(GREAD, **hyper), data, count)
        times = interleave(sides, quick)
        row: Row = {"work": work, "members": count}
        row |= ratio(times, slow="naive", fast="population")
        alone = ratio(times, slow="ours", fast="population")
        rows.append({**row, "ours ms": alone["ours ms"], "against ours": alone["ratio"]})
        if device.startswith("cuda"):
            rows[-1]["at least"] = 50
    note = f"{EPOCH} Times are those of one training; the population trains all of its members at "
    note += "once, the others one after another. T = 3, τ = 1, SC, OA, d = 64."
    picture = ratio_bars(rows, title="Times faster than naive")
    return Section("Many trainings at once", rows, note, picture)


DEEP: Mapping[str, Any] = {"hidden_channels": 64, "num_steps": 12}
SPLITS = 10


@BENCHES.register("splits")
def splits(device: str, quick: bool) -> Section:
    """An epoch of ten splits of Minesweeper as one population, compared with one split."""
    data = graph("minesweeper", device, quick)
    members = 2 if quick else SPLITS
    rows: list[Row] = []
    shown: dict[str, dict[str, float]] = {}
    for model in ("gread-x", "tuned-gcn"):
        build = partial(MODELS[model].build, **DEEP)
        sides: dict[str, Side] = {
            "population": partial(_epoch, build, data, members),
            "one split": partial(_epoch, build, data, 1),
        }
        times = interleave(sides, quick)
        title = MODELS[model].title
        row: Row = {"model": title, "members": members}
        rows.append(row | ratio(times, slow="population", fast="one split"))
        shown[title] = {side: 1000 * median(times[side]) for side in ("one split", "population")}
        if device.startswith("cuda"):
            rows[-1]["at most"] = 2
    note = f"{EPOCH} K = 12 steps, d = 64, batch normalization, accuracy as the metric."
    title = "Ten splits compared with one"
    picture = grouped_bars({"Minesweeper": shown}, ylabel="ms per epoch", title=title)
    return Section(title, rows, note, picture)


def _epoch_a_member(build: Callable[..., nn.Module], data: Data, members: int, count: int) -> float:
    """Seconds per epoch and member."""
    return _epoch(build, data, members, count) / members


def _epoch(build: Callable[..., nn.Module], data: Data, members: int, count: int) -> float:
    """Seconds of an epoch of all members."""
    torch.manual_seed(0)
    sizes = {"in_channels": data.num_features, "out_channels": int(data.y.max()) + 1}
    models = [build(**sizes) for _ in range(members)]
    splits = data.train_mask.size(1)
    trained = Population(
        models,
        data,
        [replace(SLOWLY, epochs=WARM_UP + count)] * members,
        [masks_of(data, member % splits) for member in range(members)],
        [torch.Generator().manual_seed(member) for member in range(members)],
    )
    epoch = trained.recorded()
    several(epoch, WARM_UP)
    synchronize()
    began = perf_counter()
    several(epoch, count)
    return (perf_counter() - began) / count
