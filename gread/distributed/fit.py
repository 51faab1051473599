"""Algorithm 1 of the paper where every process holds a shard of the graph.

Each computes the loss of its own nodes; gradients and accuracies are added up, so all processes
take the same step and stop at the same time. `gread.training.fit.fit` gives the same numbers.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.distributed.exchange import fail_together, processes, rank, total
from gread.distributed.shards import Shard
from gread.training.config import TrainConfig
from gread.training.fit import Epoch, Fit, Progress, adam

EVERY = 10
"""Epochs between checkpoints, if nobody says."""


@dataclass(frozen=True)
class Spread:
    """What a training over several processes gave, and what it cost this one.

    Attributes:
        fit: The epochs.
        computed: How many of them: those of a checkpoint were computed before.
        seconds: How long these took, checkpoints included.
        waited: Seconds of these in which the process waited for others, see `Traffic`.
        sent: Bytes of rows sent to others.
        exchanges: How often rows were exchanged.
        halo: Nodes of others that its own see.
    """

    fit: Fit
    computed: int
    seconds: float
    waited: float
    sent: int
    exchanges: int
    halo: int


def fit_shard(
    model: nn.Module,
    shard: Shard,
    config: TrainConfig = TrainConfig(),
    *,
    split: int = 0,
    seed: int = 0,
    checkpoint: Path | None = None,
    every: int = EVERY,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Spread:
    """Trains ``model`` on one split and leaves it with the best parameters, on every process.

    Args:
        model: As in `gread.fit`, on the device of the shard; the same on every process. All it
            knows of other nodes it must know through the operator: so every GREAD is.
        shard: The shard of this process.
        config: How to train.
        split: Which split.
        seed: Of the dropout, which every process draws for its own nodes.
        checkpoint: A file that process 0 writes now and then. If it is there, training goes on from
            it and gives the numbers that it would have given without a stop.
        every: Epochs between two checkpoints.
        on_epoch: Called after every epoch.
    """
    check_count("every", every)
    check_count("split", split, minimum=0)
    if split >= shard.sizes.splits:
        raise InputError(f"split must be below {shard.sizes.splits}, got {split}")
    for parameter in model.parameters():  # equal already, but for unlike machines
        if dist.is_initialized():
            dist.broadcast(parameter.data, 0)
    epochs = _Epochs(model, shard, config, split)
    traffic = shard.border.traffic
    sent, exchanges, waited = traffic.sent, traffic.exchanges, traffic.waited
    progress = Progress(config)
    best = copy.deepcopy(model.state_dict())
    about = {
        "fingerprint": shard.sizes.fingerprint,
        "processes": processes(),
        "split": split,
        "seed": seed,
        # It may be longer the second time.
        "train": asdict(config) | {"epochs": 0, "patience": None, "processes": 1},
    }
    if checkpoint is not None:
        best = _resume(checkpoint, about, model, epochs.optimizer, progress) or best
    random, first = _generator(shard.x.device), len(progress.history)
    start = time.perf_counter()
    while not progress.done:
        number = len(progress.history)
        # From the number of the epoch, so that a training that goes on draws what it would have.
        random.manual_seed((seed * 1_000_003 + number) * processes() + rank())
        try:
            epoch = progress.add(*epochs.read(epochs.numbers()))
        except ArithmeticError as error:
            progress.diverge(error)
            break
        if on_epoch is not None:
            on_epoch(epoch)
        if progress.best is epoch:
            best = copy.deepcopy(model.state_dict())
        if checkpoint is not None and (progress.done or (number + 1) % every == 0):
            _save(checkpoint, about, model, epochs.optimizer, progress, best)
    model.load_state_dict(best)
    return Spread(
        progress.fit(),
        len(progress.history) - first,
        time.perf_counter() - start,
        traffic.waited - waited,
        traffic.sent - sent,
        traffic.exchanges - exchanges,
        shard.border.halo,
    )


def _generator(device: torch.device) -> torch.Generator:
    """From which dropout draws; torch.manual_seed takes milliseconds for devices there are not."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index]
    return torch.default_generator


