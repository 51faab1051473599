"""Measures of predictions for classes, labels and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gread.training.metrics import METRICS, Predictions

BINS = 10
RESAMPLES = 40

Figures: TypeAlias = NDArray[np.float64]
"""Predictions [N, k]: probabilities of classes or labels, or numbers."""


@dataclass(frozen=True)
class Headline:
    """The metric by which models are compared.

    Attributes:
        metric: A name of ``gread.training.METRICS``.
        value: Value of the metric; None if undefined.
        error: Standard error: √(a (1 − a) / n) for an accuracy a, otherwise from 40 bootstrap
            resamples of the nodes.
    """

    metric: str
    value: float | None
    error: float

    @property
    def gain(self) -> float:
        """The value with a sign such that higher is better."""
        return -np.inf if self.value is None else METRICS[self.metric].sign * self.value


def apart(metric: str, difference: float) -> str:
    """Format the size of a difference of a metric, in points if its values are fractions."""
    points = METRICS[metric].is_fraction
    return f"{100 * abs(difference):.1f} points" if points else f"{abs(difference):.4g}"


def headline(metric: str, outputs: Tensor, y: Tensor) -> Headline:
    """Compute a metric of outputs [n, k] and targets."""
    value, count = value_of(metric, outputs, y), len(y)
    if not np.isfinite(value):
        return Headline(metric, None, 0.0)
    if metric == "accuracy":
        return Headline(metric, value, (value * (1 - value) / count) ** 0.5)
    random = np.random.default_rng(0)
    rows = (torch.from_numpy(random.integers(count, size=count)) for _ in range(RESAMPLES))
    found = np.array([value_of(metric, outputs[some], y[some]) for some in rows])
    found = found[np.isfinite(found)]
    return Headline(metric, value, float(found.std()) if len(found) else 0.0)


def value_of(metric: str, outputs: Tensor, y: Tensor) -> float:
    """Compute a metric over all nodes; NaN if undefined."""
    everyone = torch.ones(1, len(y), dtype=torch.float64)
    return METRICS[metric].of(Predictions(outputs, y, everyone, everyone.sum(-1))).item()


@dataclass(frozen=True)
class Scores:
    """Measures of predictions for nodes whose class is known.

    Attributes:
        accuracy, macro_f1: As in scikit-learn, over the classes that have nodes.
        roc_auc: Mean over the classes, each against the others; None if there is only one class.
        confusion: Numbers of nodes, one row per true class, one column per predicted class.
        calibration_error: Mean distance between confidence and accuracy over ten bins of
            confidence, weighted by their nodes.
        bins: Mean confidence, accuracy and number of nodes of every bin that has nodes.
        average_precision: Value of the rarer of two classes, or the mean over more classes; None if
            there is only one class.
        headline: Metric by which models are compared.
        uncalibrated: Calibration error without the temperature of a blend; None for other models.
    """

    nodes: int
    accuracy: float
    macro_f1: float
    roc_auc: float | None
    confusion: tuple[tuple[int, ...], ...]
    calibration_error: float
    bins: Bins
    average_precision: float | None
    headline: Headline
    uncalibrated: float | None = None

    def measures(self) -> Mapping[str, float | None]:
        """Measures by their usual names."""
        return {
            "accuracy": self.accuracy,
            "macro-F1": self.macro_f1,
            "ROC-AUC": self.roc_auc,
            "average precision": self.average_precision,
            "calibration error": self.calibration_error,
        }


def score(
    y: NDArray[np.int64],
    probabilities: Figures,
    predicted: NDArray[np.int64] | None = None,
    metric: str = "accuracy",
) -> Scores:
    """Compare classes [n] with probabilities [n, classes].

    Args:
        y: The true classes.
        probabilities: Probability of every class.
        predicted: The predicted classes, by default the most probable ones.
        metric: Metric by which models are compared.

    Example:
        >>> score(np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]])).confusion
        ((1, 0), (1, 0))
    """
    from sklearn.metrics import confusion_matrix, f1_score  # slow to import

    if predicted is None:
        predicted = probabilities.argmax(axis=1)
    right = predicted == y
    confusion = confusion_matrix(y, predicted, labels=range(probabilities.shape[1]))
    bins = _bins(probabilities, predicted, right)
    present = np.unique(y)
    outputs, truth = log(probabilities), torch.from_numpy(y)
    precision = value_of("average-precision", outputs, truth) if len(present) > 1 else None
    decided = log(np.eye(probabilities.shape[1])[predicted]) if metric in DECISIONS else outputs
    return Scores(
        nodes=len(y),
        accuracy=float(right.mean()),
        macro_f1=float(f1_score(y, predicted, labels=present, average="macro", zero_division=0)),
        roc_auc=_roc_auc(y, probabilities),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        calibration_error=_distance(bins),
        bins=bins,
        average_precision=precision,
        headline=headline(metric, decided, truth),
    )


DECISIONS = ("accuracy", "balanced-accuracy", "macro-f1")
"""Metrics of the predicted classes; other metrics use probabilities."""


def log(probabilities: Figures) -> Tensor:
    """Class scores with a softmax equal to these probabilities."""
    return torch.from_numpy(np.log(np.maximum(probabilities, 1e-12)))


def log_odds(probabilities: Figures) -> Tensor:
    """Label scores with a sigmoid equal to these probabilities."""
    inside = np.clip(probabilities, 1e-12, 1 - 1e-12)
    return torch.from_numpy(np.log(inside / (1 - inside)))


def _roc_auc(y: NDArray[np.int64], probabilities: Figures) -> float | None:
    """Mean one-vs-rest ROC-AUC over the classes that some nodes have and others do not."""
    from sklearn.metrics import roc_auc_score

    found = [
        roc_auc_score(y == label, probabilities[:, label])
        for label in np.unique(y)
        if 0 < (y == label).sum() < len(y)
    ]
    return float(np.mean(found)) if found else None


Bins: TypeAlias = tuple[tuple[float, float, int], ...]
"""Mean confidence, accuracy and number of nodes of every bin that has nodes."""


def _bins(probabilities: Figures, predicted: NDArray[np.int64], right: NDArray[np.bool_]) -> Bins:
    confidence = probabilities[np.arange(len(right)), predicted]
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return tuple(
        (float(confidence[inside].mean()), float(right[inside].mean()), int(inside.sum()))
        for number in range(BINS)
        if (inside := place == number).any()
    )


def _distance(bins: Bins) -> float:
    """The calibration error."""
    return sum(n * abs(sure - share) for sure, share, n in bins) / sum(n for *_, n in bins)


def calibration_error(
    y: NDArray[np.int64], probabilities: Figures, predicted: NDArray[np.int64]
) -> float:
    """Mean distance between confidence and accuracy, see `Scores`.

    Example:
        >>> calibration_error(np.array([0, 0]), np.array([[0.75, 0.25]] * 2), np.array([0, 0]))
        0.25
    """
    return _distance(_bins(probabilities, predicted, predicted == y))


@dataclass(frozen=True)
class LabelScore:
    """Measures of one label; None if all nodes have it, or none has."""

    label: str
    nodes: int
    f1: float
    roc_auc: float | None
    average_precision: float | None


@dataclass(frozen=True)
class LabelScores:
    """Measures of predictions for nodes whose labels are known.

    Attributes:
        micro_f1, macro_f1: F1 over all labels together, and its mean over the labels.
        roc_auc, average_precision: Mean over the labels; None if no label has both kinds of nodes.
        labels: Measures of each label.
        headline: Metric by which models are compared.
    """

    nodes: int
    micro_f1: float
    macro_f1: float
    roc_auc: float | None
    average_precision: float | None
    labels: tuple[LabelScore, ...]
    headline: Headline

    def measures(self) -> Mapping[str, float | None]:
        """Measures by their usual names."""
        return {
            "micro-F1": self.micro_f1,
            "macro-F1": self.macro_f1,
            "macro ROC-AUC": self.roc_auc,
            "average precision": self.average_precision,
        }


def score_labels(
    names: tuple[str, ...],
    y: Figures,
    probabilities: Figures,
    predicted: NDArray[np.bool_],
    metric: str,
) -> LabelScores:
    """Compare labels [n, k], as 0 and 1, with their probabilities and with predicted ones."""
    each = []
    for place, name in enumerate(names):
        truth, outputs = torch.from_numpy(y[:, [place]]), log_odds(probabilities[:, [place]])
        both = 0 < truth.sum() < len(y)
        ranks = ("roc-auc", "average-precision")
        found = [value_of(rank, outputs, truth) if both else None for rank in ranks]
        f1 = value_of("micro-f1", _decided(predicted[:, [place]]), truth)
        each.append(LabelScore(str(name), int(truth.sum()), f1, *found))
    decided, truth = _decided(predicted), torch.from_numpy(y)
    outputs = decided if metric == "micro-f1" else log_odds(probabilities)
    return LabelScores(
        nodes=len(y),
        micro_f1=value_of("micro-f1", decided, truth),
        macro_f1=float(np.mean([one.f1 for one in each])),
        roc_auc=_mean([one.roc_auc for one in each]),
        average_precision=_mean([one.average_precision for one in each]),
        labels=tuple(each),
        headline=headline(metric, outputs, truth),
    )


def _decided(predicted: NDArray[np.bool_]) -> Tensor:
    return torch.from_numpy(np.where(predicted, 1.0, -1.0))


def _mean(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


@dataclass(frozen=True)
class NumberScores:
    """Measures of predictions for nodes whose number is known.

    Attributes:
        mae: Mean of |y − prediction|, in the unit of the target.
        rmse: √ of the mean of (y − prediction)².
        r2: 1 − Σ (y − prediction)² / Σ (y − mean of y)²; None if all y are equal.
        headline: Metric by which models are compared.
    """

    nodes: int
    mae: float
    rmse: float
    r2: float | None
    headline: Headline

    def measures(self) -> Mapping[str, float | None]:
        """Measures by their usual names."""
        return {"R²": self.r2, "MAE": self.mae, "RMSE": self.rmse}


def score_numbers(y: Figures, values: Figures, metric: str) -> NumberScores:
    """Compare numbers [n] with predicted ones [n].

    Example:
        >>> score_numbers(np.array([0.0, 2.0]), np.array([0.5, 1.5]), "r2").r2
        0.75
    """
    outputs, truth = torch.from_numpy(values[:, None]), torch.from_numpy(y)
    r2 = value_of("r2", outputs, truth) if np.ptp(y) > 0 else None
    return NumberScores(
        nodes=len(y),
        mae=value_of("mae", outputs, truth),
        rmse=float(np.sqrt(np.square(y - values).mean())),
        r2=r2,
        headline=headline(metric, outputs, truth),
    )


AnyScores: TypeAlias = Scores | LabelScores | NumberScores
