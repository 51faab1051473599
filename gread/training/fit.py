"""Algorithm 1 of the paper as a function. It knows no model and no dataset."""

from __future__ import annotations

import copy
import inspect
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.graph.partition import Part, cut
from gread.kernels.backend import fast
from gread.kernels.cuda_graph import Recording
from gread.training.config import TrainConfig

EPOCHS_AT_ONCE = 20
"""So many epochs go by on a GPU before anybody looks at the numbers: each look waits for it, and
where several processes share it also for the others."""


@dataclass(frozen=True)
class Epoch:
    """One epoch: the loss of its step; after it accuracies (0 to 1), and the validation loss."""

    number: int
    loss: float
    train: float
    val: float
    test: float
    val_loss: float


@dataclass(frozen=True)
class Fit:
    """What `fit` found.

    Attributes:
        best: The epoch with the best validation accuracy, the earliest on ties; its ``test`` is
            the number to report.
        history: All epochs.
        diverged: Why training ended early, where the model diverged; else empty.
        seconds: What every epoch took, on a GPU the mean of those that went by before a look at the
            numbers; empty where several trainings, or several processes, shared an epoch.
    """

    best: Epoch
    history: tuple[Epoch, ...]
    diverged: str = ""
    seconds: tuple[float, ...] = field(default=(), compare=False)


