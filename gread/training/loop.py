"""One epoch: a step on the training nodes, then the metric on all sets of nodes.

The same loop trains a model on a whole graph or its parts (`gread.training.fit`), the members of a
population (`gread.training.population`), and a model over processes that each hold a shard
(`gread.distributed.fit`). They differ in the pieces that give outputs, and in the `Reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gread.base.errors import InputError
from gread.dynamics.integrate import finite
from gread.kernels.backend import available, backend_for, fast
from gread.kernels.cuda_graph import side_by_side, values_can_be_read
from gread.training.config import TrainConfig
from gread.training.direct import DirectModel
from gread.training.losses import IN_ONE_PASS, LOSSES, in_one_pass
from gread.training.metrics import METRICS, WHOLE, Predictions, Reduction, metric_of
from gread.training.optimizer import LaunchedAdam, MemberAdam

EPOCHS_AT_ONCE = 20
"""Epochs that a GPU computes between two reads of the numbers: each read waits for the device, and
for every process that shares it."""

IN_ONE_LAUNCH = ("cuda",)
"""Types of devices on which `Best` compares and copies with kernels."""

NOT_FINITE = "the loss is not finite: choose a smaller lr"


@dataclass(frozen=True)
class Epoch:
    """One epoch: the loss of its step; then the metric on each set, and the validation loss."""

    number: int
    loss: float
    train: float
    val: float
    test: float
    val_loss: float


@dataclass(frozen=True)
class Fit:
    """The result of a training.

    Attributes:
        best: The epoch with the best validation metric, the earliest on ties; its ``test`` is the
            number to report.
        history: All epochs.
        diverged: Reason why training ended early, if the model diverged; otherwise empty.
        seconds: Duration of every epoch, on a GPU the mean over those between two reads of the
            numbers; empty if several trainings, or several processes, shared an epoch.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> found = gread.fit(gread.GREAD(2, 4, 2), data, gread.TrainConfig(epochs=3))
        >>> len(found.history), found.best.val == max(epoch.val for epoch in found.history)
        (3, True)
    """

    best: Epoch
    history: tuple[Epoch, ...]
    diverged: str = ""
    seconds: tuple[float, ...] = field(default=(), compare=False)


class Nodes(NamedTuple):
    """Nodes that count in a loss.

    Attributes:
        places: Their indices in a piece, [n]; None if all nodes are used.
        weight: Weight of each node, [n], or [members, N]; None if all weights are 1.
        size: Σ of the weights over all pieces and processes.
    """

    places: Tensor | None
    weight: Tensor | None
    size: Tensor

    @staticmethod
    def of(weight: Tensor, size: Tensor, whole: bool = False) -> Nodes:
        """Select nodes by their weights [N]; all if ``whole``, or with weights [members, N]."""
        if whole or weight.dim() > 1:
            return Nodes(None, weight, size)
        places = weight.nonzero().squeeze(1)
        chosen = weight[places]
        return Nodes(places, None if (chosen == 1).all() else chosen, size)


class Piece(NamedTuple):
    """Nodes of one forward pass: a graph, a part or a shard.

    Attributes:
        outputs: The forward pass, [..., N, k].
        y: Targets of its nodes.
        weight: Weight of each node in training, validation and test, [..., 3, N].
        factor: Factor of each node's weight in the loss, [N]; None if all are 1.
        trains: Whether it takes part in a step.
    """

    outputs: Callable[[], Tensor]
    y: Tensor
    weight: Tensor
    factor: Tensor | None = None
    trains: bool = True

    def loss_weight(self) -> Tensor:
        """Weight of each node in the loss on training and validation nodes, [..., 2, N]."""
        weight = self.weight[..., :2, :]
        return weight if self.factor is None else weight * self.factor


class Epochs:
    """Computation of epochs.

    The evaluation of an epoch and the gradients of the next need the same parameters. A GPU
    computes both at the same time if it can: the next step is then already ``learned``.

    Args:
        model: Model to train.
        pieces: Pieces with the outputs of the model; their gradients are added before a step.
        config: Training settings with loss and metric.
        optimizer: Optimizer of the model.
        best: Storage of the best state; None if the caller keeps it, from the numbers of every
            epoch.
        reduction: Reduction of sums over processes.
        direct: The same model without autograd, if it has the standard form.
    """

    def __init__(
        self,
        model: nn.Module,
        pieces: Sequence[Piece],
        config: TrainConfig,
        optimizer: torch.optim.Optimizer | MemberAdam | LaunchedAdam,
        best: Best | None = None,
        reduction: Reduction = WHOLE,
        direct: DirectModel | None = None,
    ):
        self.direct = direct
        self.model, self.optimizer, self.best = model, optimizer, best
        self.parameters, self.buffers = list(model.parameters()), list(model.buffers())
        self.pieces, self.reduction = pieces, reduction
        self.loss, self.metric = LOSSES[config.loss], metric_of(config)
        self.scores = direct.scores if direct and self.metric is METRICS["accuracy"] else None
        self.y = _joined([piece.y for piece in pieces], 0)
        self.weight = _joined([piece.weight for piece in pieces], -1)
        self.size = reduction.total(self.weight.sum(-1))
        weights = [piece.loss_weight() for piece in pieces]
        weight = _joined(weights, -1)
        train, val = reduction.total(weight.sum(-1)).to(weight.dtype).unbind(-1)
        whole = self.loss is LOSSES["cross-entropy"] and self.weight.device.type in IN_ONE_PASS
        self.steps = [
            (one, Nodes.of(own[..., 0, :], train, whole))
            for one, own in zip(pieces, weights, strict=True)
            if one.trains
        ]
        self.validation = Nodes.of(weight[..., 1, :], val, whole)
        self.counts = torch.cat([self.size, val.unsqueeze(-1)], -1)
        self.evaluated = whole and reduction is WHOLE and self.metric is METRICS["accuracy"]
        launched = isinstance(optimizer, LaunchedAdam)
        self.ahead = launched and reduction is WHOLE and direct is None
        self.learned = False
        self.next_loss: Tensor | None = None  # always the same memory, for CUDA graphs

    @torch.no_grad()
    def check(self) -> None:
        """Require targets that fit the model, and sets on which the metric is defined."""
        outputs = self.outputs()
        counted = self.y[(self.weight > 0).flatten(0, -2).any(0)]
        fault = self.loss.fault_of(counted, outputs.size(-1))
        if self.reduction.total(self.size.new_tensor(float(bool(fault)))) > 0:
            raise InputError(fault or "y must be valid on every process, got an invalid one")
        undefined = ~self.values(outputs).isfinite().all() & outputs.isfinite().all()
        if self.reduction.total(undefined.to(self.size.dtype)) > 0:
            raise InputError(
                "the metric must be defined on the nodes of every set, got one with too few "
                "different targets"
            )

    def __call__(self) -> Tensor:
        """Compute one epoch: loss, metric on the three sets, validation loss, [members, 5]."""
        if self.learned and self.next_loss is not None:
            loss = self.next_loss
        else:
            before = self._written()
            loss = self._learn()
            # An evaluation reads what this pass has written, such as running statistics.
            self.ahead &= before == self._written()
        self.optimizer.step()
        # An error of the next step would hide the numbers of this epoch, so it must not raise any.
        self.learned = self.ahead and not values_can_be_read()
        if not self.learned:
            return self._numbers(loss)
        numbers, following = side_by_side(partial(self._numbers, loss), self._learn)
        self.model.eval()  # as after any epoch
        if self.next_loss is None:
            self.next_loss = torch.empty_like(following)
        self.next_loss.copy_(following)
        return numbers

    def _written(self) -> list[int]:
        """Number of writes to each buffer."""
        return [buffer._version for buffer in self.buffers]

    def continue_from(self, before: Epochs, members: Tensor) -> None:
        """Take over the prepared step of ``before`` for the remaining ``members``."""
        self.learned = before.learned
        if before.next_loss is not None:
            self.next_loss = before.next_loss[members]

    def _numbers(self, loss: Tensor) -> Tensor:
        """Evaluate, and keep the best state."""
        numbers = self._evaluate(loss)
        numbers = numbers if numbers.dim() > 1 else numbers.unsqueeze(0)
        if self.best is not None:
            self.best.look(numbers)
        return numbers

    def _learn(self) -> Tensor:
        """Compute the gradients of a step, and return the loss."""
        if self.direct is None:
            self.model.train()
        for parameter in self.parameters:
            parameter.grad = None
        losses = [self._learn_piece(piece, nodes) for piece, nodes in self.steps]
        self.reduction.add_gradients(self.parameters)
        if isinstance(self.optimizer, LaunchedAdam):
            self.optimizer.take()
        return sum(losses[1:], losses[0])

    def _learn_piece(self, piece: Piece, nodes: Nodes) -> Tensor:
        """Add the gradient of a piece, and return its loss."""
        if self.direct is not None:
            loss = self.direct.learn()
            if math.isfinite(loss):
                return loss
            self.model.train()  # the model reports the time at which its state overflowed
        loss = self._loss(_precise(piece.outputs()), piece.y, nodes)
        loss.sum().backward()
        return loss.detach()

    @torch.no_grad()
    def _evaluate(self, loss: Tensor) -> Tensor:
        if self.scores is not None:
            scores = self.scores()
            if math.isfinite(scores.sum()):
                return torch.cat([loss.view(1), scores])
        outputs = self.outputs()
        if self.evaluated and in_one_pass(outputs, self.weight):
            sets, val = self.weight, self.validation.weight
            assert val is not None  # a kernel processes all nodes
            sums = backend_for(outputs).score(outputs, None, self.y, sets, val)
            return torch.cat([loss.unsqueeze(-1), sums / self.counts], -1)
        val_loss = self._loss(outputs, self.y, self.validation)
        # argmax returns a class for NaN too, so metrics of NaN must be set to NaN.
        no_number = 0 * outputs.amax((-2, -1))
        sums = self.reduction.total(torch.stack([loss, val_loss, no_number], -1))
        loss, val_loss, no_number = sums.split(1, -1)
        return torch.cat([loss, self.values(outputs) + no_number, val_loss], -1)

    def outputs(self) -> Tensor:
        """Outputs of all pieces in evaluation mode, [..., N, k]."""
        if self.direct is not None:
            found = self.direct.outputs()
            if finite(found):
                return found
        self.model.eval()
        return _joined([_precise(piece.outputs()) for piece in self.pieces], -2)

    def values(self, outputs: Tensor) -> Tensor:
        """The metric on the three sets, [..., 3]."""
        scores = self.loss.scores(outputs)
        return self.metric.of(Predictions(scores, self.y, self.weight, self.size, self.reduction))

    def _loss(self, outputs: Tensor, y: Tensor, nodes: Nodes) -> Tensor:
        """The loss of some nodes; those of all pieces add up to the mean over all nodes."""
        if nodes.places is not None:
            outputs, y = outputs.index_select(-2, nodes.places), y.index_select(0, nodes.places)
        return self.loss.sum(outputs, y, nodes.weight) / nodes.size


def precision(dtype: torch.dtype) -> torch.dtype:
    """Type of losses and metrics of a model with this type: at least single precision."""
    return torch.promote_types(dtype, torch.float32)


def _precise(outputs: Tensor) -> Tensor:
    return outputs.to(precision(outputs.dtype))


def _joined(tensors: list[Tensor], dim: int) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim)


def several(epoch: Callable[[], Tensor], count: int) -> list[list[list[float]]]:
    """Compute several epochs: loss, metrics and validation loss of every member."""
    numbers = torch.stack([epoch().clone() for _ in range(count)], 1)
    found: list[list[list[float]]] = numbers.tolist()  # the only wait for the device
    return found


class Progress:
    """Progress of one training, which determines its end."""

    def __init__(self, config: TrainConfig):
        self.config = config
        self.sign = metric_of(config).sign
        self.history: list[Epoch] = []
        self.best: Epoch | None = None
        self.diverged = ""

    @property
    def done(self) -> bool:
        """Whether training is over."""
        number, patience = len(self.history), self.config.patience
        if self.diverged or number == self.config.epochs:
            return True
        if patience is None or self.best is None:
            return False
        return number - 1 - self.best.number >= patience

    def add(self, loss: float, train: float, val: float, test: float, val_loss: float) -> Epoch:
        """Add an epoch."""
        epoch = Epoch(len(self.history), loss, train, val, test, val_loss)
        self.history.append(epoch)
        if self.best is None or self.sign * epoch.val > self.sign * self.best.val:
            self.best = epoch
        return epoch

    def follow(
        self, numbers: Iterable[Sequence[float]], explain: Callable[[], ArithmeticError]
    ) -> list[Epoch]:
        """Add epochs until training is over, and return them.

        Args:
            numbers: Numbers of every epoch.
            explain: Function that returns the reason why the numbers of an epoch are not finite.
        """
        added = []
        for found in numbers:
            if self.done:
                break
            if all(map(math.isfinite, found)):
                added.append(self.add(*found))
            else:
                self.diverge(explain())
        return added

    def diverge(self, error: ArithmeticError) -> None:
        """End training because the next epoch diverged; raise if it is the first."""
        if self.best is None:
            raise error
        self.diverged = f"epoch {len(self.history)}: {error}"

    def fit(self) -> Fit:
        """The result of the training."""
        assert self.best is not None  # there is at least one epoch
        return Fit(self.best, tuple(self.history), self.diverged)


class Best:
    """The best state of every member by validation, kept without reading numbers.

    It follows the rules of `Progress`, for all members at once and on their device.

    Args:
        kept: Tensors for the best state, with a leading axis of members if there are several.
        state: Corresponding tensors of the model in training.
        configs: Training settings of each member.
        device: Device of the numbers.
    """

    def __init__(
        self,
        kept: Iterable[Tensor],
        state: Iterable[Tensor],
        configs: Sequence[TrainConfig],
        device: torch.device,
    ):
        self.kept, self.state = list(kept), list(state)
        self.sign = metric_of(configs[0]).sign
        count, never = len(configs), max(config.epochs for config in configs) + 1
        patience = [never if c.patience is None else c.patience for c in configs]
        self.limits = torch.tensor([[c.epochs for c in configs], patience], device=device)
        self.epoch = torch.zeros(count, dtype=torch.int64, device=device)
        self.number = torch.zeros(count, dtype=torch.int64, device=device)
        self.val = torch.full((count,), -torch.inf, dtype=torch.float64, device=device)
        self.running = torch.ones(count, dtype=torch.bool, device=device)
        self._prepare()

    def _prepare(self) -> None:
        """Prepare the kernel that copies all tensors."""
        self.kernels: Any = None
        if self.epoch.device.type in IN_ONE_LAUNCH and fast():
            found: Any = available(self.epoch.device.type)
            alike = all(
                a.is_contiguous() and b.is_contiguous() and a.dtype == b.dtype
                for a, b in zip(self.kept, self.state, strict=True)
            )
            if alike and not isinstance(found, Exception):
                self.kernels = found
                self.keeper = found.Keeper(self.kept, self.state, len(self.epoch))

    @torch.no_grad()
    def look(self, numbers: Tensor) -> None:
        """Update with the numbers [members, 5] of an epoch."""
        if self.kernels is not None:
            known = self.val, self.number, self.epoch, self.running
            self.keeper(self.kernels.look(numbers, self.sign, self.limits, *known))
            return
        epochs, patience = self.limits
        self.running &= numbers.isfinite().all(-1)
        val = self.sign * numbers[:, 2]
        better = self.running & (val > self.val)
        if better.is_cuda or better.any():  # reading the value is free on a CPU
            self.val.copy_(torch.where(better, val, self.val))
            self.number.copy_(torch.where(better, self.epoch, self.number))
            every = not better.is_cuda and bool(better.all())
            for kept, now in zip(self.kept, self.state, strict=True):
                each = (-1, *(1,) * (now.dim() - 1))[: now.dim()]
                kept.copy_(now if every else torch.where(better.view(each), now, kept))
        self.running &= self.epoch - self.number < patience
        self.epoch += 1
        self.running &= self.epoch < epochs

    def keep(self, members: Sequence[int]) -> None:
        """Drop all other members, whose states have already been dropped."""
        index = torch.tensor(members, device=self.epoch.device)
        self.limits = self.limits[:, index]
        for name in ("epoch", "number", "val", "running"):
            setattr(self, name, getattr(self, name)[index])
        self._prepare()
