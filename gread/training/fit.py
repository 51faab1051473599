"""Algorithm 1 of the paper, for any model and dataset."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.graph.partition import Part, cut
from gread.kernels.backend import fast
from gread.kernels.cuda_graph import Recording
from gread.models.base import GraphModel
from gread.training.config import TrainConfig
from gread.training.direct import direct_model
from gread.training.loop import (
    EPOCHS_AT_ONCE,
    NOT_FINITE,
    Best,
    Epoch,
    Epochs,
    Fit,
    Piece,
    Progress,
    precision,
    several,
)
from gread.training.losses import LOSSES
from gread.training.optimizer import adam, launched


def fit(
    model: nn.Module,
    data: Data,
    config: TrainConfig = TrainConfig(),
    *,
    split: int = 0,
    class_weight: Tensor | None = None,
    on_epoch: Callable[[Epoch], object] | None = None,
) -> Fit:
    """Train ``model`` on one split of ``data`` and keep its best parameters.

    Paper: Algorithm 1, by default with the mean cross entropy over the training nodes (Eq. 15 with
    its sign). Only the validation metric selects the epoch. Training of a diverging model stops
    with the best epoch so far.

    Args:
        model: Module that is called with ``(x, edge_index, edge_weight)`` and returns logits
            [N, classes]. Keyword-only arguments of its ``forward`` are taken from ``data`` by name;
            ``train_mask`` is the column of the split. A `HasParameterGroups` selects its
            parameters with weight decay.
        data: Graph with ``x, edge_index, y, train_mask, val_mask, test_mask``; masks are [N] or
            [N, splits]. Parts of a partition are moved to the device of the model in turn.
        config: Training settings.
        split: Column of the masks.
        class_weight: Weights [classes] of nodes by class in the loss; by default 1. Metrics count
            every node once.
        on_epoch: Function that is called with every epoch; on a GPU several epochs are reported
            together. Training stops if it returns True.

    Returns:
        The best epoch by validation, and the history.

    Raises:
        ArithmeticError: The model diverges in its first epoch.

    Example:
        >>> import gread
        >>> data = gread.load("csbm")
        >>> model = gread.GREAD(data.num_features, 8, 2)
        >>> result = gread.fit(model, data, gread.TrainConfig(epochs=5), split=3)
        >>> len(result.history)
        5
    """
    training = Training(model, data, config, split=split, class_weight=class_weight)
    training.run(on_epoch)
    model.load_state_dict(training.best_state)
    return training.result()


class Training:
    """Training of one model that can be interrupted and continued.

    The model has the parameters of the last epoch, and ``best_state`` those of the best.

    Args:
        model: As in `fit`, like the other arguments.
        data: Graph with masks.
        config: Training settings.
        split: Column of the masks.
        class_weight: Weights of the classes in the loss.

    Example:
        >>> import gread
        >>> data, model = gread.load("csbm"), gread.GREAD(2, 8, 2)
        >>> training = Training(model, data, gread.TrainConfig(epochs=5))
        >>> training.run(lambda epoch: epoch.number == 1)
        >>> training.done, len(training.result().history)
        (False, 2)
        >>> training.run()
        >>> training.done, len(training.result().history)
        (True, 5)
    """

    def __init__(
        self,
        model: nn.Module,
        data: Data,
        config: TrainConfig = TrainConfig(),
        *,
        split: int = 0,
        class_weight: Tensor | None = None,
    ):
        if config.processes > 1:
            raise InputError(
                f"processes must be 1 in gread.fit, which has the whole graph, got "
                f"{config.processes}: use gread.distributed.fit_shard"
            )
        masks = masks_of(data, split, config)
        graph = PartedGraph(model, data, masks[0], config)
        self.best_state = copy.deepcopy(model.state_dict())
        self._kept = list(self.best_state.values()), list(model.state_dict().values())
        records = data.x.is_cuda and fast()
        best = Best(*self._kept, [config], graph.device) if records else None
        sets = torch.stack(masks).to(precision(data.x.dtype))
        factor = None if class_weight is None else _factors(data, masks, class_weight).to(sets)
        pieces = graph.pieces(data.y, sets, factor)
        direct = None
        if class_weight is None and config.parts == 1 and config.loss == "cross-entropy":
            direct = direct_model(model, data, torch.stack(masks))
        optimizer = launched(adam(model, config))
        self._epochs = Epochs(model, pieces, config, optimizer, best, direct=direct)
        model.eval()  # direct training leaves the mode of the model as it is
        self._epochs.check()
        self._recording = Recording(self._epochs) if records else None
        self._progress = Progress(config)
        self._seconds: list[float] = []

    @property
    def done(self) -> bool:
        """Whether the training is complete: by its epochs, its patience or divergence."""
        return self._progress.done

    def run(self, on_epoch: Callable[[Epoch], object] | None = None) -> None:
        """Train until the end, or until ``on_epoch`` returns True."""
        progress, interrupted = self._progress, False
        while not (progress.done or interrupted):
            # An epoch that is not recorded may raise, which would hide unreported epochs before it.
            recorded = self._recording is not None and self._recording.graph is not None
            left = progress.config.epochs - len(progress.history)
            at_once = min(EPOCHS_AT_ONCE, left) if recorded else 1
            began = time.perf_counter()
            try:
                (numbers,) = several(self._recording or self._epochs, at_once)
            except ArithmeticError as error:
                progress.diverge(error)
                break
            epochs = progress.follow(numbers, self._cause)
            if self._recording is None and epochs and epochs[-1] is progress.best:
                for kept, now in zip(*self._kept, strict=True):
                    kept.copy_(now)
            each = (time.perf_counter() - began) / at_once
            for epoch in epochs:
                self._seconds.append(each)
                if on_epoch is not None and on_epoch(epoch) is True:
                    interrupted = True

    @contextmanager
    def at_best(self) -> Iterator[None]:
        """Context manager that gives the model its best parameters, and restores the last ones."""
        last = copy.deepcopy(self._epochs.model.state_dict())
        self._epochs.model.load_state_dict(self.best_state)
        try:
            yield
        finally:
            self._epochs.model.load_state_dict(last)

    def result(self) -> Fit:
        """The best epoch by validation, and the history."""
        return replace(self._progress.fit(), seconds=tuple(self._seconds))

    def _cause(self) -> ArithmeticError:
        """Return the reason why the numbers of an epoch are not finite."""
        try:
            self._epochs.outputs()  # gives a more specific error if the state overflows
        except ArithmeticError as error:
            return error
        return ArithmeticError(NOT_FINITE)


def _factors(data: Data, masks: tuple[Tensor, Tensor, Tensor], class_weight: Tensor) -> Tensor:
    """Weight of each node in the loss by its class, [N]."""
    if data.y.is_floating_point():
        raise InputError("class_weight must be None for targets that are not classes")
    known = data.y[torch.stack(masks).any(0)]  # other nodes may have any class
    count = int(known.max()) + 1
    if not isinstance(class_weight, Tensor) or class_weight.dim() != 1 or len(class_weight) < count:
        given = list(class_weight.shape) if isinstance(class_weight, Tensor) else class_weight
        raise InputError(
            f"class_weight must be a tensor [classes] of at least {count} numbers, got {given}"
        )
    if not ((class_weight >= 0) & class_weight.isfinite()).all():
        raise InputError(
            f"class_weight must be finite and not negative, got {class_weight.tolist()}"
        )
    return class_weight.to(data.y.device)[data.y.clamp(0, len(class_weight) - 1)]


class PartedGraph:
    """A model on a graph, part by part; the whole graph is one part."""

    def __init__(self, model: nn.Module, data: Data, train_mask: Tensor, config: TrainConfig):
        if config.parts > 1 and isinstance(model, GraphModel) and model.num_nodes is not None:
            raise InputError(
                f"parts must be 1 for a model with weights for each node, got {config.parts}"
            )
        self.model = model
        self.x = data.x
        self.parts = cut(data, config.parts, config.halo)
        self.extra = inputs_of(model, data, train_mask)
        if config.parts > 1 and (others := set(self.extra) - {"train_mask"}):
            raise InputError(
                f"parts must be 1 for a model that uses {', '.join(sorted(others))}, which is "
                f"computed from the whole graph, got {config.parts}"
            )
        self.device = next((p.device for p in model.parameters()), data.x.device)

    def outputs(self, part: Part) -> Tensor:
        """Outputs of the model for the part's own nodes, [own, k]."""
        weight = part.edge_weight
        found: Tensor = self.model(
            part.take(self.x).to(self.device),
            part.edge_index.to(self.device),
            None if weight is None else weight.to(self.device),
            **{name: part.take(tensor).to(self.device) for name, tensor in self.extra.items()},
        )
        return found[: part.own]

    def pieces(self, y: Tensor, weight: Tensor, factor: Tensor | None) -> list[Piece]:
        """Pieces of all parts, from targets [N], weights [3, N] and factors [N] of all nodes."""
        own = [part.take(torch.arange(len(y), device=y.device))[: part.own] for part in self.parts]
        return [
            Piece(
                partial(self.outputs, part),
                y[nodes].to(self.device),
                weight[:, nodes].to(self.device),
                None if factor is None else factor[nodes].to(self.device),
                trains=bool(weight[0, nodes].any()),
            )
            for part, nodes in zip(self.parts, own, strict=True)
        ]


