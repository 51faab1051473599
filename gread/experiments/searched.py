"""Comparisons in which every model is searched with the same budget.

A section of ``protocol.toml`` defines a comparison: models, budget and drawn hyperparameters. The
preset source and the archive of the same name contain the selected settings and their runs.
``studies/search_settings.py`` and ``studies/report_settings.py`` write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from gread.base.errors import InputError
from gread.experiments.accuracy import number
from gread.experiments.protocol import PROTOCOL, runs_of
from gread.report.statistics import standings
from gread.runs.presets import Preset, find_preset, split_options, split_settings
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.training.config import TrainConfig


class Budget(NamedTuple):
    """Budget of every model on a graph.

    Attributes:
        draws: Number of random settings, and of settings near the best of them.
        search: Splits on which all settings are compared.
        finalists: Number of the best settings that are compared on all splits; 1 to compare none.
        seeds: Seeds of the final runs.
        fixed: Hyperparameters that are not drawn.
    """

    draws: int
    search: Sequence[int]
    finalists: int
    seeds: Sequence[int]
    fixed: Mapping[str, Value]

    @property
    def settings(self) -> int:
        """Number of settings that are compared."""
        return 2 * self.draws

    def runs(self, splits: int) -> int:
        """Number of runs of the search on a graph with ``splits`` splits.

        Example:
            >>> Budget(24, [0, 1, 2], 6, [1], {}).runs(splits=10)
            186
        """
        further = self.finalists * (splits - len(self.search)) if self.finalists > 1 else 0
        return self.settings * len(self.search) + further


@dataclass(frozen=True)
class Comparison:
    """A comparison with one budget for all models.

    Attributes:
        name: Name of the section of ``protocol.toml``, of the preset source and of the archive.

    Example:
        >>> Comparison("honest").training_of("minesweeper")
        {'epochs': 3000, 'metric': 'roc-auc'}
    """

    name: str

    @property
    def about(self) -> Mapping[str, Any]:
        """The section of the protocol."""
        section: Mapping[str, Any] = PROTOCOL[self.name]
        return section

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.about["models"])

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of all graphs."""
        return tuple(name for part in self.about["graphs"].values() for name in part)

    @property
    def record(self) -> tuple[str, ...]:
        """Records that final runs with several seeds keep."""
        return tuple(self.about.get("record", ()))

    def training_of(self, dataset: str) -> dict[str, Value]:
        """Epochs and metric, the same for every model on a graph."""
        epochs = self.about["epochs"]
        found: dict[str, Value] = {"epochs": epochs.get(dataset, epochs["others"])}
        if (metric := self.metric_of(dataset)) is not None:
            found["metric"] = metric
        return found

    def metric_of(self, dataset: str) -> str | None:
        """The metric of a graph; None for the accuracy."""
        metric: str | None = self.about.get("metric", {}).get(dataset)
        return metric

    def budget_of(self, dataset: str) -> Budget:
        """The budget for the size of the graph, from ``sizes`` of the section."""
        sizes = self.about["sizes"]
        named = (size for size in sizes.values() if dataset in size.get("datasets", ()))
        size = next(named, sizes["small"])
        return Budget(*(size[name] for name in Budget._fields))

    def splits_of(self, dataset: str) -> int:
        """Number of splits of the graph that are used."""
        return int(self.about.get("splits", {}).get(dataset, 10))

    def selected(self, model: str, dataset: str) -> Preset | None:
        """The selected settings; None if the search was not done."""
        try:
            return find_preset(model, dataset, self.name)
        except InputError:
            return None

    def runs_of(
        self,
        model: str,
        dataset: str,
        settings: Preset | Mapping[str, Value],
        seeds: Sequence[int] | None = None,
        **change: Value,
    ) -> list[RunSpec]:
        """Runs of a setting from seeds that the search has not used."""
        if not isinstance(settings, Preset):
            own, options = split_options(settings)
            hyper, train = split_settings(model, own)
            config = TrainConfig(**train)  # type: ignore[arg-type]
            settings = Preset(self.name, hyper, config, options)
        return runs_of(
            model,
            dataset,
            preset=settings,
            change=change,
            seeds=self.budget_of(dataset).seeds if seeds is None else seeds,
            splits=self.splits_of(dataset),
        )

    def specs(
        self, datasets: Sequence[str] | None = None, models: Sequence[str] | None = None
    ) -> list[RunSpec]:
        """Final runs of every model and graph with selected settings; by default of all."""
        return [
            spec
            for dataset in (self.datasets if datasets is None else datasets)
            for model in (self.models if models is None else models)
            if (preset := self.selected(model, dataset)) is not None
            for spec in self.runs_of(model, dataset, preset)
        ]

    def apart(self, results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
        """Results of final runs of this comparison, and the others."""
        keys = {spec.key for spec in self.specs()}
        own = [result for result in results if result.spec.key in keys]
        return own, [result for result in results if result.spec.key not in keys]


def by_model_and_graph(results: Iterable[Result]) -> Iterator[tuple[tuple[str, str], Result]]:
    """Results with their model and their graph."""
    return (((r.spec.model, r.spec.dataset), r) for r in results)


def average(values: Iterable[float | None]) -> str:
    """Format the mean over all graphs; empty if a graph has no number."""
    given = list(values)
    known = [value for value in given if value is not None]
    return number((fmean(known),)) if given and len(known) == len(given) else ""


def average_ranks(
    means: Mapping[tuple[str, str], float], models: Sequence[str], datasets: Sequence[str]
) -> dict[str, float]:
    """Average ranks, the best first, of the models that have a number on every graph."""
    whole = {
        model: {d: means[model, d] for d in datasets}
        for model in models
        if all((model, d) in means for d in datasets)
    }
    return {s.model: s.rank for s in standings(whole)} if len(whole) > 1 and datasets else {}
