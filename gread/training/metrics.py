"""Metrics by name: each is one function of the predictions of a model.

A metric returns one number for each set of nodes (train, validation, test) and each member of a
population. It does not read values on the host, so it can be recorded on a GPU. Sums over nodes use
`Predictions.total`, so the same function works for one process and for several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.training.config import TrainConfig
from gread.training.losses import LOSSES, Targets


class Reduction(Protocol):
    """Reduction of partial results over processes."""

    def total(self, sums: Tensor) -> Tensor:
        """Return sums over all nodes, from sums over the local nodes."""

    def gathered(self, rows: Tensor) -> Tensor:
        """Return rows [n, ...] of all nodes, from the rows of the local nodes."""

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace the gradients of the local loss by those of the total loss."""


class Whole:
    """The reduction of a process that has all nodes."""

    def total(self, sums: Tensor) -> Tensor:
        """See `Reduction`."""
        return sums

    def gathered(self, rows: Tensor) -> Tensor:
        """See `Reduction`."""
        return rows

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """See `Reduction`."""


WHOLE = Whole()


@dataclass(frozen=True)
class Predictions:
    """Outputs of a model with the targets.

    Attributes:
        outputs: Scores of the classes, log-odds of the labels, or numbers, [..., n, k], in at
            least single precision; with a leading axis of members if there are several.
        y: Targets: classes or numbers [n], labels or numbers [n, k].
        weight: Weight of each node in each set, [..., sets, n].
        size: Σ of the weights of all nodes, [..., sets].
        reduction: Reduction of sums over processes.
    """

    outputs: Tensor
    y: Tensor
    weight: Tensor
    size: Tensor
    reduction: Reduction = WHOLE

    def total(self, values: Tensor) -> Tensor:
        """Σ w_i values_i over the nodes of each set, [..., sets], of values [..., n]."""
        dtype = torch.promote_types(self.weight.dtype, values.dtype)
        sums = self.weight.to(dtype) @ values.to(dtype).unsqueeze(-1)
        return self.reduction.total(sums.squeeze(-1))

    def mean(self, values: Tensor) -> Tensor:
        """The mean over the nodes of each set, [..., sets], of values [..., n]."""
        return self.total(values) / self.size

    @property
    def classes(self) -> Tensor:
        """The class with the highest score, [..., n]."""
        return self.outputs.argmax(-1)

    @cached_property
    def confusion(self) -> Tensor:
        """Weight of the nodes of class i (row) that are predicted as j, [..., sets, C, C]."""
        count = self.outputs.size(-1)
        cell = (self.y.clamp(0, count - 1) * count + self.classes).unsqueeze(-2)
        weight = self.weight.expand(*cell.shape[:-2], *self.weight.shape[-2:])
        *front, nodes = weight.shape
        tables = weight.numel() // nodes
        place = cell.expand(weight.shape).reshape(tables, nodes)
        place = place + count**2 * torch.arange(tables, device=place.device).unsqueeze(-1)
        sums = weight.new_zeros(tables * count**2)
        sums = sums.index_add(0, place.flatten(), weight.flatten())
        return self.reduction.total(sums).view(*front, count, count)

    def whole(self) -> Predictions:
        """Predictions of all nodes, for a metric that compares nodes with each other."""
        gathered = self.reduction.gathered
        return Predictions(
            gathered(self.outputs), gathered(self.y), gathered(self.weight.mT).mT, self.size
        )


class Metric(NamedTuple):
    """A metric, which selects the epoch.

    Attributes:
        of: Function from predictions to a number for each set, [..., sets].
        higher_is_better: Whether a higher value is better.
        targets: Kinds of targets that it supports.
    """

    of: Callable[[Predictions], Tensor]
    higher_is_better: bool = True
    targets: tuple[Targets, ...] = ("classes",)

    @property
    def sign(self) -> int:
        """1 if higher is better, otherwise −1."""
        return 1 if self.higher_is_better else -1

    @property
    def is_fraction(self) -> bool:
        """Whether values are fractions, which are shown in percent."""
        return self.higher_is_better and "numbers" not in self.targets


METRICS: Registry[Metric] = Registry("metric")


