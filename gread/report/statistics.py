"""Rankings and significance tests, from plain numbers to plain numbers.

NumPy and SciPy are imported inside functions: together they take half a second to load.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

DIGITS = 9
"""Decimal digits of a difference; further ones are rounding errors."""


@dataclass(frozen=True)
class Standing:
    """Rank statistics of a model.

    Attributes:
        model: Name of the model.
        rank: Average rank over the datasets; equal accuracies share the mean of their ranks.
        accuracy: Average accuracy over the datasets.
        medals: Number of first, second and third places; equal accuracies get the same place.
    """

    model: str
    rank: float
    accuracy: float
    medals: tuple[int, int, int]


def standings(accuracies: Mapping[str, Mapping[str, float]]) -> list[Standing]:
    """The models by average rank, the best first.

    Args:
        accuracies: Model to dataset to mean accuracy; all models must have the same datasets.
    """
    import numpy as np
    from scipy import stats

    models = list(accuracies)
    datasets = list(next(iter(accuracies.values())))
    values = np.array([[accuracies[model][name] for name in datasets] for model in models])
    shared = stats.rankdata(-values, axis=0, method="average")
    places = stats.rankdata(-values, axis=0, method="dense")
    found = [
        Standing(
            model,
            float(shared[row].mean()),
            fmean(values[row]),
            tuple(int((places[row] == medal).sum()) for medal in (1, 2, 3)),  # type: ignore[arg-type]
        )
        for row, model in enumerate(models)
    ]
    return sorted(found, key=lambda standing: standing.rank)


@dataclass(frozen=True)
class Comparison:
    """Comparison of two models on the same splits.

    Attributes:
        difference: Mean of the first minus the second.
        wilcoxon: p-value of the Wilcoxon signed-rank test; 1 if all differences are zero.
        t_test: p-value of the paired t-test; 1 if all differences are zero, and for a single pair.
        pairs: Number of compared pairs of runs, one per split and seed.
    """

    difference: float
    wilcoxon: float
    t_test: float
    pairs: int


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare paired accuracies."""
    difference, t_test = paired_t_test(first, second)
    return Comparison(difference, signed_rank_test(first, second), t_test, len(first))


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Mean of the first minus the second, and the p-value.

    The p-value is 1 if all differences are zero, and for a single pair, which shows no deviation.

    Example:
        >>> difference, p = paired_t_test([3.0, 5.0, 7.0], [2.0, 3.0, 4.0])
        >>> difference, round(p, 3)
        (2.0, 0.074)
    """
    import numpy as np
    from scipy import stats

    apart = np.round(np.asarray(first) - np.asarray(second), DIGITS)
    if len(apart) == 1 or not apart.any():
        return float(apart.mean()), 1.0
    p = float(stats.ttest_1samp(apart, 0.0).pvalue) if np.ptp(apart) > 0 else 0.0
    return float(apart.mean()), p


def signed_rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """p-value of the Wilcoxon signed-rank test; 1 if all differences are zero.

    Example:
        >>> signed_rank_test([2.0, 4.0, 6.0, 8.0], [1.0, 2.0, 3.0, 4.0])
        0.125
    """
    import numpy as np

    apart = np.round(np.asarray(first) - np.asarray(second), DIGITS)
    return _wilcoxon(tuple(apart)) if apart.any() else 1.0


def improves(first: Iterable[float], second: Iterable[float], level: float = 0.05) -> bool:
    """Whether the first is better by a one-sided Wilcoxon signed-rank test."""
    import numpy as np

    apart = np.array(list(first)) - np.array(list(second))
    return bool(apart.any()) and _wilcoxon(tuple(apart), alternative="greater") < level


@cache  # with ties, SciPy enumerates all signs, which takes a fifth of a second
def _wilcoxon(differences: tuple[float, ...], **options: str) -> float:
    """p-value of the signed-rank test, by the normal approximation if differences are zero."""
    from scipy import stats

    with warnings.catch_warnings():  # raised by SciPy before 1.13
        warnings.filterwarnings("ignore", ".*normal approximation")
        return float(stats.wilcoxon(differences, **options).pvalue)


def unpaired_t_test(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """t statistic and p-value of Student's test; None with too few numbers or without spread."""
    import numpy as np
    from scipy import stats

    if min(len(first), len(second)) < 2 or np.ptp([*first]) == np.ptp([*second]) == 0:
        return None
    found = stats.ttest_ind(first, second)
    return float(found.statistic), float(found.pvalue)


def t_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t-distribution.

    Example:
        >>> round(t_quantile(0.975, 9), 3)
        2.262
    """
    from scipy import stats

    return float(stats.t.ppf(share, freedom))


def holm(chances: Sequence[float]) -> list[float]:
    """p-values corrected for multiple testing by Holm's step-down method.

    Example:
        >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03, 0.005])]
        [0.03, 0.06, 0.06, 0.02]
    """
    order = sorted(range(len(chances)), key=lambda k: chances[k])
    found, largest = [0.0] * len(chances), 0.0
    for place, k in enumerate(order):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[k]))
        found[k] = largest
    return found


def friedman(accuracies: Mapping[str, Mapping[str, float]]) -> tuple[float, float] | None:
    """Statistic and p-value of Friedman's test for differences in the ranks of models.

    Args:
        accuracies: Model to dataset to mean accuracy; all models must have the same datasets.

    Returns:
        None with fewer than three models or two datasets, or if all ranks are equal.
    """
    import numpy as np
    from scipy import stats

    values = np.array([list(row.values()) for row in accuracies.values()])
    if len(values) < 3 or values.shape[1] < 2 or not np.ptp(values, axis=0).any():
        return None
    found = stats.friedmanchisquare(*values)
    return float(found.statistic), float(found.pvalue)


def critical_difference(models: int, datasets: int, level: float = 0.05) -> float:
    """Smallest significant difference of two average ranks in Nemenyi's test.

    Paper: Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 2006.

    Example:
        >>> round(critical_difference(4, 14), 2)
        1.25
    """
    from scipy import stats

    quantile = float(stats.studentized_range.ppf(1 - level, models, float("inf")))
    return quantile / 2**0.5 * (models * (models + 1) / (6 * datasets)) ** 0.5


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Largest groups of models whose average ranks differ by less than ``difference``.

    Args:
        ranks: Average ranks in rising order.
        difference: The critical difference.

    Returns:
        The indices of the first and the last member of each group of several models.

    Example:
        >>> cliques([1.0, 1.5, 2.4, 4.0], 1.2)
        [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(
            k for k in range(first, len(ranks)) if ranks[k] - rank < difference or k == first
        )
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
