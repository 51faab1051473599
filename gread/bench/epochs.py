"""Epochs of GREAD compared with a naive implementation."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

import torch
from torch_geometric.nn import GAT, GCN

from gread.bench.pictures import grouped_bars, ratio_bars
from gread.bench.section import BENCHES, Row, Section
from gread.bench.timing import SLOWLY, both, fitted, graph, interleave, ratio
from gread.data.files import DataError
from gread.experiments.protocol import DATASETS, PROTOCOL
from gread.runs.presets import find_preset

FIGURE_9: Mapping[str, Any] = (
    PROTOCOL["runtime"]["continuous"]
    | PROTOCOL["runtime"]["gread"]
    | {"input_dropout": 0.5, "dropout": 0.5}
)
"""The setting of the paper's Figure 9: T = 3, τ = 1, SC, OA."""

EULER: Mapping[str, Any] = {**FIGURE_9, "reaction": "bs", "solver": "euler"}
RK4: Mapping[str, Any] = {**FIGURE_9, "reaction": "bs", "solver": "rk4"}
FISHER: Mapping[str, Any] = {**FIGURE_9, "reaction": "f", "solver": "euler"}
WIDE: Mapping[str, Any] = {**EULER, "hidden_channels": 256}

PUBLISHED_CODE_MS = 48.5
"""Milliseconds per epoch of the authors' code on Cora, with its published setting, on an H200."""

REACTIONS = ("f", "ac", "z", "st", "fb", "fb*", "bs")
EPOCH = "An epoch is a training step with its evaluation. Ratios are medians over rounds in turn."


@BENCHES.register("headline")
def headline(device: str, quick: bool) -> Section:
    """Target comparisons of the project, with the smallest ratio that each must reach."""
    published = find_preset("gread-bs", "cora", "published")
    setting, config = dict(published.hyper), published.train
    if torch.device(device).type == "cuda":
        works = {
            "Cora, F, Euler, d = 64": ("cora", FISHER, SLOWLY, "coo", 12),
            "Cora, BS, Euler, d = 64": ("cora", EULER, SLOWLY, "coo", 12),
            "Cora, BS, RK4, d = 64": ("cora", RK4, SLOWLY, "coo", 20),
            "Cora, BS as published": ("cora", setting, config, "scatter", 15),
        }
    else:
        works = {
            "Cora, BS, Euler, d = 64": ("cora", EULER, SLOWLY, "scatter", 15),
            "Cora, BS, RK4, d = 64": ("cora", RK4, SLOWLY, "scatter", 20),
            "Cora, BS as published": ("cora", setting, config, "scatter", 6),
            "Squirrel, BS, Euler, d = 256": ("squirrel", WIDE, SLOWLY, "scatter", 15),
        }
    rows: list[Row] = []
    for work, (name, hyper, config, product, least) in works.items():
        times = interleave(both(hyper, graph(name, device, quick), config, product), quick)
        reached = ratio(times, slow="naive", fast="ours")
        rows.append({"work": work, **reached, "at least": least, "against": product})
    note = f"{EPOCH} T = 3, τ = 1, SC, OA. Naive is torchdiffeq with scattered or COO products."
    if torch.device(device).type == "cuda":
        ours = float(rows[-1]["ours ms"])
        note += f" The published code needs {PUBLISHED_CODE_MS} ms for the last row on an H200, "
        note += f"{PUBLISHED_CODE_MS / ours:.1f} times ours here."
    picture = ratio_bars(rows, title="Times faster than naive")
    return Section("GREAD against the naive implementation", rows, note, picture)


@BENCHES.register("figure-9")
def figure_9(device: str, quick: bool) -> Section:
    """Epochs of seven reactions with two solvers, and of PyG's GCN and GAT for reference."""
    data = graph("cora", device, quick)
    rows: list[Row] = []
    for solver, title in {"euler": "Euler", "rk4": "RK4"}.items():
        for reaction in REACTIONS:
            hyper = {**FIGURE_9, "reaction": reaction, "solver": solver}
            reached = ratio(interleave(both(hyper, data), quick), slow="naive", fast="ours")
            rows.append({"model": reaction.upper(), "solver": title, **reached})
    width = FIGURE_9["hidden_channels"]
    sizes = data.num_features, width, 2, int(data.y.max()) + 1
    stacks = {
        "GCN": fitted(lambda: GCN(*sizes, dropout=0.5), data, SLOWLY),
        "GAT": fitted(lambda: GAT(*sizes, dropout=0.5, heads=8), data, SLOWLY),
    }
    layers = {name: 1000 * median(times) for name, times in interleave(stacks, quick).items()}
    panels = {
        title: {
            str(row["model"]): {"naive": float(row["naive ms"]), "gread": float(row["ours ms"])}
            for row in rows
            if row["solver"] == title
        }
        | {name: {"PyG": time} for name, time in layers.items()}
        for title in ("Euler", "RK4")
    }
    rows += [{"model": f"{name} of PyG", "ours ms": time} for name, time in layers.items()]
    return Section(
        "Figure 9: an epoch on Cora at T = 3, τ = 1, SC, OA, d = 64",
        rows,
        f"{EPOCH} GCN and GAT have two layers, 64 channels between, and are trained by gread.fit.",
        grouped_bars(panels, ylabel="ms per epoch", title="An epoch on Cora, T = 3, τ = 1"),
    )


@BENCHES.register("datasets")
def datasets(device: str, quick: bool) -> Section:
    """Epochs of GREAD-BS with its published settings."""
    rows: list[Row] = []
    missing = []
    for name in DATASETS:
        preset = find_preset("gread-bs", name, "published")
        try:
            data = graph(name, device, quick)
        except DataError as error:
            missing.append(f" Left out: {error}.")
            continue
        times = interleave(both(preset.hyper, data, preset.train), quick)
        solver = f"{preset.hyper['solver']}, {preset.hyper['adjacency']}"
        reached = ratio(times, slow="naive", fast="ours")
        rows.append({"dataset": name, "setting": solver, **reached})
    title, note = "GREAD-BS with its published settings", EPOCH + "".join(missing)
    picture = "Times faster than naive, published settings of BS"
    return Section(title, rows, note, ratio_bars(rows, title=picture) if rows else None)
