"""A run whose graph lies on several processes, see `gread.distributed`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.distributed.exchange import joined, rank, together
from gread.distributed.fit import Spread, fit_shard
from gread.distributed.launch import SECONDS, choose_gpu, spread
from gread.distributed.shards import read_shard, shard
from gread.models.catalog import MODELS
from gread.training.config import TrainConfig

T = TypeVar("T")

RESTARTS = 3
"""How often processes on this machine start again after one has died."""


@dataclass(frozen=True)
class Job:
    """A training on blocks.

    Attributes:
        folder: Of the blocks.
        model: A name of ``gread.MODELS``.
        hyper: All its hyperparameters, ``hidden_channels`` among them.
        train: How to train.
        split: Which split.
        seed: Where the random numbers start.
        checkpoint: From where a training goes on that was stopped.
        imports: Modules that every process imports first.
    """

    folder: Path
    model: str
    hyper: Mapping[str, Any]
    train: TrainConfig
    split: int
    seed: int
    checkpoint: Path
    imports: Sequence[str] = ()


def compute(job: Job, device: str) -> list[Spread]:
    """What every process found: of those that are joined already, else of new ones."""
    if not MODELS[job.model].shardable:
        raise InputError(
            f"processes must be 1 for {job.model}: of all models, those of GREAD alone know other "
            f"nodes through one operator, got {job.train.processes}"
        )
    if dist.is_initialized():
        found: list[Any] = [None] * job.train.processes
        dist.all_gather_object(found, _train(job, device))
        return found
    return spread(
        _train,
        (job, device),
        processes=job.train.processes,
        device=device,
        restarts=RESTARTS,
    )


def _train(job: Job, device: str) -> Spread:
    """What a process does."""
    for module in job.imports:
        importlib.import_module(module)
    place = f"cuda:{torch.cuda.current_device()}" if device.startswith("cuda") else device
    part = read_shard(job.folder, place)
    torch.manual_seed(job.seed)
    hyper = dict(job.hyper)
    model = MODELS[job.model].make(
        part.sizes.features,
        hyper.pop("hidden_channels"),
        part.sizes.classes,
        num_nodes=part.sizes.nodes,
        **hyper,
    )
    return fit_shard(
        model.to(place),
        part,
        job.train,
        split=job.split,
        seed=job.seed,
        checkpoint=job.checkpoint,
    )


def blocks_of(load: Callable[[], tuple[Data, str]], processes: int, root: Path) -> tuple[Path, str]:
    """The folder of a graph in so many blocks, and the fingerprint of the graph.

    Process 0 alone loads the graph, and writes the blocks if they are not there.
    """

    def written() -> str:
        if rank():
            return "of process 0"
        data, fingerprint = load()
        folder = root / "blocks" / f"{fingerprint}-{processes}"
        try:
            if not folder.exists():
                shard(data, folder, processes)
        except (InputError, OSError):
            if not folder.exists():  # else another command has just written it
                raise
        return fingerprint

    fingerprint = agreed(together(written))
    return root / "blocks" / f"{fingerprint}-{processes}", fingerprint


def started_as() -> int | None:
    """How many processes torchrun, or who else sets its variables, has started; None if nobody."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    said = os.environ["WORLD_SIZE"]
    if not said.isdigit():
        raise InputError(f"WORLD_SIZE must be how many processes were started, got {said!r}")
    return int(said)


@contextmanager
def joined_if_started(device: str) -> Iterator[None]:
    """One of the processes that torchrun has started, if it has."""
    if started_as() is None:
        yield
        return
    choose_gpu(device, int(os.environ.get("LOCAL_RANK", "0")))
    with joined(device, seconds=SECONDS):
        yield


def agreed(value: T) -> T:
    """What process 0 says, on all."""
    said = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(said, 0)
    return said[0]


def cost(found: Sequence[Spread]) -> str:
    """What the exchange of rows cost, in a sentence."""
    halos = [one.halo for one in found]
    share = max(one.waited / max(one.seconds, 1e-9) for one in found)
    sent = sum(one.sent for one in found) / max(1, found[0].computed) / 1e6
    return (
        f"{len(found)} processes: halos of {min(halos):,} to {max(halos):,} nodes, {sent:.2f} MB "
        f"sent an epoch, {share:.0%} of the time waiting for others"
    )
