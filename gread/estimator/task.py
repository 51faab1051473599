"""Kinds of targets: a class, several labels or a number.

A task defines the targets of a network, the conversion of its outputs to predictions [N, k], and
the metric. It calibrates, decides, scores and formats predictions. All other code (race, blend,
folders, comparison) is the same for all tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from gread.base.checks import check_positive
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.estimator.blend import temperature, tempered
from gread.estimator.scores import (
    DECISIONS,
    AnyScores,
    Figures,
    log,
    log_odds,
    score,
    score_labels,
    score_numbers,
    value_of,
)
from gread.tables.labels import (
    Labels,
    are_quantities,
    read_labels,
    read_lists,
    read_numbers,
    read_truths,
    separator_of,
)
from gread.tables.table import Table
from gread.training.config import TrainConfig
from gread.training.losses import LOSSES, Targets
from gread.training.metrics import METRICS, metric_of, metrics_of

COMMON = 0.9
"""Share of the most common class above which accuracy is not the default metric."""

FIFTHS = 5

Thresholds = list[float] | None
"""Lowest probability at which the rarer class, or each label, is predicted.

None selects the most probable class, or labels from 1/2 on.
"""

T = TypeVar("T", bound="Task")


@dataclass(frozen=True)
class Task(ABC):
    """Kind of target, and how it is learned, predicted and scored.

    Attributes:
        names: Classes, labels, or the column of numbers.
        metric: A name of ``gread.training.METRICS``, by which epochs and candidates are compared.
    """

    names: tuple[Any, ...]
    metric: str

    targets: ClassVar[Targets]
    loss: ClassVar[str]
    steady: ClassVar[str]
    """Continuous metric that breaks ties of ``metric``."""
    word: ClassVar[str]
    """Description of a node's target, for a sentence."""
    dtype: ClassVar[torch.dtype] = torch.float64
    """Type of targets."""
    kind: ClassVar[str] = "classification"
    """One of `KINDS`."""
    estimator: ClassVar[str] = "GraphClassifier"
    """Name of the estimator class."""

    @property
    def width(self) -> int:
        """Number k of predictions of a node."""
        return len(self.names)

    @abstractmethod
    def known(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of nodes with a target, [N]."""

    @abstractmethod
    def without(self, y: NDArray[Any], hidden: NDArray[np.bool_]) -> NDArray[Any]:
        """Targets with those of hidden nodes set to unknown."""

    @abstractmethod
    def strata(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Strata of a split: a group for each node, −1 for none, [N]."""

    @abstractmethod
    def described(self, y: NDArray[Any]) -> Labels:
        """Classes for the diagnosis of a graph."""

    @abstractmethod
    def spread(self, y: Tensor) -> Tensor:
        """Targets as predictions [N, k], arbitrary where unknown."""

    def learned(self, y: Tensor) -> Tensor:
        """Targets for the loss of a network, arbitrary where unknown."""
        return y.nan_to_num().float()

    def around(self, y: Tensor) -> Tensor:
        """Targets as features of neighbours, [N, k], of order 1."""
        return self.spread(y)

    @abstractmethod
    def decoded(self, outputs: Tensor, loss: str) -> Tensor:
        """Predictions [N, k] from the outputs of a network, in float64."""

    def predictions(self, outputs: Tensor, loss: str) -> Figures:
        """Predictions [N, k] from the outputs of a network."""
        found: Figures = self.decoded(outputs, loss).cpu().numpy()
        return found

    @abstractmethod
    def outputs(self, predictions: Figures) -> Tensor:
        """Predictions in the form that metrics take: scores, log-odds or numbers, [N, k]."""

    def limited(self, predictions: Tensor) -> Tensor:
        """Corrected predictions, clipped to valid values."""
        return predictions

    def smoothed(self, predictions: Tensor, spread: Callable[[Tensor], Tensor]) -> Tensor:
        """Predictions spread along edges, divided by spread ones to keep their scale."""
        found = spread(torch.cat([predictions, torch.ones_like(predictions[:, :1])], dim=1))
        return found[:, :-1] / found[:, -1:].clamp_min(1e-30)

    def gain(self, predictions: Figures, y: NDArray[Any]) -> tuple[float, float]:
        """Objective to maximize: the metric, with a continuous one to break ties."""
        outputs, truth = self.outputs(predictions), torch.from_numpy(y)
        first, second = (
            METRICS[name].sign * value_of(name, outputs, truth)
            for name in (self.metric, self.steady)
        )
        return (first if np.isfinite(first) else -np.inf), second

    def in_unit(self, value: float) -> float:
        """Value of the metric in the unit of the target, from that of the training."""
        return value

    def temperature(self, predictions: Figures, y: NDArray[Any]) -> float:
        """T that maximizes the likelihood of `tempered` predictions; 1 if there is none."""
        return 1.0

    def calibrated(self, predictions: Tensor, t: float) -> Tensor:
        """Predictions with a temperature."""
        return predictions

    def tempered(self, predictions: Figures, t: float) -> Figures:
        """Predictions with a temperature, as arrays."""
        found: Figures = self.calibrated(torch.from_numpy(predictions), t).numpy()
        return found

    @property
    def tunes(self) -> bool:
        """Whether there are thresholds."""
        return False

    @property
    def decisive(self) -> tuple[Any, ...]:
        """Names that may have a threshold."""
        return ()

    def thresholds(self, predictions: Figures, y: NDArray[Any]) -> Thresholds:
        """Best thresholds on held-out nodes; None if the task has none."""
        return None

    @abstractmethod
    def decided(self, predictions: Figures, thresholds: Thresholds) -> NDArray[Any]:
        """Predicted targets, [N] or [N, k]."""

    @abstractmethod
    def scores(self, y: NDArray[Any], predictions: Figures, thresholds: Thresholds) -> AnyScores:
        """Measures of predictions for nodes whose targets are known."""

    @abstractmethod
    def cells(self, predictions: Figures, thresholds: Thresholds) -> Mapping[str, Sequence[Any]]:
        """Columns of a file of predictions."""

    def best_metric(self, y: NDArray[Any], parts: NDArray[np.int64]) -> tuple[str, str]:
        """Metric that suits the targets of a split, and a note if it is not the usual one."""
        return LOSSES[self.loss].metric, ""

    @abstractmethod
    def check(self, y: NDArray[Any], parts: NDArray[np.int64]) -> None:
        """Require parts of a split, 0 to 2, from which all targets can be learned."""

    def fitted(self: T, y: NDArray[Any], learned: NDArray[np.bool_]) -> T:
        """Return the task with statistics of the targets of the nodes to learn from."""
        return self

    def check_metric(self, name: str) -> None:
        """Require a metric for this kind of targets."""
        if self.targets not in METRICS[name].targets:
            fitting = ", ".join(metrics_of(self.targets))
            raise InputError(f"metric must be one of {fitting} for {self.targets}, got {name!r}")

    def outputs_of(self, config: TrainConfig) -> int:
        """Number of outputs of a network, which depends on the loss; checks loss and metric."""
        loss = LOSSES[config.loss]
        if loss.targets != self.targets:
            fitting = [name for name, one in LOSSES.items() if one.targets == self.targets]
            raise InputError(
                f"loss must be one of {', '.join(fitting)} for {self.targets}, got {config.loss!r}"
            )
        metric_of(config)
        found = loss.outputs(self.width)
        if loss.classes is not None and loss.classes(found) != self.width:
            raise InputError(
                f"loss {config.loss!r} needs {loss.classes(found)} classes, got {self.width}"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """All but the names as plain values, see `task_of`."""
        values = asdict(self)
        del values["names"]
        return {"targets": self.targets, **values}


@dataclass(frozen=True)
class Classes(Task):
    """Each node has one of several classes; y is its index in ``names``, −1 where unknown.

    Attributes:
        rare: Index of the rarer of two classes, whose probability has a threshold.
    """

    rare: int = 1

    targets = "classes"
    loss = "cross-entropy"
    steady = "nll"
    word = "class"
    dtype = torch.int64

    def __post_init__(self) -> None:
        if self.rare not in (0, 1):
            raise InputError(f"rare must be 0 or 1, got {self.rare!r:.80}")

    def known(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """See `Task`."""
        return y >= 0

    def without(self, y: NDArray[np.int64], hidden: NDArray[np.bool_]) -> NDArray[np.int64]:
        """See `Task`."""
        return np.where(hidden, -1, y)

    def strata(self, y: NDArray[np.int64]) -> NDArray[np.int64]:
        """The classes."""
        return y

    def described(self, y: NDArray[np.int64]) -> Labels:
        """The classes."""
        return Labels(self.names, y)

    def spread(self, y: Tensor) -> Tensor:
        """1 for the class, 0 for others."""
        return one_hot(y.clamp(min=0), self.width).float()

    def learned(self, y: Tensor) -> Tensor:
        """The classes as they are."""
        return y

    def decoded(self, outputs: Tensor, loss: str) -> Tensor:
        """Probabilities."""
        return LOSSES[loss].scores(outputs.double()).softmax(dim=1)

    def outputs(self, predictions: Figures) -> Tensor:
        """Logarithms of the probabilities."""
        return log(predictions)

    def limited(self, predictions: Tensor) -> Tensor:
        """Clip at 0."""
        return predictions.clamp_min(0.0)

    def smoothed(self, predictions: Tensor, spread: Callable[[Tensor], Tensor]) -> Tensor:
        """Spread predictions, normalized to a sum of 1."""
        found = spread(predictions).clamp_min(1e-12)
        return found / found.sum(1, keepdim=True)

    def temperature(self, predictions: Figures, y: NDArray[np.int64]) -> float:
        """See `Task`."""
        return temperature(predictions, y)

    def calibrated(self, predictions: Tensor, t: float) -> Tensor:
        """See `Task`."""
        return tempered(predictions, t)

    @property
    def tunes(self) -> bool:
        """Whether a threshold is tuned: for two classes and metrics other than accuracy."""
        return self.width == 2 and self.metric != "accuracy"

    @property
    def decisive(self) -> tuple[Any, ...]:
        """The rarer class."""
        return (self.names[self.rare],)

    def thresholds(self, predictions: Figures, y: NDArray[np.int64]) -> Thresholds:
        """Best threshold by the metric, or by macro-F1 if the metric uses probabilities."""
        if not self.tunes:
            return None
        measure = self.metric if self.metric in DECISIONS else "macro-f1"
        return [best_threshold(predictions[:, self.rare], y == self.rare, measure)]

    def decided(self, predictions: Figures, thresholds: Thresholds) -> NDArray[np.int64]:
        """Indices of the predicted classes."""
        if thresholds is None:
            found: NDArray[np.int64] = predictions.argmax(axis=1)
            return found
        return np.where(predictions[:, self.rare] >= thresholds[0], self.rare, 1 - self.rare)

    def scores(
        self, y: NDArray[np.int64], predictions: Figures, thresholds: Thresholds
    ) -> AnyScores:
        """See `Task`."""
        return score(y, predictions, self.decided(predictions, thresholds), self.metric)

    def cells(self, predictions: Figures, thresholds: Thresholds) -> Mapping[str, Sequence[Any]]:
        """Class, its probability, and the probabilities of all classes."""
        chosen = self.decided(predictions, thresholds)
        shares = np.round(predictions, 6)
        each = {f"p_{name}": shares[:, place].tolist() for place, name in enumerate(self.names)}
        return {
            "prediction": [self.names[place] for place in chosen.tolist()],
            "confidence": shares[np.arange(len(chosen)), chosen].tolist(),
        } | each

    def best_metric(self, y: NDArray[np.int64], parts: NDArray[np.int64]) -> tuple[str, str]:
        """Average precision if one class has nearly all nodes, and others are in every part."""
        sizes = np.bincount(y[(parts == 0) | (parts == 1)], minlength=self.width)
        commonest = int(sizes.argmax())
        share = sizes[commonest] / sizes.sum()
        some = np.unique(parts[parts >= 0])  # there may be no test nodes
        others = [((parts == part) & (y != commonest)).any() for part in some]
        if share <= COMMON or not all(others):
            return "accuracy", ""
        sentence = (
            f"{share:.1%} of the nodes are of class {self.names[commonest]}: epochs and candidates "
            "are compared by average-precision instead of accuracy (--metric overrides)."
        )
        return "average-precision", sentence

    def fitted(self, y: NDArray[np.int64], learned: NDArray[np.bool_]) -> Classes:
        """Set the rarer of two classes."""
        sizes = np.bincount(y[learned], minlength=self.width)
        return replace(self, rare=int(sizes[1] <= sizes[0]) if self.width == 2 else 1)

    def check(self, y: NDArray[np.int64], parts: NDArray[np.int64]) -> None:
        """Require training nodes of every class that has nodes."""
        trained = np.unique(y[parts == 0])
        if len(trained) < 2:
            raise InputError("training nodes must be of two classes or more, got one")
        absent = np.setdiff1d(np.unique(y[parts >= 0]), trained)
        if len(absent):
            some = ", ".join(repr(self.names[place]) for place in absent[:5])
            raise InputError(
                f"training nodes must be of every class, got none of {some}: change the split, or "
                "leave the label of its nodes empty"
            )


@dataclass(frozen=True)
class LabelSets(Task):
    """Each node has any of several labels; y is 0 or 1 for each, NaN where unknown, [N, k]."""

    targets = "labels"
    loss = "multi-label"
    steady = "nll"
    word = "set of labels"

    def __post_init__(self) -> None:
        taken = {"id", *(f"p_{name}" for name in self.names)} & set(self.names)
        if taken:
            raise InputError(
                f"labels must have other names than the columns of predictions, got {min(taken)!r}"
            )

    def known(self, y: Figures) -> NDArray[np.bool_]:
        """See `Task`."""
        return ~np.isnan(y.sum(axis=1))

    def without(self, y: Figures, hidden: NDArray[np.bool_]) -> Figures:
        """See `Task`."""
        return np.where(hidden[:, None], np.nan, y)

    def strata(self, y: Figures) -> NDArray[np.int64]:
        """The rarest label that a node has, k for none."""
        known = self.known(y)
        sizes = y[known].sum(axis=0)
        order = np.argsort(sizes, kind="stable")
        has = y[:, order] == 1
        found = np.where(has.any(axis=1), order[has.argmax(axis=1)], self.width)
        return np.where(known, found, -1)

    def described(self, y: Figures) -> Labels:
        """Two classes: without and with the label whose share is closest to 1/2."""
        known = self.known(y)
        shares = y[known].mean(axis=0)
        place = int(np.abs(shares - 0.5).argmin())
        name = self.names[place]
        classes = f"without {name}", f"with {name}"
        return Labels(classes, np.where(known, np.nan_to_num(y[:, place]), -1).astype(np.int64))

    def spread(self, y: Tensor) -> Tensor:
        """The labels."""
        return y.nan_to_num().float()

    def decoded(self, outputs: Tensor, loss: str) -> Tensor:
        """Probabilities."""
        return outputs.double().sigmoid()

    def outputs(self, predictions: Figures) -> Tensor:
        """Log-odds."""
        return log_odds(predictions)

    def limited(self, predictions: Tensor) -> Tensor:
        """Clip to 0 and 1."""
        return predictions.clamp(0.0, 1.0)

    def temperature(self, predictions: Figures, y: Figures) -> float:
        """One temperature for all labels, each as two classes."""
        two = _two(torch.from_numpy(predictions)).numpy()
        return temperature(two, y.flatten().astype(np.int64))

    def calibrated(self, predictions: Tensor, t: float) -> Tensor:
        """See `Task`."""
        return tempered(_two(predictions), t)[:, 1].view_as(predictions)

    tunes = True

    @property
    def decisive(self) -> tuple[Any, ...]:
        """All labels."""
        return self.names

    def thresholds(self, predictions: Figures, y: Figures) -> Thresholds:
        """Best threshold of each label by its F1."""
        pairs = zip(predictions.T, y.T == 1, strict=True)
        return [best_threshold(share, there, "f1") for share, there in pairs]

    def decided(self, predictions: Figures, thresholds: Thresholds) -> NDArray[np.int64]:
        """0 or 1 for every label."""
        return (predictions >= (0.5 if thresholds is None else thresholds)).astype(np.int64)

    def scores(self, y: Figures, predictions: Figures, thresholds: Thresholds) -> AnyScores:
        """See `Task`."""
        decided = self.decided(predictions, thresholds) > 0
        return score_labels(self.names, y, predictions, decided, self.metric)

    def cells(self, predictions: Figures, thresholds: Thresholds) -> Mapping[str, Sequence[Any]]:
        """0 or 1 for every label, and its probability."""
        chosen, shares = self.decided(predictions, thresholds), np.round(predictions, 6)
        decided = {str(name): chosen[:, place].tolist() for place, name in enumerate(self.names)}
        return decided | {
            f"p_{name}": shares[:, place].tolist() for place, name in enumerate(self.names)
        }

    def check(self, y: Figures, parts: NDArray[np.int64]) -> None:
        """Require training nodes with and without every label."""
        shares = y[parts == 0].mean(axis=0)
        for name, share in zip(self.names, shares, strict=True):
            if share in (0, 1):
                got = "without" if share else "with"
                raise InputError(
                    f"there must be training nodes with and without label {name!r}, got none {got}"
                )


@dataclass(frozen=True)
class Numbers(Task):
    """Each node has a number; y is NaN where unknown, [N].

    Attributes:
        centre, scale: Mean and standard deviation of the training nodes; a network learns
            (y − centre) / scale.
    """

    centre: float = 0.0
    scale: float = 1.0

    targets = "numbers"
    loss = "squared-error"
    steady = "r2"
    word = "number"
    kind = "regression"
    estimator = "GraphRegressor"

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        if not isinstance(self.centre, int | float) or not np.isfinite(self.centre):
            raise InputError(f"centre must be a finite number, got {self.centre!r:.80}")

    def known(self, y: Figures) -> NDArray[np.bool_]:
        """See `Task`."""
        return ~np.isnan(y)

    def without(self, y: Figures, hidden: NDArray[np.bool_]) -> Figures:
        """See `Task`."""
        return np.where(hidden, np.nan, y)

    def strata(self, y: Figures) -> NDArray[np.int64]:
        """Fifths of the nodes by their numbers."""
        return self.described(y).y

    def described(self, y: Figures) -> Labels:
        """Fifths of the nodes by their numbers."""
        known = self.known(y)
        ends = np.unique(np.quantile(y[known], np.arange(1, FIFTHS) / FIFTHS))
        ends = ends[ends < y[known].max()]
        names = [f"up to {end:.4g}" for end in ends] + ["above"]
        place = np.where(known, np.searchsorted(ends, np.nan_to_num(y)), -1)
        return Labels(tuple(names), place.astype(np.int64))

    def spread(self, y: Tensor) -> Tensor:
        """The numbers."""
        return y.nan_to_num().float().unsqueeze(1)

    def learned(self, y: Tensor) -> Tensor:
        """Standardized numbers."""
        return ((y - self.centre) / self.scale).nan_to_num().float()

    def around(self, y: Tensor) -> Tensor:
        """Standardized numbers."""
        return self.learned(y).unsqueeze(1)

    def decoded(self, outputs: Tensor, loss: str) -> Tensor:
        """Numbers in the unit of the target."""
        return outputs.double() * self.scale + self.centre

    def in_unit(self, value: float) -> float:
        """The MAE times the standard deviation; R² has no unit."""
        return self.scale * value if self.metric == "mae" else value

    def outputs(self, predictions: Figures) -> Tensor:
        """The predictions as they are."""
        return torch.from_numpy(predictions)

    def decided(self, predictions: Figures, thresholds: Thresholds) -> Figures:
        """The numbers."""
        return predictions[:, 0]

    def scores(self, y: Figures, predictions: Figures, thresholds: Thresholds) -> AnyScores:
        """See `Task`."""
        return score_numbers(y, predictions[:, 0], self.metric)

    def cells(self, predictions: Figures, thresholds: Thresholds) -> Mapping[str, Sequence[Any]]:
        """The number, to seven digits."""
        return {"prediction": [float(f"{value:.7g}") for value in predictions[:, 0]]}

    def fitted(self, y: Figures, learned: NDArray[np.bool_]) -> Numbers:
        """Set mean and standard deviation."""
        known = y[learned]
        return replace(self, centre=float(known.mean()), scale=float(known.std()) or 1.0)

    def check(self, y: Figures, parts: NDArray[np.int64]) -> None:
        """Require different numbers in every part."""
        for part, name in enumerate(("training", "validation", "test")):
            found = np.unique(y[parts == part])
            if len(found) == 1:
                raise InputError(f"{name} nodes must have different numbers, got only {found[0]:g}")


TASKS: Registry[type[Task]] = Registry(
    "task", {kind.targets: kind for kind in (Classes, LabelSets, Numbers)}
)
"""Tasks by kind of targets."""

KINDS = ("auto", "classification", "regression")


def task_of(values: Mapping[str, Any], names: Sequence[Any]) -> Task:
    """Restore a task from `Task.to_dict`, also after a round trip through JSON."""
    given = dict(values)
    found = TASKS[given.pop("targets")](**given | {"names": tuple(names)})
    found.check_metric(found.metric)
    return found


def read_targets(
    table: Table, names: Sequence[str], kind: str = "auto", known: Task | None = None
) -> tuple[Task, NDArray[Any], str]:
    """Read the task of label columns, targets [N] or [N, k], and a note if it was recognized.

    Several columns of 0 and 1, or one column of lists such as "a;b", hold labels. One column holds
    numbers to predict if ``kind`` is ``"regression"``, or if it is ``"auto"`` and
    `gread.tables.labels.are_quantities` is true.

    Args:
        table: The nodes.
        names: Names of the label columns.
        kind: One of `KINDS`.
        known: Task of a trained model, which determines the kind of target.
    """
    if kind not in KINDS:
        raise InputError(f"task must be one of {', '.join(KINDS)}, got {kind!r}")
    for name in names:
        table[name]  # a misspelt name fails here
    if len(names) > 1:
        if kind == "regression":
            raise InputError(f"a regression must have one label column, got {len(names)}")
        if known is not None and (known.targets, known.width) != ("labels", len(names)):
            raise InputError(
                f"targets must be as in the training, {known.width} {known.targets}, got "
                f"{len(names)} columns"
            )
        y = read_truths(table, names)
        where = f"label columns {', '.join(names)} of {table.name}"
        return known or _checked(LabelSets(tuple(names), ""), y, where), y, ""
    (name,) = names
    column = table[name]
    where = f"label column {name!r} of {table.name}"
    quantities = kind == "auto" and known is None and are_quantities(column)
    if kind == "regression" or quantities or isinstance(known, Numbers):
        y = read_numbers(table, name)
        found = y[~np.isnan(y)]
        if known is None and not len(found):
            raise InputError(f"{where} must hold the number of some nodes, got none")
        if known is None and np.ptp(found) == 0:
            raise InputError(f"{where} must hold different numbers, got only {found[0]:g}")
        note = f"Label column {name!r} holds many different numbers: it is predicted as a number"
        note = f"{note} (--task classification predicts classes)." if quantities else ""
        return known or Numbers((name,), ""), y, note
    labels = known.names if isinstance(known, LabelSets) else None
    separator = separator_of(column, labels)
    if separator and (labels is not None or known is None):
        labels, y = read_lists(table, name, separator, labels)
        note = (
            f"Label column {name!r} lists labels separated by {separator!r}: each of the "
            f"{len(labels)} labels is predicted."
        )
        return known or _checked(LabelSets(labels, ""), y, where), y, note
    found_classes = read_labels(table, name, None if known is None else known.names)
    return known or Classes(found_classes.classes, ""), found_classes.y, ""


def _checked(task: LabelSets, y: Figures, where: str) -> LabelSets:
    """Require that each label is 0 for some nodes and 1 for others."""
    known = y[task.known(y)]
    if not len(known):
        raise InputError(f"{where} must hold the labels of some nodes, got none")
    for name, share in zip(task.names, known.mean(axis=0), strict=True):
        if share in (0, 1):
            raise InputError(
                f"label {name!r} must be 0 for some nodes and 1 for others, got only {share:g}"
            )
    return task


def _f1(right: NDArray[Any], chosen: NDArray[Any], there: float) -> NDArray[Any]:
    """2 TP / (predicted + true)."""
    return 2 * right / np.maximum(chosen + there, 1)


def best_threshold(shares: Figures, there: NDArray[np.bool_], measure: str) -> float:
    """Best threshold of the probability of a class, by a measure of the decisions.

    Args:
        shares: Probability of the class for every node, [n].
        there: Mask of nodes of the class, [n].
        measure: ``"f1"`` of the class, ``"macro-f1"`` or ``"balanced-accuracy"``.

    Example:
        >>> best_threshold(np.array([0.1, 0.2, 0.4]), np.array([False, True, True]), "f1")
        0.15...
    """
    order = np.argsort(-shares, kind="stable")
    falling, truth = shares[order], there[order]
    last = np.append(falling[1:] < falling[:-1], True)  # equal probabilities have one decision
    chosen = np.flatnonzero(last) + 1.0
    right = np.cumsum(truth)[last].astype(float)
    count, positive = len(shares), float(there.sum())
    negative = count - positive
    rejected = negative - (chosen - right)  # true negatives
    own, other = _f1(right, chosen, positive), _f1(rejected, count - chosen, negative)
    recall = right / max(positive, 1), rejected / max(negative, 1)
    values = {"f1": own, "macro-f1": (own + other) / 2, "balanced-accuracy": sum(recall) / 2}
    best = int(chosen[values[measure].argmax()])
    below = falling[best] if best < count else 0.0
    return float((falling[best - 1] + below) / 2)


def _two(shares: Tensor) -> Tensor:
    """Probabilities of labels as those of two classes, [N k, 2]."""
    flat = shares.flatten()
    return torch.stack([1 - flat, flat], dim=1)