@torch.no_grad()
def logits_of(model: nn.Module, data: Data, train_mask: Tensor, config: TrainConfig) -> Tensor:
    """Logits [N, classes] of a trained model, computed by the parts of ``config``."""
    model.eval()
    graph = PartedGraph(model, data, train_mask, config)
    found = [graph.outputs(part).to(data.x.device) for part in graph.parts]
    if len(found) == 1:
        return found[0]
    own = [part.nodes[: part.own] for part in graph.parts if part.nodes is not None]
    return torch.empty_like(torch.cat(found)).index_copy_(0, torch.cat(own), torch.cat(found))


def inputs_of(model: nn.Module, data: Data, train_mask: Tensor) -> dict[str, Tensor]:
    """Keyword-only arguments of a model's ``forward``: tensors of ``data`` by name."""
    names = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    known = {name: data[name] for name in names if name in data}
    return known | ({"train_mask": train_mask} if "train_mask" in names else {})


def masks_of(
    data: Data, split: int, config: TrainConfig = TrainConfig()
) -> tuple[Tensor, Tensor, Tensor]:
    """Train, validation and test nodes of one split, [N] each."""
    for name in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        if name not in data:
            raise InputError(f"data must have {name}, got {', '.join(data.keys()) or 'nothing'}")
    n, y = data.x.size(0), data.y
    if LOSSES[config.loss].targets != "classes":
        if not y.is_floating_point() or y.dim() not in (1, 2) or len(y) != n:
            shape = f"{y.dtype} {list(y.shape)}"
            raise InputError(f"y must be a floating-point tensor [{n}] or [{n}, k], got {shape}")
    elif y.shape != (n,) or y.dtype != torch.int64:
        raise InputError(f"y must be an int64 tensor [{n}], got {y.dtype} {list(y.shape)}")
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
        raise InputError(f"{name} must select a node, got none in split {split}")
    return mask[:, split]
