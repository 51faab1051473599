"""Comparison of two models on their common datasets, splits and seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import TypeAlias

from gread.base.errors import InputError
from gread.models.catalog import MODELS
from gread.report.statistics import Comparison, compare as compare_pairs
from gread.runs.archive import known_results
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.runs.values import is_fraction

Runs: TypeAlias = dict[tuple[int, int], Result]
"""Results by split and seed."""

PREPARATION = ("directed", "normalize_features", "standardize_features")
"""Options of a dataset that change neither its nodes nor its splits."""

Task: TypeAlias = tuple[str, tuple[tuple[str, Value], ...]]
"""Metric of a run, and the options of its dataset without `PREPARATION`."""


@dataclass(frozen=True)
class RunComparison(Comparison):
    """Comparison of two models by the metric of their runs on the test nodes.

    Attributes:
        metric: Name of the metric.
        percent: Whether the metric is a fraction, and so ``difference`` is in percentage points.
    """

    metric: str
    percent: bool


def compare(
    first: str, second: str, *, store: str | Path, dataset: str | None = None
) -> dict[str, RunComparison]:
    """Compare the test values of two models pairwise, by dataset.

    Differences of fractions such as accuracies are in percentage points. Those of other metrics,
    such as nll, are in the unit of the metric.

    If a model has several settings on a dataset, the pair of settings with the most common runs
    is compared, and the latest of these on ties. Both settings have the same metric, and the same
    graph if options of the dataset define it.

    Args:
        first: A name of ``gread.MODELS``.
        second: Another name of ``gread.MODELS``.
        store: Folder of the results; results of the package are included, see `known_results`.
        dataset: Only this dataset.

    Raises:
        InputError: The models have no run in common.

    Example:
        >>> import tempfile
        >>> from gread.runs import compare, train
        >>> store = tempfile.mkdtemp()
        >>> for model in ("gcn", "mlp"):
        ...     _ = train("csbm", model, splits=[0, 1], settings={"epochs": 2}, store=store)
        >>> compare("gcn", "mlp", dataset="csbm", store=store)["csbm"].pairs >= 2
        True
    """
    for name in (first, second):
        MODELS[name]  # raises an error for a misspelt name
    known = known_results(store).values()
    one_by, two_by = (_settings(name, known) for name in (first, second))
    found: dict[str, RunComparison] = {}
    for name in one_by:
        if name in two_by and dataset in (None, name):
            tasks = [task for task in one_by[name] if task in two_by[name]]
            pairs = chain(*(product(one_by[name][task], two_by[name][task]) for task in tasks))
            one, two = max(pairs, key=lambda pair: _worth(*pair), default=({}, {}))
            if keys := sorted(one.keys() & two.keys()):
                metric, _ = _task(one[keys[0]].spec)
                unit = 100 if (percent := is_fraction(metric)) else 1
                tests = ([unit * (runs[key].test or 0.0) for key in keys] for runs in (one, two))
                pairwise = dataclasses.asdict(compare_pairs(*tests))
                found[name] = RunComparison(**pairwise, metric=metric, percent=percent)
    if not found:
        raise InputError(f"{first} and {second} must have runs in common, got none in {store}")
    return found


def _settings(model: str, results: Iterable[Result]) -> dict[str, dict[Task, list[Runs]]]:
    """Runs with a test value of each setting of the model, by dataset and task."""
    found: dict[str, dict[RunSpec, Runs]] = {}
    for result in results:
        spec = result.spec
        if spec.model == model and result.test is not None:
            setting = dataclasses.replace(spec, split=0, seed=0, record=())
            runs = found.setdefault(spec.dataset, {}).setdefault(setting, {})
            runs[spec.split, spec.seed] = result
    tasks: dict[str, dict[Task, list[Runs]]] = {}
    for dataset, settings in found.items():
        for setting, runs in settings.items():
            tasks.setdefault(dataset, {}).setdefault(_task(setting), []).append(runs)
    return tasks


def _task(spec: RunSpec) -> Task:
    from gread.training.metrics import metric_name  # imports torch

    options = (pair for pair in spec.options.items() if pair[0] not in PREPARATION)
    return metric_name(spec.train), tuple(sorted(options))


def _worth(one: Runs, two: Runs) -> tuple[int, str]:
    """Number of common runs of two settings, then the time when the last of them finished."""
    common = one.keys() & two.keys()
    last = max((runs[key].finished for runs in (one, two) for key in common), default="")
    return len(common), last
