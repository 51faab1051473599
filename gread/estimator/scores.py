"""Measures of predictions: accuracy, per-class measures and calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 10


@dataclass(frozen=True)
class Scores:
    """Measures of predictions for nodes whose class is known.

    Attributes:
        accuracy, macro_f1: As in scikit-learn, over the classes that have nodes.
        roc_auc: Mean over the classes, each against the others; None if there is only one class.
        confusion: Numbers of nodes, a row for each true class, a column for each predicted one.
        calibration_error: Mean distance between confidence and accuracy over ten bins of
            confidence, weighted by their nodes.
        bins: Mean confidence, accuracy and number of nodes of every bin that has nodes.
    """

    nodes: int
    accuracy: float
    macro_f1: float
    roc_auc: float | None
    confusion: tuple[tuple[int, ...], ...]
    calibration_error: float
    bins: tuple[tuple[float, float, int], ...]


def score(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> Scores:
    """Compares classes [n] with probabilities [n, classes].

    Example:
        >>> score(np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]])).confusion
        ((1, 0), (1, 0))
    """
    from sklearn.metrics import confusion_matrix, f1_score  # slow to import

    predicted = probabilities.argmax(axis=1)
    right = predicted == y
    confusion = confusion_matrix(y, predicted, labels=range(probabilities.shape[1]))
    bins = _bins(probabilities.max(axis=1), right)
    present = np.unique(y)
    return Scores(
        nodes=len(y),
        accuracy=float(right.mean()),
        macro_f1=float(f1_score(y, predicted, labels=present, average="macro", zero_division=0)),
        roc_auc=_roc_auc(y, probabilities),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        calibration_error=sum(n * abs(sure - share) for sure, share, n in bins) / len(y),
        bins=bins,
    )


def _roc_auc(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float | None:
    """One class against the others, for every class that has nodes on both sides."""
    from sklearn.metrics import roc_auc_score

    found = [
        roc_auc_score(y == label, probabilities[:, label])
        for label in np.unique(y)
        if 0 < (y == label).sum() < len(y)
    ]
    return float(np.mean(found)) if found else None


def _bins(
    confidence: NDArray[np.float64], right: NDArray[np.bool_]
) -> tuple[tuple[float, float, int], ...]:
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return tuple(
        (float(confidence[inside].mean()), float(right[inside].mean()), int(inside.sum()))
        for number in range(BINS)
        if (inside := place == number).any()
    )
