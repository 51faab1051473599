"""Runs whose graph is sharded over processes, see `gread.distributed`."""

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
"""Number of restarts of local processes after one has died."""


@dataclass(frozen=True)
class ShardedTraining:
    """Training of a model on the shards of a graph.

    Attributes:
        folder: Folder of the shards.
        spec: Spec of the training, with all hyperparameters.
        checkpoint: File to resume an interrupted training from.
        imports: Modules that every process imports first.
    """

    folder: Path
    spec: RunSpec
    checkpoint: Path
    imports: Sequence[str] = ()


def compute(training: ShardedTraining, device: str) -> list[ShardFit]:
    """Train in all processes of the current group, or in new processes; return all results."""
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
    """Train in one process."""
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
    """Folder with one shard per process, and the fingerprint of the graph.

    Only process 0 loads the graph; it writes missing shards.
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
            if not folder.exists():  # another command may have written it
                raise
        return fingerprint

    fingerprint = agreed(fail_together(written))
    return root / "blocks" / f"{fingerprint}-{processes}", fingerprint


def started_as() -> int | None:
    """Number of processes started by torchrun; None if its variables are not set."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    given = os.environ["WORLD_SIZE"]
    if not given.isdigit():
        raise InputError(f"WORLD_SIZE must be the number of started processes, got {given!r}")
    return int(given)


@contextmanager
def joined_if_started(device: str) -> Iterator[None]:
    """Context manager that joins the process group of torchrun, if there is one."""
    if started_as() is None:
        yield
        return
    choose_gpu(device, int(os.environ.get("LOCAL_RANK", "0")))
    with process_group(device, seconds=SECONDS):
        yield


def cost(found: Sequence[ShardFit]) -> str:
    """Cost of the exchange as a sentence."""
    halos = [one.halo for one in found]
    share = max(one.waited / max(one.seconds, 1e-9) for one in found)
    sent = sum(one.sent for one in found) / max(1, found[0].computed) / 1e6
    return (
        f"{len(found)} processes: halos of {min(halos):,} to {max(halos):,} nodes, {sent:.2f} MB "
        f"sent an epoch, {share:.0%} of the time waiting for others"
    )
