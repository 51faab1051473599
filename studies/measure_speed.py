"""Measure milliseconds per epoch with the published settings, and the ratio to published code.

    python studies/measure_speed.py [DATASET ...] [--device cuda] [--epochs 200] [--profile 12]

Run it in the repository's root. GREAD-BS is trained on the first split of every dataset with
`gread.fit`. The time is the mean over the second half of the epochs, each with its evaluation.
``--profile K`` prints the K kernels that take longest instead: their time and number of launches
per epoch.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Data

import gread
from gread.bench.machine import machine
from gread.runs.presets import find_preset

PUBLISHED = {
    "texas": 10.1,
    "wisconsin": 60.0,
    "cornell": 17.4,
    "film": 45.2,
    "squirrel": 67.1,
    "chameleon": 12.9,
    "cora": 61.5,
    "citeseer": 84.6,
    "pubmed": 30.0,
}
"""Milliseconds per epoch of the authors' code with the same settings on one H200."""


def prepared(name: str, device: str, epochs: int) -> tuple[nn.Module, Data, gread.TrainConfig]:
    """Model, graph and training of GREAD-BS with its published settings."""
    preset = find_preset("gread-bs", name, "published")
    data = gread.load(name).to(device)
    torch.manual_seed(0)
    model = gread.GREAD(data.num_features, out_channels=int(data.y.max()) + 1, **preset.hyper)
    return model.to(device), data, replace(preset.train, epochs=epochs, patience=None)


def milliseconds(name: str, device: str, epochs: int) -> float:
    """Mean time of an epoch in the second half of a training."""
    seconds = gread.fit(*prepared(name, device, epochs)).seconds
    if len(seconds) < epochs:
        raise ArithmeticError(f"{name} diverged after {len(seconds)} of {epochs} epochs")
    return 1000 * fmean(seconds[epochs // 2 :])


def table(names: Sequence[str], device: str, epochs: int) -> list[str]:
    """Lines of the table, one per dataset."""
    lines = ["| dataset | published code ms | gread ms | ratio |", "| --- | ---: | ---: | ---: |"]
    for name in names:
        ours = milliseconds(name, device, epochs)
        known = PUBLISHED[name]
        lines.append(f"| {name} | {known:.1f} | {ours:.2f} | {known / ours:.1f} |")
        print(f"{name}: {ours:.2f} ms", flush=True)
    return lines


def kernels(name: str, device: str, epochs: int, count: int) -> list[str]:
    """Table of the slowest kernels; their times include all work before the first epoch."""
    model, data, config = prepared(name, device, epochs)
    on_gpu = torch.device(device).type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    gread.fit(model, data, replace(config, epochs=6))  # compiles the kernels
    with profile(activities=activities) as found:
        gread.fit(model, data, config)
    lines = ["| kernel | ms per epoch | launches per epoch |", "| --- | ---: | ---: |"]
    events = found.key_averages()
    taken = {e: e.self_device_time_total if on_gpu else e.self_cpu_time_total for e in events}
    for event in sorted(taken, key=lambda e: -taken[e])[:count]:
        each = taken[event] / 1000 / epochs
        lines.append(f"| `{event.key[:70]}` | {each:.3f} | {event.count / epochs:.1f} |")
    return lines


def main() -> None:
    """Measure the given datasets, and print a table or the slowest kernels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="DATASET", default=list(PUBLISHED))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--profile", type=int, metavar="K", default=0)
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(PUBLISHED):
        parser.error(f"DATASET must be one of {', '.join(PUBLISHED)}, got {', '.join(unknown)}")
    for subject, value in machine(chosen.device).items():
        print(f"- {subject}: {value}")
    if not chosen.profile:
        print("\n".join(table(chosen.names, chosen.device, chosen.epochs)))
        return
    for name in chosen.names:
        print(f"\n{name}\n")
        print("\n".join(kernels(name, chosen.device, chosen.epochs, chosen.profile)), flush=True)


if __name__ == "__main__":
    main()
