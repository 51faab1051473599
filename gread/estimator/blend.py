"""Greedy blend of several predictors, and temperature scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from gread.estimator.scores import Figures

ROUNDS = 25
"""Number of times that a predictor is added to a blend."""


def blend(found: Sequence[Figures], gain: Callable[[Figures], tuple[float, ...]]) -> list[float]:
    """Weights of the best mean of predictors: greedy selection with replacement.

    Caruana et al., ICML 2004. Each of `ROUNDS` rounds adds the predictor that gains most. The best
    blend of all rounds is returned, so no single predictor is better.

    Args:
        found: Predictions [n, k] of every predictor on the same nodes.
        gain: Objective to maximize, as a function of predictions; tuples are compared in order.

    Example:
        >>> good, bad = np.array([[0.9, 0.1]]), np.array([[0.2, 0.8]])
        >>> blend([bad, good], lambda p: (p[0, 0],))
        [0.0, 1.0]
    """
    counts = np.zeros(len(found), dtype=int)
    total = np.zeros_like(found[0])
    reached: tuple[float, ...] | None = None
    kept = counts
    for size in range(1, ROUNDS + 1):
        gains = [gain((total + one) / size) for one in found]
        best = max(range(len(found)), key=gains.__getitem__)
        counts[best] += 1
        total = total + found[best]
        if reached is None or gains[best] > reached:
            reached, kept = gains[best], counts.copy()
    return (kept / kept.sum()).tolist()


def mean(weights: Sequence[float], found: Iterable[Figures]) -> Figures:
    """Σ w p."""
    return reduce(np.add, (w * p for w, p in zip(weights, found, strict=True)))


def temperature(probabilities: Figures, y: NDArray[np.int64]) -> float:
    """T for which p^(1/T), normalised, has the highest likelihood: Guo et al., ICML 2017.

    Example:
        >>> sure = np.array([[0.99, 0.01]] * 10)
        >>> temperature(sure, np.array([0] * 8 + [1] * 2)) > 2
        True
    """
    given, truth = torch.from_numpy(probabilities), torch.from_numpy(y).unsqueeze(1)

    def loss(log_t: float) -> float:
        return -tempered(given, float(np.exp(log_t))).gather(1, truth).log().mean().item()

    found = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))


def tempered(probabilities: Tensor, t: float) -> Tensor:
    """p^(1/T), normalised.

    Example:
        >>> tempered(torch.tensor([[0.8, 0.2]]), 1.0)
        tensor([[0.8000, 0.2000]])
    """
    logits = probabilities.clamp_min(1e-12).log() / t
    powers = (logits - logits.amax(1, keepdim=True)).exp().clamp_min(1e-12)
    return powers / powers.sum(1, keepdim=True)
