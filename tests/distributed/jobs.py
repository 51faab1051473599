"""Functions that processes of the tests run; module-level, so that a process can import them."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import gread
from gread.base.errors import InputError
from gread.distributed.exchange import process_group, rank
from gread.distributed.fit import fit_shard
from gread.distributed.shards import read_shard
from gread.training.config import TrainConfig
from gread.training.losses import LOSSES

ONE_STEP = {"euler": {"time": 0.4}, "rk4": {"time": 0.8}, "dopri5": {"time": 0.2}}
"""Times for which each solver takes one step, because every product is a slow exchange."""

MORE_STEPS = {
    "euler": {"time": 1.2, "step_size": 0.4},
    "rk4": {"time": 1.2, "step_size": 0.8},
    "dopri5": {"time": 1.2, "tolerance": 1e-7},
}


def settings(solver: str, **given: Any) -> list[dict[str, Any]]:
    """Settings of every reaction: with Euler every adjacency, with other solvers one adjacency."""
    adjacencies = ("original", "soft")
    return [
        {"reaction": reaction, "adjacency": adjacency, "solver": solver} | given
        for number, reaction in enumerate(gread.REACTIONS)
        for adjacency in (adjacencies if solver == "euler" else adjacencies[number % 2 :][:1])
    ]


def build(features: int, classes: int, **hyper: Any) -> gread.GREAD:
    torch.manual_seed(0)
    about = {"time": 0.8, "input_dropout": 0.0, "attention_channels": 8, "tolerance": 1e-2}
    about["beta"] = "positive-vector"  # with a negative β some reactions diverge
    return gread.GREAD(features, 8, classes, **about | hyper)


def build_steps(features: int, classes: int, model: str, **hyper: Any) -> torch.nn.Module:
    """Network of steps in float64."""
    torch.manual_seed(0)
    quiet = {"input_dropout": 0.0, "dropout": 0.0, "num_steps": 3} | hyper
    return gread.MODELS[model].make(features, 8, classes, num_nodes=60, **quiet).double()


def fit_steps(
    folder: Path, hypers: list[dict[str, Any]], epochs: int
) -> list[tuple[list[float], dict[str, torch.Tensor]]]:
    """Losses and best parameters of trainings in float64, for each setting."""
    shard = read_shard(folder)
    shard = replace(shard, x=shard.x.double())
    found = []
    for hyper in hypers:
        model = build_steps(shard.sizes.features, shard.sizes.classes, **hyper)
        history = fit_shard(model, shard, TrainConfig(epochs=epochs)).fit.history
        found.append(([epoch.loss for epoch in history], model.state_dict()))
    return found


def refused(folder: Path, hypers: list[dict[str, Any]]) -> list[str]:
    """Errors of models that cannot be trained over processes, for each setting."""
    shard = read_shard(folder)
    said = []
    for hyper in hypers:
        try:
            fit_shard(build_steps(shard.sizes.features, shard.sizes.classes, **hyper), shard)
        except InputError as error:
            said.append(str(error))
    return said


def losses(folder: Path, hypers: list[dict[str, Any]], epochs: int) -> list[list[float]]:
    """Losses of all epochs, for each setting."""
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


def by_metric(folder: Path, pairs: list[tuple[str, str]]) -> list[list[dict[str, float]]]:
    """Epochs of short trainings, for each loss and metric."""
    found = []
    for loss, metric in pairs:
        shard = read_shard(folder / LOSSES[loss].targets)
        model = build(shard.sizes.features, LOSSES[loss].outputs(2))
        config = TrainConfig(epochs=4, loss=loss, metric=metric)
        found.append([vars(epoch) for epoch in fit_shard(model, shard, config).fit.history])
    return found


def logits_and_gradients(
    folder: Path, hypers: list[dict[str, Any]], make: Callable[..., torch.nn.Module] = build
) -> list[tuple[torch.Tensor, list[torch.Tensor]]]:
    """Logits of own nodes and gradients in float64, for each setting."""
    shard = read_shard(folder)
    found = []
    for hyper in hypers:
        model = make(shard.sizes.features, shard.sizes.classes, **hyper).double()
        logits = model(shard.x.double(), shard)
        logits.square().sum().backward()
        found.append((logits.detach(), [parameter.grad for parameter in model.parameters()]))
    return found


def read_all(folders: list[Path]) -> list[str]:
    """Error message of each folder; empty if it can be read."""
    said = []
    for folder in folders:
        try:
            read_shard(folder)
            said.append("")
        except InputError as error:
            said.append(str(error))
    return said


def traffic(folder: Path, hyper: dict[str, Any], epochs: int) -> tuple[int, int, int, int]:
    """Size of the halo, number of sent nodes, bytes sent, and exchanges."""
    shard = read_shard(folder)
    model = build(shard.sizes.features, shard.sizes.classes, **hyper)
    with torch.no_grad():
        model(shard.x, shard)  # degrees of the halo are fetched once
    found = fit_shard(model, shard, TrainConfig(epochs=epochs))
    return found.halo, sum(shard.border.send_counts), found.sent, found.exchanges


def overflow(folder: Path, solver: str) -> None:
    shard = read_shard(folder)
    x = shard.x if rank() else 1e6 * shard.x
    hyper = {"reaction": "ac", "time": 9.0, "solver": solver}
    build(shard.sizes.features, shard.sizes.classes, **hyper)(x, shard)


def fit(folder: Path, checkpoint: Path, epochs: int, on_epoch: Any = None) -> list[float]:
    shard = read_shard(folder)
    model = build(shard.sizes.features, shard.sizes.classes, input_dropout=0.5)
    config = TrainConfig(epochs=epochs)
    found = fit_shard(model, shard, config, checkpoint=checkpoint, every=2, on_epoch=on_epoch)
    return [epoch.loss for epoch in found.fit.history]


def train_and_resume(folder: Path, out: Path) -> tuple[list[float], list[float], list[float]]:
    """Train six epochs at once, and four epochs followed by the rest."""
    through = fit(folder, out / "through", 6)
    return through, fit(folder, out / "checkpoint", 4), fit(folder, out / "checkpoint", 6)


def kill_itself(folder: Path, out: Path, times: int) -> list[float]:
    """Train; process 1 kills itself in the fifth epoch, a given number of times."""

    def on_epoch(epoch: Any) -> None:
        deaths = len(list(out.glob("death-*")))
        if rank() == 1 and epoch.number == 4 and deaths < times:
            (out / f"death-{deaths}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    out.mkdir(exist_ok=True)
    return fit(folder, out / "checkpoint", 6, on_epoch)


def fail(out: Path) -> None:
    """Raise an unexpected error in process 1; all processes leave a file."""
    (out / f"{rank()}-{os.getpid()}").touch()
    if rank() == 1:
        raise LookupError


def stop_answering(folder: Path) -> None:
    read_shard(folder)
    if rank() == 1:
        time.sleep(600)
    torch.distributed.all_reduce(torch.ones(1))


def train_without_launcher(folder: Path, out: Path, number: int, where: str) -> None:
    """Run one of two processes without a launcher; write its connection error to a file."""
    try:
        with process_group("cpu", seconds=20, where=where, rank=number, processes=2):
            fit(folder, out / "checkpoint", 10**6, lambda _: (out / "began").touch())
    except ConnectionError as error:
        (out / f"said-{number}").write_text(str(error))
