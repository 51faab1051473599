"""A run whose graph is sharded over processes, see `gread.distributed`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.distributed.exchange import agreed, fail_together, on_all, process_group, rank
from gread.distributed.fit import ShardFit, fit_shard
from gread.distributed.launch import SECONDS, choose_gpu, run_processes
from gread.distributed.shards import read_shard, shard
from gread.models.catalog import MODELS
from gread.runs.spec import RunSpec
from gread.training.losses import LOSSES

RESTARTS = 3
"""How often processes on this machine start again after one has died."""


@dataclass(frozen=True)
class ShardedTraining:
    """A training of one model on the shards of a graph.

    Attributes:
        folder: Of the shards.
        spec: What to train, with all hyperparameters.
        checkpoint: From where a training goes on that was stopped.
        imports: Modules that every process imports first.
    """

    folder: Path
    spec: RunSpec
    checkpoint: Path
    imports: Sequence[str] = ()


def compute(training: ShardedTraining, device: str) -> list[ShardFit]:
    """What every process found: of those that are joined already, else of new ones."""
    model, processes = training.spec.model, training.spec.train.processes
    if not MODELS[model].shardable:
        others = ", ".join(name for name, entry in MODELS.items() if entry.shardable)
        raise InputError(
            f"processes must be 1 for {model}, got {processes}: models with multi-process training "
            f"are {others}"
        )
    if dist.is_initialized():
        return on_all(_train(training, device))
    task = _train, (training, device)
    return run_processes(*task, processes=processes, device=device, restarts=RESTARTS)


def _train(training: ShardedTraining, device: str) -> ShardFit:
    """What a process does."""
    for module in training.imports:
        importlib.import_module(module)
    place = f"cuda:{torch.cuda.current_device()}" if device.startswith("cuda") else device
    spec, part = training.spec, read_shard(training.folder, place)
    sizes, hyper = part.sizes, dict[str, Any](spec.hyper)
    torch.manual_seed(spec.seed)
    outputs = LOSSES[spec.train.loss].outputs(sizes.classes)
    channels = sizes.features, hyper.pop("hidden_channels"), outputs
    model = MODELS[spec.model].make(*channels, num_nodes=sizes.nodes, **hyper).to(place)
    checkpoint, split, seed = training.checkpoint, spec.split, spec.seed
    return fit_shard(model, part, spec.train, split=split, seed=seed, checkpoint=checkpoint)


def shards_of(load: Callable[[], tuple[Data, str]], processes: int, root: Path) -> tuple[Path, str]:
    """The folder with one shard of a graph for each process, and the fingerprint of the graph.

    Process 0 alone loads the graph, and writes the shards if they are not there.
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

    fingerprint = agreed(fail_together(written))
    return root / "blocks" / f"{fingerprint}-{processes}", fingerprint


def started_as() -> int | None:
    """Number of processes started by torchrun; None without its variables."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    said = os.environ["WORLD_SIZE"]
    if not said.isdigit():
        raise InputError(f"WORLD_SIZE must be the number of started processes, got {said!r}")
    return int(said)


@contextmanager
def joined_if_started(device: str) -> Iterator[None]:
    """One of the processes that torchrun has started, if it has."""
    if started_as() is None:
        yield
        return
    choose_gpu(device, int(os.environ.get("LOCAL_RANK", "0")))
    with process_group(device, seconds=SECONDS):
        yield


def cost(found: Sequence[ShardFit]) -> str:
    """What the exchange of rows cost, in a sentence."""
    halos = [one.halo for one in found]
    share = max(one.waited / max(one.seconds, 1e-9) for one in found)
    sent = sum(one.sent for one in found) / max(1, found[0].computed) / 1e6
    return (
        f"{len(found)} processes: halos of {min(halos):,} to {max(halos):,} nodes, {sent:.2f} MB "
        f"sent an epoch, {share:.0%} of the time waiting for others"
    )