def metric(
    name: str, *targets: Targets, higher_is_better: bool = True
) -> Callable[[Callable[[Predictions], Tensor]], Callable[[Predictions], Tensor]]:
    """Decorator that registers a metric for some kinds of targets, by default classes."""

    def decorate(of: Callable[[Predictions], Tensor]) -> Callable[[Predictions], Tensor]:
        METRICS.add(name, Metric(of, higher_is_better, targets or ("classes",)))
        return of

    return decorate


def metrics_of(targets: Targets) -> list[str]:
    """Names of the metrics for a kind of targets."""
    return [name for name, found in METRICS.items() if targets in found.targets]


def metric_name(config: TrainConfig) -> str:
    """Name of the metric of a training, whose metric or loss need not be registered."""
    usual = LOSSES[config.loss].metric if config.loss in LOSSES else config.loss
    return config.metric or usual


def metric_of(config: TrainConfig) -> Metric:
    """The metric of a training, which must fit its loss."""
    loss = LOSSES[config.loss]
    name = config.metric or loss.metric
    if loss.targets not in METRICS[name].targets:
        fitting = ", ".join(metrics_of(loss.targets))
        raise InputError(f"metric must be one of {fitting} with {config.loss}, got {name!r}")
    return METRICS[name]


@metric("accuracy")
def accuracy(p: Predictions) -> Tensor:
    """Share of nodes with a correct prediction."""
    return p.mean(p.classes == p.y)


@metric("balanced-accuracy")
def balanced_accuracy(p: Predictions) -> Tensor:
    """Mean recall over the classes."""
    return _class_mean(p.confusion.diagonal(dim1=-2, dim2=-1), p.confusion.sum(-1), p)


@metric("macro-f1")
def macro_f1(p: Predictions) -> Tensor:
    """Mean over the classes of the harmonic mean of precision and recall."""
    right = p.confusion.diagonal(dim1=-2, dim2=-1)
    return _class_mean(2 * right, p.confusion.sum(-1) + p.confusion.sum(-2), p)


def _class_mean(parts: Tensor, wholes: Tensor, p: Predictions) -> Tensor:
    """Mean of parts / wholes over the classes that have nodes."""
    there = p.confusion.sum(-1) > 0
    shares = torch.where(there, parts / wholes.where(there, 1), 0)
    return shares.sum(-1) / there.sum(-1)


@metric("roc-auc", "classes", "labels")
def roc_auc(p: Predictions) -> Tensor:
    """Area under the ROC curve: probability that a node of a class is ranked above another node.

    Ties count half. With more than two classes, or with labels, it is the mean over those for which
    it is defined.
    """

    def chance(ranks: _Ranks) -> Tensor:
        below, up_to = (ranks.before(ranks.negative, place) for place in (ranks.low, ranks.high))
        pairs = ranks.positive.sum(-1) * ranks.negative.sum(-1)
        return ((below + up_to) * ranks.positive).sum(-1).double() / 2 / pairs

    return _mean_over_classes(p, chance)


@metric("average-precision", "classes", "labels")
def average_precision(p: Predictions) -> Tensor:
    """Average precision: mean over the nodes of a class of the precision at their scores.

    With two classes, it is that of the rarer class, or of class 1 if both have the same size. With
    more classes, or with labels, it is the mean over those that have nodes.
    """

    def precision(ranks: _Ranks) -> Tensor:
        chosen = ranks.positive | ranks.negative
        found, above = (
            nodes.sum(-1, keepdim=True) - ranks.before(nodes, ranks.low)
            for nodes in (ranks.positive, chosen)
        )
        each = torch.where(ranks.positive, found.double() / above, 0)
        return each.sum(-1) / ranks.positive.sum(-1)

    return _mean_over_classes(p, precision)


class _Ranks(NamedTuple):
    """Nodes in the order of their probability of one class."""

    positive: Tensor
    """Nodes of the class, [..., sets, n]; nodes of a set have equal weight."""
    negative: Tensor
    """Other nodes of the set."""
    order: Tensor
    """Nodes by rising probability, [..., n]."""
    low: Tensor
    """For every node, the number of nodes with a lower probability."""
    high: Tensor
    """For every node, the number of nodes with a lower or equal probability."""

    def before(self, chosen: Tensor, place: Tensor) -> Tensor:
        """Number of chosen nodes among the first ``place`` nodes in order."""
        ordered = chosen.gather(-1, self.order.unsqueeze(-2).expand_as(chosen))
        counts = pad(ordered.cumsum(-1), (1, 0))
        return counts.gather(-1, place.unsqueeze(-2).expand_as(chosen))


