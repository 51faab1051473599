"""Rules that select a trial by its validation results only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.runs.spec import Value

if TYPE_CHECKING:
    from gread.search.space import Space

NEIGHBOURS = 10  # trials that the rule `neighbours` averages, including the trial itself


@dataclass(frozen=True)
class Trial:
    """A setting with its validation results.

    Attributes:
        validation: Validation metric of every run; the worst value for a failed run.
        complete: Whether all runs were computed; a pruned trial has only the first ones.
        losses: Mean loss on the validation nodes, one per run; None for a failed run.
    """

    number: int
    settings: Mapping[str, Value]
    validation: tuple[float, ...]
    complete: bool = True
    losses: tuple[float | None, ...] = ()

    @property
    def mean_loss(self) -> float:
        """Mean validation loss over splits and seeds; infinite if a run failed."""
        return fmean(math.inf if loss is None else loss for loss in self.losses)

    @property
    def mean(self) -> float:
        """Mean validation metric over splits and seeds."""
        return fmean(self.validation)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, as if runs were independent, although splits share nodes."""
        if len(self.validation) < 2 or not math.isfinite(self.mean):
            return 0.0
        return stdev(self.validation) / len(self.validation) ** 0.5


RULES: Registry[Callable[[Sequence[Trial], Space], Trial]] = Registry("rule")


def select(trials: Sequence[Trial], space: Space, rule: str = "best-mean") -> Trial:
    """Select a complete trial by a rule of `RULES`, which uses validation only.

    The default rule selects the best mean validation metric over all splits and seeds, and the
    earliest trial on ties.

    Example:
        >>> from gread.search import read_space
        >>> trials = [Trial(0, {}, (0.7, 0.8)), Trial(1, {}, (0.9, 0.7))]
        >>> select(trials, read_space("gread-bs")).number
        1
    """
    choose = RULES[rule]
    complete = [trial for trial in trials if trial.complete]
    if not complete:
        raise InputError("a study must have a complete trial to select from, got none")
    return choose(sorted(complete, key=lambda trial: trial.number), space)


@RULES.register("best-mean")
def best_mean(trials: Sequence[Trial], space: Space) -> Trial:
    """Best mean validation metric, the earliest trial on ties."""
    return max(trials, key=lambda trial: space.objective.gain(trial.mean))


@RULES.register("lowest-loss")
def lowest_loss(trials: Sequence[Trial], space: Space) -> Trial:
    """Lowest mean validation loss at the selected epochs, the earliest trial on ties.

    On few nodes, the loss distinguishes settings of equal accuracy.
    """
    return min(trials, key=lambda trial: trial.mean_loss)


@RULES.register("one-standard-error")
def one_standard_error(trials: Sequence[Trial], space: Space) -> Trial:
    """Simplest setting whose mean is within one standard error of the best.

    Simplest means the fewest hidden channels, then the strongest weight decay, then the shortest
    time, if the space has these hyperparameters.
    """
    best, gain = best_mean(trials, space), space.objective.gain
    bound = gain(best.mean) - best.standard_error

    def complexity(trial: Trial) -> tuple[float, float, float]:
        named = ("hidden_channels", "weight_decay", "time")
        width, decay, time = (float(trial.settings.get(name) or 0.0) for name in named)
        return width, -decay, time

    return min((trial for trial in trials if gain(trial.mean) >= bound), key=complexity)


@RULES.register("neighbours")
def neighbours(trials: Sequence[Trial], space: Space) -> Trial:
    """Best average over the means of the ten nearest trials, including the trial itself.

    This reduces the influence of noise on the selection. The distance is `Space.distance`.
    """

    def smoothed(trial: Trial) -> float:
        near = sorted(trials, key=lambda other: space.distance(trial.settings, other.settings))
        return space.objective.gain(fmean(other.mean for other in near[:NEIGHBOURS]))

    return max(trials, key=smoothed)