class _Epochs:
    """What an epoch is: a step on the training nodes of all, then the accuracies."""

    def __init__(self, model: nn.Module, shard: Shard, config: TrainConfig, split: int):
        self.model, self.shard = model, shard
        self.chosen = shard.masks[:, :, split].to(shard.x.dtype)
        self.sizes = total(self.chosen.sum(1).double())
        for name, size in zip(("train", "val", "test"), self.sizes.tolist(), strict=True):
            if not size:
                raise InputError(f"{name}_mask must choose a node, got none in split {split}")
        used = shard.masks[:, :, split].any(0)
        bad = used & ((shard.y < 0) | (shard.y >= shard.sizes.classes))
        if total(bad.sum()).item():
            raise InputError(f"y must name classes 0 to {shard.sizes.classes - 1}, got others")
        self.nodes = [mask.nonzero().squeeze(1) for mask in self.chosen[:2]]
        self.optimizer = adam(model, config, shard.x.device)

    def read(self, found: Tensor) -> list[float]:
        """The numbers of an epoch, which are those of all processes."""
        numbers: list[float] = found.tolist()
        if not all(map(math.isfinite, numbers)):
            raise ArithmeticError("the loss is not finite: choose a smaller lr")
        return numbers

    def numbers(self) -> Tensor:
        """Loss, accuracy on the three sets of nodes, and loss on the second."""
        self.model.train()
        self.optimizer.zero_grad()
        loss = self._loss(self.model(self.shard.x, self.shard), 0)
        loss.backward()
        self._add_gradients()
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            logits = self.model(self.shard.x, self.shard)
            highest, classes = logits.max(dim=-1)
            right = (classes == self.shard.y).to(self.chosen.dtype)
            # NaN has a largest class too; its accuracies must not pass for numbers.
            right = (self.chosen @ right + 0 * highest.sum()).double() / self.sizes
            losses = loss.detach().double().view(1), self._loss(logits, 1).double().view(1)
        return self.shard.border.total(torch.cat([losses[0], right, losses[1]]))

    def _loss(self, logits: Tensor, which: int) -> Tensor:
        """Of own nodes, so that those of all processes add up to the mean over all nodes."""
        nodes = self.nodes[which]
        labels = self.shard.y.index_select(0, nodes)
        summed = cross_entropy(logits.index_select(0, nodes), labels, reduction="sum")
        return summed / self.sizes[which].to(summed.dtype)

    def _add_gradients(self) -> None:
        """Of all processes, in one message."""
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = self.shard.border.total(torch.cat([grad.flatten() for grad in grads]))
        for grad, whole in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            grad.copy_(whole.view_as(grad))


def _save(
    path: Path,
    about: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    best: dict[str, Any],
) -> None:
    """Whole or not at all; process 0 writes."""
    if rank():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    torch.save(
        {
            "about": about,
            "history": [list(asdict(epoch).values())[1:] for epoch in progress.history],
            "model": model.state_dict(),
            "best": best,
            "optimizer": optimizer.state_dict(),
        },
        unfinished,
    )
    unfinished.replace(path)


def _resume(
    path: Path,
    about: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
) -> dict[str, Any] | None:
    """Goes on from a checkpoint that process 0 reads for all; the best parameters, or None."""
    kept: list[Any] = [fail_together(lambda: _read(path, about))]
    if dist.is_initialized():
        dist.broadcast_object_list(kept, 0)
    found = kept[0]
    if not found:
        return None
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    for numbers in found["history"]:
        progress.add(*numbers)
    return cast(dict[str, Any], found["best"])


def _read(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint, or nothing where there is none."""
    if rank() or not path.exists():
        return {}
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        known = found["about"]
    except Exception as error:  # whatever a broken file makes of the reader
        raise InputError(f"{path} must be a checkpoint of gread, got something else") from error
    if known["processes"] != about["processes"]:
        raise InputError(
            f"{path} is of a training over {known['processes']} processes, got "
            f"{about['processes']}: start {known['processes']}, or remove it to begin anew"
        )
    for name, value in about.items():
        if known.get(name) != value:
            raise InputError(
                f"{path} must be of this training, got one with another {name} "
                f"({known.get(name)}, not {value})"
            )
    return cast(dict[str, Any], found)