def _mean_over_classes(p: Predictions, value: Callable[[_Ranks], Tensor]) -> Tensor:
    """Mean of ``value`` over the classes where it is defined, each against the others; else NaN.

    With two classes, only the rarer class is used.
    """
    p = p.whole()
    chosen, values = p.weight > 0, []
    for probability, there in _against_others(p, chosen):
        positive = chosen & there.unsqueeze(-2)
        ordered, order = probability.sort(-1)
        low = torch.searchsorted(ordered, probability)
        high = torch.searchsorted(ordered, probability, right=True)
        values.append(value(_Ranks(positive, chosen & ~positive, order, low, high)))
    return torch.stack(values).nanmean(0).to(p.weight.dtype)


def _against_others(p: Predictions, chosen: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield probability and presence of each label or class, [..., n]; of two classes, the rarer.

    Double precision distinguishes more probabilities close to 1.
    """
    if p.y.dim() == 2:
        probabilities, there = p.outputs.double().sigmoid(), p.y == 1
    else:
        probabilities = p.outputs.double().softmax(-1)
        there = p.y.unsqueeze(-1) == torch.arange(probabilities.size(-1), device=p.y.device)
        if probabilities.size(-1) == 2:
            sizes = (there & chosen.any(-2).unsqueeze(-1)).sum(-2, keepdim=True)
            rare = sizes[..., 1:] <= sizes[..., :1]  # of every member
            probabilities = torch.where(rare, probabilities[..., 1:], probabilities[..., :1])
            there = torch.where(rare, there[:, 1:], there[:, :1])
    for number in range(probabilities.size(-1)):
        yield probabilities[..., number].contiguous(), there[..., number]


@metric("micro-f1", "labels")
def micro_f1(p: Predictions) -> Tensor:
    """2 TP / (2 TP + FP + FN) over all labels together, predicted where their log-odds are ≥ 0."""
    chosen, there = p.outputs >= 0, p.y == 1
    both = p.total((chosen & there).sum(-1))
    return 2 * both / p.total((chosen.long() + there.long()).sum(-1)).clamp_min(1)


@metric("nll", "classes", "labels", higher_is_better=False)
def negative_log_likelihood(p: Predictions) -> Tensor:
    """Mean of −log of the probability of the true class; for labels, also the mean over labels."""
    if p.y.dim() == 2:
        y = p.y.to(p.outputs.dtype).expand_as(p.outputs)
        return p.mean(binary_cross_entropy_with_logits(p.outputs, y, reduction="none").mean(-1))
    classes = p.y.clamp(0, p.outputs.size(-1) - 1).expand(p.outputs.shape[:-1]).unsqueeze(-1)
    return p.mean(-p.outputs.log_softmax(-1).gather(-1, classes).squeeze(-1))


@metric("r2", "numbers")
def r_squared(p: Predictions) -> Tensor:
    """1 − Σ |y − output|² / Σ |y − mean of y|², for targets that are numbers."""
    y = p.y.double().view(len(p.y), -1)
    error = p.total((p.outputs - y).square().sum(-1))
    means = torch.stack([p.mean(column) for column in y.unbind(-1)], -1)
    # The mean of squares minus the squared mean would cancel for targets far from zero.
    distances = (y.mT.unsqueeze(-3) - means.unsqueeze(-1)).square().sum(-2)  # [..., sets, n]
    spread = p.reduction.total((p.weight * distances).sum(-1))
    return (1 - error / spread).to(p.weight.dtype)


@metric("mae", "numbers", higher_is_better=False)
def mean_absolute_error(p: Predictions) -> Tensor:
    """Mean of |y − output|, for targets that are numbers."""
    y = p.y.to(p.outputs.dtype).view(len(p.y), -1)
    return p.mean((p.outputs - y).abs().mean(-1))
