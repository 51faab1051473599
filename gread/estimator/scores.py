"""How good predictions are: how often right, in every class, and how well they know it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 10


@dataclass(frozen=True)
class Scores:
    """Of predictions for nodes whose class is known.

    Attributes:
        nodes: How many.
        accuracy: Share of them that is right.
        macro_f1: Mean over the classes of the harmonic mean of precision and recall.
        roc_auc: Mean over the classes of the chance that a node of the class is given a higher
            probability of it than another node; None where there is one class alone.
        confusion: A row a true class, a column a predicted one, numbers of nodes.
        calibration_error: Mean distance between confidence and accuracy, over ten bins of
            confidence, each by its nodes.
        bins: For every bin that has nodes: mean confidence, accuracy, number of nodes.
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
    from sklearn.metrics import f1_score  # slow to import

    classes = probabilities.shape[1]
    predicted = probabilities.argmax(axis=1)
    right = predicted == y
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (y, predicted), 1)
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
