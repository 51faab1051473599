"""What the processes of the tests do: functions of a module, so that a process can import them."""

from pathlib import Path
from typing import Any

import torch

import gread
from gread.distributed import fit_shard, read_shard
from gread.training import TrainConfig


def settings() -> list[dict[str, Any]]:
    """Every reaction with every adjacency and three solvers."""
    return [
        {"reaction": reaction, "adjacency": adjacency, "solver": solver}
        for reaction in gread.REACTIONS
        for adjacency in ("original", "soft")
        for solver in ("euler", "rk4", "dopri5")
    ]


def build(features: int, classes: int, **hyper: Any) -> gread.GREAD:
    torch.manual_seed(0)
    about = {"time": 1.2, "step_size": 0.5, "input_dropout": 0.0, "attention_channels": 8}
    about["tolerance"] = 1e-3
    about["beta"] = "positive-vector"  # a negative one lets some reactions blow up
    return gread.GREAD(features, 8, classes, **about | hyper)


def losses(folder: Path, hypers: list[dict[str, Any]], epochs: int) -> list[list[float]]:
    """The losses of all epochs for each of many settings."""
    torch.set_num_threads(1)
    shard = read_shard(folder)
    return [
        [
            epoch.loss
            for epoch in fit_shard(
                build(shard.sizes.features, shard.sizes.classes, **hyper),
                shard,
                TrainConfig(epochs=epochs),
            ).fit.history
        ]
        for hyper in hypers
    ]
