"""Rankings and tests of significance. Plain numbers in, plain numbers out.

NumPy and SciPy are imported where they compute: together they take half a second to load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class Standing:
    """Rank statistics of a model.

    Attributes:
        model: Its name.
        rank: Average over the datasets; equal accuracies share the mean of their ranks.
        accuracy: Average over the datasets.
        medals: How often it was first, second and third; equal accuracies get the same medal.
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
    """Two models on the same splits.

    Attributes:
        difference: Mean of the first less the second.
        wilcoxon: p-value of the paired Wilcoxon signed-rank test; 1 where nothing differs.
        t_test: p-value of the paired t-test; 1 where nothing differs.
        pairs: How many splits and seeds were compared.
    """

    difference: float
    wilcoxon: float
    t_test: float
    pairs: int


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare paired accuracies."""
    import numpy as np
    from scipy import stats

    apart = np.asarray(first) - np.asarray(second)
    if not apart.any():
        return Comparison(0.0, 1.0, 1.0, len(apart))
    with np.errstate(all="ignore"):
        t_test = stats.ttest_rel(first, second).pvalue if np.ptp(apart) > 0 else 0.0
    wilcoxon = float(stats.wilcoxon(apart).pvalue)
    return Comparison(float(apart.mean()), wilcoxon, float(t_test), len(apart))


def improves(first: Iterable[float], second: Iterable[float], level: float = 0.05) -> bool:
    """Whether the first is better: Wilcoxon's signed-rank test on pairs, one-sided."""
    import numpy as np
    from scipy import stats

    apart = np.array(list(first)) - np.array(list(second))
    return bool(apart.any()) and float(stats.wilcoxon(apart, alternative="greater").pvalue) < level


def unpaired_t_test(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """Student's statistic and its p-value; None where there are too few numbers or no spread."""
    import numpy as np
    from scipy import stats

    if min(len(first), len(second)) < 2 or np.ptp([*first]) == np.ptp([*second]) == 0:
        return None
    found = stats.ttest_ind(first, second)
    return float(found.statistic), float(found.pvalue)