def fit(
    model: nn.Module,
    data: Data,
    config: TrainConfig = TrainConfig(),
    *,
    split: int = 0,
    class_weight: Tensor | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Fit:
    """Trains ``model`` on one split of ``data`` and leaves it with the best parameters.

    Paper: Algorithm 1, with the mean cross entropy over the training nodes (Eq. 15 with its sign).
    The epoch is chosen by validation accuracy alone. A model that diverges ends there, with the
    best epoch so far; one that diverges before its first epoch is over raises.

    Args:
        model: Called with ``(x, edge_index, edge_weight)``, gives logits [N, classes]. Tensors of
            ``data`` that are named as keyword-only arguments of its ``forward`` are handed over
            too, of ``train_mask`` the column of the split. If it is a `HasParameterGroups`, it
            says which of its parameters decay.
        data: With ``x, edge_index, y, train_mask, val_mask, test_mask``, masks [N] or [N, splits];
            where it is cut into parts, these go to the device of the model in turn.
        config: How to train.
        split: Which column of the masks.
        class_weight: [classes], how much a node of each class counts in the loss and in the
            accuracies; by default all count alike.
        on_epoch: Called after every epoch, for progress; on a GPU after some, for each of them.

    Example:
        >>> import gread
        >>> data = gread.load("csbm")
        >>> model = gread.GREAD(data.num_features, 8, 2)
        >>> result = gread.fit(model, data, gread.TrainConfig(epochs=5), split=3)
        >>> len(result.history)
        5
    """
    if config.processes > 1:
        raise InputError(
            f"processes must be 1 in gread.fit, which has the whole graph, got {config.processes}: "
            "take gread.distributed.fit_shard"
        )
    masks = masks_of(data, split)
    graph = PartedGraph(model.eval(), data, masks[0], config)
    with torch.no_grad():
        check_labels(graph.logits(graph.parts[0]), data, masks)
    epochs = _Epochs(graph, data, masks, config, class_weight)
    best_state = copy.deepcopy(model.state_dict())
    best = Best(best_state.values(), model.state_dict().values(), [config], graph.device)

    def epoch() -> Tensor:
        numbers = epochs.numbers().unsqueeze(0)
        best.look(numbers)
        return numbers

    recording = Recording(epoch) if data.x.is_cuda and fast() else None
    progress = Progress(config)
    seconds: list[float] = []
    while not progress.done:
        # What is not recorded may raise, after epochs of which nobody has been told.
        recorded = recording is not None and recording.graph is not None
        at_once = min(EPOCHS_AT_ONCE, config.epochs - len(progress.history)) if recorded else 1
        began = time.perf_counter()
        try:
            (block,) = several(recording or epoch, at_once)
            each = (time.perf_counter() - began) / at_once
            for numbers in block:
                if not progress.done:
                    seen = progress.add(*epochs.finite(numbers))
                    seconds.append(each)
                    if on_epoch is not None:
                        on_epoch(seen)
        except ArithmeticError as error:
            progress.diverge(error)
    model.load_state_dict(best_state)
    return replace(progress.fit(), seconds=tuple(seconds))


def several(epoch: Callable[[], Tensor], count: int) -> list[list[list[float]]]:
    """Loss, accuracies and validation loss of so many epochs of every member."""
    numbers = torch.stack([epoch().clone() for _ in range(count)], 1)
    found: list[list[list[float]]] = numbers.tolist()  # the one moment that waits for the device
    return found


@runtime_checkable
class HasParameterGroups(Protocol):
    """A model that does not treat all parameters alike."""

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Groups for an optimizer of PyTorch's, where ``weight_decay`` is that of the training."""


def adam(model: nn.Module, config: TrainConfig, device: torch.device) -> torch.optim.Adam:
    """The optimizer of a training."""
    real = all(parameter.is_floating_point() for parameter in model.parameters())
    return torch.optim.Adam(
        model.parameter_groups(config.weight_decay)
        if isinstance(model, HasParameterGroups)
        else model.parameters(),
        lr=config.lr,
        weight_decay=config.weight_decay,
        fused=fast() and real,  # PyTorch's fused kernel has no complex numbers
        capturable=device.type == "cuda",
    )


class Progress:
    """The epochs of one training, and when it is over."""

    def __init__(self, config: TrainConfig):
        self.config = config
        self.history: list[Epoch] = []
        self.best: Epoch | None = None
        self.diverged = ""

    @property
    def done(self) -> bool:
        """Whether no epoch is to come."""
        number, patience = len(self.history), self.config.patience
        if self.diverged or number == self.config.epochs:
            return True
        if patience is None or self.best is None:
            return False
        return number - 1 - self.best.number >= patience

    def add(self, loss: float, train: float, val: float, test: float, val_loss: float) -> Epoch:
        """One more epoch."""
        epoch = Epoch(len(self.history), loss, train, val, test, val_loss)
        self.history.append(epoch)
        if self.best is None or epoch.val > self.best.val:
            self.best = epoch
        return epoch

    def diverge(self, error: ArithmeticError) -> None:
        """The end, before the epoch that would have been the next; raises if it is the first."""
        if self.best is None:
            raise error
        self.diverged = f"epoch {len(self.history)}: {error}"

    def fit(self) -> Fit:
        """What came of it."""
        assert self.best is not None  # there is at least one epoch
        return Fit(self.best, tuple(self.history), self.diverged)


class Best:
    """The best state of every member by validation, kept without a look at the numbers.

    It follows the rules of `Progress`, for all members at once and on their device.

    Args:
        kept: Where the best state is kept, tensor by tensor, with members in front if they are
            several.
        state: The same tensors as they are trained.
        configs: How each member is trained.
        device: Where the numbers are.
    """

    def __init__(
        self,
        kept: Iterable[Tensor],
        state: Iterable[Tensor],
        configs: Sequence[TrainConfig],
        device: torch.device,
    ):
        self.kept, self.state = list(kept), list(state)
        count, never = len(configs), max(config.epochs for config in configs) + 1
        patience = [never if c.patience is None else c.patience for c in configs]
        self.limits = torch.tensor([[c.epochs for c in configs], patience], device=device)
        self.epoch = torch.zeros(count, dtype=torch.int64, device=device)
        self.number = torch.zeros(count, dtype=torch.int64, device=device)
        self.val = torch.full((count,), -torch.inf, dtype=torch.float64, device=device)
        self.running = torch.ones(count, dtype=torch.bool, device=device)

    @torch.no_grad()
    def look(self, numbers: Tensor) -> None:
        """At the numbers [members, 5] of one more epoch."""
        epochs, patience = self.limits
        self.running &= numbers.isfinite().all(-1)
        better = self.running & (numbers[:, 2] > self.val)
        if better.is_cuda or better.any():  # a CPU is asked at no cost
            self.val.copy_(torch.where(better, numbers[:, 2], self.val))
            self.number.copy_(torch.where(better, self.epoch, self.number))
            for kept, now in zip(self.kept, self.state, strict=True):
                each = (-1, *(1,) * (now.dim() - 1))[: now.dim()]
                kept.copy_(torch.where(better.view(each), now, kept))
        self.running &= self.epoch - self.number < patience
        self.epoch += 1
        self.running &= self.epoch < epochs

    def keep(self, members: Sequence[int]) -> None:
        """Lets all other members go; their states are gone already."""
        index = torch.tensor(members, device=self.epoch.device)
        self.limits = self.limits[:, index]
        for name in ("epoch", "number", "val", "running"):
            setattr(self, name, getattr(self, name)[index])


class PartedGraph:
    """A model on a graph, part by part; the whole graph is one part."""

    def __init__(self, model: nn.Module, data: Data, train_mask: Tensor, config: TrainConfig):
        self.model = model
        self.x = data.x
        self.parts = cut(data, config.parts, config.halo)
        self.extra = inputs_of(model, data, train_mask)
        if config.parts > 1 and (others := set(self.extra) - {"train_mask"}):
            raise InputError(
                f"parts must be 1 for a model that uses {', '.join(sorted(others))}, which is "
                f"known of the whole graph alone, got {config.parts}"
            )
        self.device = next((p.device for p in model.parameters()), data.x.device)

    def logits(self, part: Part) -> Tensor:
        """Of the part's own nodes, [own, classes]."""
        weight = part.edge_weight
        found: Tensor = self.model(
            part.take(self.x).to(self.device),
            part.edge_index.to(self.device),
            None if weight is None else weight.to(self.device),
            **{name: self._share(part, tensor) for name, tensor in self.extra.items()},
        )
        return found[: part.own]

    def _share(self, part: Part, tensor: Tensor) -> Tensor:
        return part.take(tensor).to(self.device)


@torch.no_grad()
def logits_of(model: nn.Module, data: Data, train_mask: Tensor, config: TrainConfig) -> Tensor:
    """What a trained model says of every node, [N, classes], by the parts of ``config``."""
    model.eval()
    graph = PartedGraph(model, data, train_mask, config)
    found = [graph.logits(part).to(data.x.device) for part in graph.parts]
    if len(found) == 1:
        return found[0]
    own = [part.nodes[: part.own] for part in graph.parts if part.nodes is not None]
    return torch.empty_like(torch.cat(found)).index_copy_(0, torch.cat(own), torch.cat(found))


class _Counted(NamedTuple):
    """Whom an epoch looks at in a part.

    Attributes:
        part: The part.
        labels: Classes of its own nodes.
        chosen: How much each of these counts in the three accuracies, [3, own].
        nodes: Those that train and those that validate, by their places.
        shares: Of all that counts in the two losses, this part's.
    """

    part: Part
    labels: Tensor
    chosen: Tensor
    nodes: tuple[Tensor, Tensor]
    shares: tuple[float, float]


class _Epochs:
    """What an epoch is: a step on the training nodes, then the accuracies.

    On a GPU the first few are recorded as one CUDA graph, and the others replay it: launched one
    by one, the kernels of a small graph take longer to start than to run. It is not recorded from
    here: who holds a recording of itself keeps the memory of the graph until Python looks for
    cycles.
    """

    def __init__(
        self,
        graph: PartedGraph,
        data: Data,
        masks: tuple[Tensor, Tensor, Tensor],
        config: TrainConfig,
        class_weight: Tensor | None,
    ):
        self.graph, self.model = graph, graph.model
        self.class_weight = class_weight
        chosen = torch.stack(masks).to(data.x.dtype)
        if class_weight is not None:
            chosen = chosen * class_weight.to(data.x.device)[data.y.clamp(min=0)]
        self.sizes = chosen.sum(1).to(graph.device)
        counted = [self._count(part, data.y, chosen) for part in graph.parts]
        self.counted = [part for part in counted if part.chosen.any()]
        self.optimizer = adam(self.model, config, graph.device)

    def finite(self, numbers: list[float]) -> list[float]:
        """The numbers of an epoch, if all of them are finite."""
        if not all(map(math.isfinite, numbers)):
            for part in self.graph.parts:
                self.graph.logits(part)  # says more, if the state was not finite
            raise ArithmeticError("the loss is not finite: choose a smaller lr")
        return numbers

    def numbers(self) -> Tensor:
        """Loss, accuracy on the three sets of nodes, and loss on the second."""
        self.model.train()
        self.optimizer.zero_grad()
        losses = [self._learn(part) for part in self.counted if part.nodes[0].numel()]
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            seen = [self._look(part) for part in self.counted]
        right, val_losses = zip(*seen, strict=True)
        loss, val_loss = (torch.stack(values).sum().view(1) for values in (losses, val_losses))
        return torch.cat([loss, torch.stack(right).sum(0) / self.sizes, val_loss])

    def _learn(self, counted: _Counted) -> Tensor:
        """Adds the gradient of a part, and gives its loss."""
        loss = self._loss(self.graph.logits(counted.part), counted, 0)
        loss.backward()
        return loss.detach()

    def _look(self, counted: _Counted) -> tuple[Tensor, Tensor]:
        """How many are right in each of the three sets, and the validation loss."""
        logits = self.graph.logits(counted.part)
        highest, classes = logits.max(dim=-1)
        right = (classes == counted.labels).to(counted.chosen.dtype)
        # NaN has a largest class too; its accuracies must not pass for numbers.
        return counted.chosen @ right + 0 * highest.sum(), self._loss(logits, counted, 1)

    def _loss(self, logits: Tensor, counted: _Counted, which: int) -> Tensor:
        """Of a part, so that those of all parts add up to the mean over all nodes."""
        nodes = counted.nodes[which]
        if not nodes.numel():
            return logits.new_zeros(())
        labels = counted.labels.index_select(0, nodes)
        mean = cross_entropy(logits.index_select(0, nodes), labels, self.class_weight)
        return mean * counted.shares[which]

    def _count(self, part: Part, labels: Tensor, chosen: Tensor) -> _Counted:
        device = self.graph.device
        own = part.take(chosen.T)[: part.own].T.contiguous()
        whole = chosen.sum(1)
        train, val = (own[which].nonzero().squeeze(1).to(device) for which in (0, 1))
        shares = [float(own[which].sum() / whole[which]) for which in (0, 1)]
        labels = part.take(labels)[: part.own].to(device)
        return _Counted(part, labels, own.to(device), (train, val), (shares[0], shares[1]))


def inputs_of(model: nn.Module, data: Data, train_mask: Tensor) -> dict[str, Tensor]:
    """What a model asks for besides the graph: tensors of ``data``, by their names."""
    names = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    known = {name: data[name] for name in names if name in data}
    return known | ({"train_mask": train_mask} if "train_mask" in names else {})


def check_labels(logits: Tensor, data: Data, masks: tuple[Tensor, Tensor, Tensor]) -> None:
    """Asks what a model says for its number of classes: nothing else knows it."""
    classes = logits.size(-1)
    labels = data.y[masks[0] | masks[1] | masks[2]]
    wrong = labels[(labels < 0) | (labels >= classes)]
    if wrong.numel():
        raise InputError(
            f"y must name classes 0 to {classes - 1}, as many as the model has outputs, "
            f"got class {wrong[0]}"
        )


def masks_of(data: Data, split: int) -> tuple[Tensor, Tensor, Tensor]:
    """Train, validation and test of one split, [N] each."""
    for name in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        if name not in data:
            raise InputError(f"data must have {name}, got {', '.join(data.keys()) or 'nothing'}")
    n = data.x.size(0)
    if data.y.shape != (n,) or data.y.dtype != torch.int64:
        raise InputError(
            f"y must be an int64 tensor [{n}], got {data.y.dtype} {list(data.y.shape)}"
        )
    train, val, test = (
        _column(data, name, split) for name in ("train_mask", "val_mask", "test_mask")
    )
    return train, val, test


def _column(data: Data, name: str, split: int) -> Tensor:
    mask = data[name].bool()
    mask = mask.unsqueeze(1) if mask.dim() == 1 else mask
    if mask.dim() != 2 or mask.size(0) != data.x.size(0):
        raise InputError(f"{name} must be [{data.x.size(0)}, splits], got {list(data[name].shape)}")
    check_count("split", split, minimum=0)
    if split >= mask.size(1):
        raise InputError(f"split must be below {mask.size(1)}, the number of splits, got {split}")
    if not mask[:, split].any():
        raise InputError(f"{name} must choose a node, got none in split {split}")
    return mask[:, split]
