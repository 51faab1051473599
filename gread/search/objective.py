"""Validation metric by which trials are compared, and its direction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, NamedTuple

from gread.base.errors import InputError
from gread.training.config import TrainConfig

if TYPE_CHECKING:
    from gread.training.metrics import Metric


class Objective(NamedTuple):
    """A metric of ``gread.training.METRICS`` with its name."""

    name: str
    metric: Metric

    @property
    def direction(self) -> str:
        """Direction in Optuna's terms."""
        return "maximize" if self.metric.higher_is_better else "minimize"

    @property
    def failed(self) -> float:
        """Value of a failed run: the worst value of the metric."""
        return 0.0 if self.metric.is_fraction else -self.metric.sign * math.inf

    def gain(self, value: float) -> float:
        """Value with its sign chosen so that higher is better."""
        return self.metric.sign * value

    def shown(self, value: float) -> str:
        """Format a value; fractions in percent."""
        return f"{100 * value:.2f}" if self.metric.is_fraction else f"{value:.4f}"

    def short(self, value: float) -> str:
        """Format a value for a sentence; fractions with a percent sign."""
        return f"{value:.1%}" if self.metric.is_fraction else f"{value:.3f}"

    def summary(self, values: Sequence[float]) -> str:
        """Format mean and standard deviation."""
        mean = fmean(values)
        spread = pstdev(values) if math.isfinite(mean) else math.nan
        return f"{self.shown(mean)} ± {self.shown(spread)}"


def objective_of(settings: Mapping[str, Any]) -> Objective:
    """Metric of training settings, or of all settings in a space.

    Raises:
        InputError: The space has several metrics, whose values cannot be compared.

    Example:
        >>> objective_of({"metric": "nll", "lr": [0.1, 0.01]}).direction
        'minimize'
    """
    from gread.training.losses import LOSSES  # imports torch, which takes seconds
    from gread.training.metrics import metric_of

    losses, metrics = (
        given if isinstance(given := settings.get(name, default), list) else [given]
        for name, default in (("loss", TrainConfig.loss), ("metric", None))
    )
    found = {}
    for loss, metric in product(losses, metrics):
        config = TrainConfig(loss=loss, metric=metric)
        found[metric or LOSSES[loss].metric] = metric_of(config)
    if len(found) > 1:
        raise InputError(f"trials must be compared by one metric, got {', '.join(found)}")
    return Objective(*found.popitem())
