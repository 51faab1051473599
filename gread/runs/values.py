"""Values of metrics for readers: fractions in percent, others in their own unit."""

from __future__ import annotations

from gread.training.config import TrainConfig


def is_fraction(metric: str) -> bool:
    """Whether values of a metric are fractions; unknown, and so false, if it is not registered.

    Example:
        >>> [name for name in ("accuracy", "nll", "roc-auc", "r2") if is_fraction(name)]
        ['accuracy', 'roc-auc']
    """
    from gread.training.metrics import METRICS  # imports torch

    return metric in METRICS and METRICS[metric].is_fraction


def measured(value: float | None, train: TrainConfig) -> str:
    """Format a value of the metric of a training.

    Example:
        >>> measured(0.5, TrainConfig()), measured(0.5, TrainConfig(metric="nll"))
        ('50.00', '0.5000')
    """
    if value is None:
        return "–"
    usual = (train.loss, train.metric) == (TrainConfig.loss, None)  # accuracy
    return f"{100 * value:.2f}" if usual or is_fraction(_metric(train)) else f"{value:.4f}"


def _metric(train: TrainConfig) -> str:
    from gread.training.metrics import metric_name  # imports torch

    return metric_name(train)
