"""Algorithm 1 of the paper for a graph that is sharded over processes.

Losses, gradients and metrics are summed over the shards, so all processes take the same step. The
numbers equal those of `gread.training.fit.fit`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.base.files import whole_file
from gread.data.splits import MASKS
from gread.distributed.exchange import Border, agreed, fail_together, processes, rank
from gread.distributed.shards import Shard
from gread.training.config import TrainConfig
from gread.training.loop import NOT_FINITE, Best, Epoch, Epochs, Fit, Piece, Progress, several
from gread.training.optimizer import adam

EVERY = 10  # epochs between checkpoints


@dataclass(frozen=True)
class ShardFit:
    """Result of a training over several processes, with the costs of this process.

    Attributes:
        computed: Number of epochs of ``fit`` computed by this call, without those of a checkpoint.
        seconds: Their duration, including checkpoints.
        waited, sent, exchanges: See `gread.distributed.exchange.Traffic`.
        halo: Number of nodes in the halo of this process.
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
) -> ShardFit:
    """Train ``model`` on one split over several processes and keep its best parameters.

    Args:
        model: Model as in `gread.fit`, on the device of the shard, with the same parameters on
            every process. It must access other nodes only through the operator, as GREAD and
            GREAD-X do.
        shard: Shard of this process.
        config: Training settings.
        split: Number of the split.
        seed: Seed of the dropout, which every process draws for its own nodes.
        checkpoint: File that process 0 writes. If it exists, training resumes from it with the same
            result as an uninterrupted training.
        every: Epochs between two checkpoints.
        on_epoch: Function that is called after every epoch.
    """
    check_count("every", every)
    check_count("split", split, minimum=0)
    if split >= shard.sizes.splits:
        raise InputError(f"split must be below {shard.sizes.splits}, got {split}")
    for tensor in model.state_dict().values():  # equal already, except on different machines
        if dist.is_initialized():
            dist.broadcast(tensor, 0)
    kept = copy.deepcopy(model.state_dict())
    best = Best(kept.values(), model.state_dict().values(), [config], shard.x.device)
    weight = shard.masks[:, :, split].to(shard.x.dtype)
    reduction = ShardReduction(shard.border)
    for name, size in zip(MASKS, reduction.total(weight.sum(1)).tolist(), strict=True):
        if not size:
            raise InputError(f"{name} must select a node, got none in split {split}")
    optimizer = adam(model, config)
    piece = Piece(lambda: model(shard.x, shard), shard.y, weight)
    epochs = Epochs(model, [piece], config, optimizer, best, reduction)
    epochs.check()
    traffic = shard.border.traffic
    sent, exchanges, waited = traffic.sent, traffic.exchanges, traffic.waited
    progress = Progress(config)
    about = {
        "fingerprint": shard.sizes.fingerprint,
        "processes": processes(),
        "split": split,
        "seed": seed,
        # The epochs may have been increased since the checkpoint.
        "train": asdict(config) | {"epochs": 0, "patience": None, "processes": 1},
    }
    if checkpoint and (found := agreed(fail_together(lambda: _read(checkpoint, about)))):
        for numbers in found["history"]:
            progress.add(*numbers)
            best.look(torch.tensor([numbers], dtype=torch.float64, device=shard.x.device))
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        for name, tensor in kept.items():
            tensor.copy_(found["best"][name])
    # Only the generator of dropout is seeded: torch.manual_seed takes milliseconds for absent
    # devices.
    device = shard.x.device
    gpu = device.type == "cuda"
    random = torch.cuda.default_generators[device.index] if gpu else torch.default_generator
    first = len(progress.history)
    start = time.perf_counter()
    while not progress.done:
        number = len(progress.history)
        # Seeded by the epoch, so that a resumed training draws the same numbers.
        random.manual_seed((seed * 1_000_003 + number) * processes() + rank())
        try:
            (numbers,) = several(epochs, 1)
        except ArithmeticError as error:
            progress.diverge(error)
            break
        for epoch in progress.follow(numbers, lambda: ArithmeticError(NOT_FINITE)):
            if on_epoch is not None:
                on_epoch(epoch)
        if checkpoint and rank() == 0 and (progress.done or (number + 1) % every == 0):
            content = {
                "about": about,
                "history": [list(asdict(epoch).values())[1:] for epoch in progress.history],
                "model": model.state_dict(),
                "best": kept,
                "optimizer": optimizer.state_dict(),
            }
            with whole_file(checkpoint) as part:
                torch.save(content, part)
    model.load_state_dict(kept)
    computed, seconds = len(progress.history) - first, time.perf_counter() - start
    spent = traffic.waited - waited, traffic.sent - sent, traffic.exchanges - exchanges
    return ShardFit(progress.fit(), computed, seconds, *spent, shard.border.halo)


class ShardReduction(NamedTuple):
    """The reduction of processes that each hold a shard (`gread.training.metrics.Reduction`)."""

    border: Border

    def total(self, sums: Tensor) -> Tensor:
        """Sums over the nodes of all processes, in float64."""
        return self.border.total(sums.double())

    def gathered(self, rows: Tensor) -> Tensor:
        """Rows of all processes, concatenated."""
        if not dist.is_initialized():
            return rows
        sizes = torch.zeros(processes(), dtype=torch.int64, device=rows.device)
        sizes[rank()] = len(rows)
        dist.all_reduce(sizes)
        longest = int(sizes.max())
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        found = rows.new_empty(processes() * longest, *rows.shape[1:])
        dist.all_gather_into_tensor(found, padded)
        pieces = found.view(processes(), longest, *rows.shape[1:])
        return torch.cat([piece[:size] for piece, size in zip(pieces, sizes.tolist(), strict=True)])

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add the gradients of all processes, in one message."""
        grads = [p.grad for p in parameters if p.grad is not None]
        flat = self.border.total(torch.cat([grad.flatten() for grad in grads]))
        for grad, whole in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            grad.copy_(whole.view_as(grad))


def _read(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Read the checkpoint in process 0; empty in other processes, or if there is none."""
    if rank() or not path.exists():
        return {}
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        known = found["about"]
    except Exception as error:  # any error of the reader on a broken file
        raise InputError(f"{path} must be a checkpoint of gread, got something else") from error
    if known["processes"] != about["processes"]:
        raise InputError(
            f"{path} is of a training over {known['processes']} processes, got "
            f"{about['processes']}: start {known['processes']} processes, or remove it to start "
            "over"
        )
    for name, value in about.items():
        if known.get(name) != value:
            raise InputError(
                f"{path} must be of this training, got one with another {name} "
                f"({known.get(name)}, not {value})"
            )
    return cast(dict[str, Any], found)
