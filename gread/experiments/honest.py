"""The honest comparison: strong competitors, one budget, graphs beyond the paper's.

Every model has the same number of random settings, the same splits and epochs, and is selected by
the same validation metric: the section ``honest`` of ``protocol.toml``. What was selected is in
the presets of the source ``honest``. docs/gread-x.md tells how.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any, NamedTuple

from gread.base.errors import InputError
from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import measured, number
from gread.experiments.curves import Measured, accuracies, means_of, said_of_failed, said_of_fewer
from gread.experiments.protocol import PROTOCOL, PUBLISHED, runs_of
from gread.models.catalog import MODELS
from gread.report.claims import listed
from gread.report.statistics import compare, standings
from gread.report.tables import Cell, TextTable, places
from gread.runs.presets import Preset, find_preset, split_options, split_settings
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.training.config import TrainConfig

BUDGET: Mapping[str, Any] = PROTOCOL["honest"]
OURS, REFERENCE = "gread-x", "tuned-gcn"
GRAPHS: tuple[str, ...] = (*BUDGET["newer"], *BUDGET["beyond"])
NINE: tuple[str, ...] = tuple(BUDGET["nine"])
ABLATED: Mapping[str, Any] = PROTOCOL["honest-ablation"]


def training_of(dataset: str) -> dict[str, Value]:
    """Epochs and metric, the same for every model on a graph."""
    found: dict[str, Value] = {"epochs": BUDGET["epochs"].get(dataset, BUDGET["epochs"]["others"])}
    if dataset in BUDGET["metric"]:
        found["metric"] = BUDGET["metric"][dataset]
    return found


class Budget(NamedTuple):
    """What every model has on a graph of a size.

    Attributes:
        draws: Random settings, and again as many near the best of them.
        search: Splits on which all settings are compared.
        finalists: How many of the best are compared on all splits.
        seeds: Those of the final runs.
        fixed: Hyperparameters that are not drawn.
    """

    draws: int
    search: Sequence[int]
    finalists: int
    seeds: Sequence[int]
    fixed: Mapping[str, Value]


def budget_of(dataset: str) -> Budget:
    """By the size of the graph, ``honest.sizes`` of ``protocol.toml``."""
    sizes = BUDGET["sizes"]
    named = (size for size in sizes.values() if dataset in size.get("datasets", ()))
    size = next(named, sizes["small"])
    return Budget(*(size[name] for name in Budget._fields))


def splits_of(dataset: str) -> int:
    """How many splits are used."""
    return int(BUDGET["splits"].get(dataset, 10))


def runs_of_setting(
    model: str,
    dataset: str,
    settings: Preset | Mapping[str, Value],
    seeds: Sequence[int] | None = None,
    **change: Value,
) -> list[RunSpec]:
    """Runs from seeds that the search has not seen, by default those of the budget."""
    if not isinstance(settings, Preset):
        own, options = split_options(settings)
        hyper, train = split_settings(model, own)
        config = TrainConfig(**train)  # type: ignore[arg-type]
        settings = Preset("honest", hyper, config, options)
    return runs_of(
        model,
        dataset,
        preset=settings,
        change=change,
        seeds=budget_of(dataset).seeds if seeds is None else seeds,
        splits=splits_of(dataset),
    )


def specs(datasets: Sequence[str]) -> list[RunSpec]:
    """Of every model for which the search has selected settings."""
    return [
        spec
        for dataset in datasets
        for model in BUDGET["models"]
        if (preset := selected(model, dataset)) is not None
        for spec in runs_of_setting(model, dataset, preset)
    ]


def selected(model: str, dataset: str) -> Preset | None:
    """What the search has selected, if it was done."""
    try:
        return find_preset(model, dataset, "honest")
    except InputError:
        return None


class Derived(NamedTuple):
    """Numbers of the test nodes that need the probabilities of all seeds.

    Attributes:
        ensemble: Test metric of the mean probabilities, by split.
        accuracy: Mean test accuracy of the seeds, by split.
    """

    ensemble: Measured
    accuracy: Measured


@cache
def derived() -> dict[tuple[str, str], Derived]:
    """By model and graph, from ``honest.csv``, which ``studies/report_honest.py`` writes."""
    file = resources.files("gread").joinpath("experiments", "honest.csv")
    found: dict[tuple[str, str], Derived] = {}
    if not file.is_file():
        return found
    for row in csv.DictReader(file.read_text("utf-8").splitlines()):
        own = found.setdefault((row["model"], row["dataset"]), Derived(Measured(), Measured()))
        own.ensemble.append(100 * float(row["ensemble"]))
        own.accuracy.append(100 * float(row["accuracy"]))
    return found


def render(title: str, datasets: Sequence[str], results: Sequence[Result]) -> TextTable:
    """Test metrics, ranks, the difference from the tuned GCN, and published numbers."""
    found = accuracies(_keyed(results))
    shown = [d for d in datasets if any(r.spec.dataset == d for r in results)]
    models = [m for m in BUDGET["models"] if any((m, d) in found for d in shown)]
    means = means_of(found)
    ranks = _ranks(means, models, shown)
    best = {d: places([means.get((m, d)) for m in models]) for d in shown}
    rows: list[list[str | Cell]] = []
    for place, model in enumerate(models):
        cells = [_cell(found, model, d, best[d][place]) for d in shown]
        own = [means.get((model, d)) for d in shown]
        rows.append([MODELS[model].title, *cells, _average(own), ranks.get(model, "")])
    for model in (OURS, REFERENCE):
        ensembles = {d: derived().get((model, d)) for d in shown}
        if any(ensembles.values()):
            values = [of and fmean(of.ensemble) for of in ensembles.values()]
            texts = [measured(of.ensemble) if of else "" for of in ensembles.values()]
            rows.append([f"– {MODELS[model].title}, ensemble", *texts, _average(values), ""])
    rows.extend(_beside(models, shown))
    rows.extend(_against(results, shown))
    for name, row in PUBLISHED["honest"].items():
        if any(d in row for d in shown):
            texts = [f"{row[d]:.2f}" if d in row else "" for d in shown]
            rows.append([f"{name}, published", *texts, "", ""])
    columns = ("model", *(_heading(d) for d in shown), "average", "average rank")
    return TextTable.of(title, columns, rows, _note(datasets, shown, results))


def _keyed(results: Iterable[Result]) -> Iterator[tuple[tuple[str, str], Result]]:
    """By model and graph."""
    return (((r.spec.model, r.spec.dataset), r) for r in results)


def _cell(
    found: Mapping[tuple[str, str], Measured], model: str, dataset: str, place: int | None
) -> Cell:
    """A number; an empty cell where the search of a model was not done."""
    return Cell(measured(found.get((model, dataset))) if (model, dataset) in found else "", place)


def _heading(dataset: str) -> str:
    title = CATALOGUE[dataset].title
    return f"{title} (ROC-AUC)" if dataset in BUDGET["metric"] else title


def _average(values: Iterable[float | None]) -> str:
    """Of all graphs, if each has a number."""
    given = list(values)
    known = [value for value in given if value is not None]
    return number((fmean(known),)) if given and len(known) == len(given) else ""


def _ranks(
    means: Mapping[tuple[str, str], float], models: Sequence[str], datasets: Sequence[str]
) -> dict[str, str]:
    """Average ranks of the models that have all numbers."""
    whole = {
        model: {d: means[model, d] for d in datasets}
        for model in models
        if all((model, d) in means for d in datasets)
    }
    return {s.model: f"{s.rank:.2f}" for s in standings(whole)} if len(whole) > 1 else {}


def _beside(models: Sequence[str], datasets: Sequence[str]) -> list[list[str | Cell]]:
    """Accuracies where the metric is another one."""
    others = [d for d in datasets if d in BUDGET["metric"]]
    rows: list[list[str | Cell]] = []
    for model in models:
        known = {d: derived().get((model, d)) for d in others}
        if any(known.values()):
            texts = [measured(of.accuracy) if (of := known.get(d)) else "" for d in datasets]
            rows.append([f"– {MODELS[model].title}, accuracy", *texts, "", ""])
    return rows


def _against(results: Sequence[Result], datasets: Sequence[str]) -> list[list[str | Cell]]:
    """What GREAD-X is better than the tuned GCN, and how likely that is by chance."""
    differences, chances = [], []
    for dataset in datasets:
        pairs = _by_split(results, dataset)
        if not pairs:
            differences.append("")
            chances.append("")
            continue
        found = compare(*zip(*pairs, strict=True))
        differences.append(f"{found.difference:+.2f}".replace("-", "−"))
        chances.append("< 0.001" if found.t_test < 0.001 else f"{found.t_test:.3f}")
    if not any(differences):
        return []
    ours, reference = MODELS[OURS].title, MODELS[REFERENCE].title
    return [
        [f"{ours} less {reference}", *differences, "", ""],
        ["p, paired t-test over splits", *chances, "", ""],
    ]


def _by_split(results: Sequence[Result], dataset: str) -> list[tuple[float, float]]:
    """Means over the seeds of a split, of GREAD-X and of the tuned GCN."""
    own = (((r.spec.model, r.spec.split), r) for r in results if r.spec.dataset == dataset)
    means = means_of(accuracies(own))
    splits = sorted({split for model, split in means if model == OURS})
    return [
        (means[OURS, split], means[REFERENCE, split])
        for split in splits
        if (REFERENCE, split) in means
    ]


BY_SIZE = {
    "seeds": "{small} seeds ({large} on graphs of over 100,000 nodes)",
    "draws": "{small} random settings ({medium} on graphs of 10,000 nodes or more, {large} on "
    "those of over 100,000), as many near the best of them",
    "finalists": "the best {small} ({medium} from 10,000 nodes on) on all splits",
}


def _by_size(what: str) -> str:
    """How many of it a model has, for the note."""
    counts = {
        name: size[what] if isinstance(size[what], int) else len(size[what])
        for name, size in BUDGET["sizes"].items()
    }
    return BY_SIZE[what].format(**counts)


def _note(datasets: Sequence[str], shown: Sequence[str], results: Sequence[Result]) -> str:
    without = [CATALOGUE[d].title for d in datasets if d not in shown]
    fewer = {d: splits_of(d) for d in shown if splits_of(d) != 10}
    splits = "ten splits"
    if fewer:
        splits += f" ({listed(f'{n} on {CATALOGUE[d].title}' for d, n in fewer.items())})"
    epochs = sorted({int(training_of(d)["epochs"] or 0) for d in shown})
    lengths = f"{epochs[0]} to {epochs[-1]}" if len(epochs) > 1 else f"{(epochs or [0])[0]}"
    note = (
        f"Test metric in percent, mean ± deviation over {splits} and {_by_size('seeds')} that the "
        f"search has not seen. Budget of every model on every graph: {_by_size('draws')}, "
        f"{_by_size('finalists')}, {lengths} epochs a run; selected by the same metric "
        "on validation. An ensemble is the mean probability of the seeds. Published numbers have "
        "other budgets, and some have other splits."
    )
    if without:
        note += f" No numbers yet: {listed(without)}."
    return note + said_of_failed(results) + said_of_fewer(accuracies(_keyed(results)))


ROWS: tuple[tuple[str, Mapping[str, Value]], ...] = tuple(
    (row["title"], {name: value for name, value in row.items() if name != "title"})
    for row in ABLATED["rows"]
)
"""From scalar coefficients, shared by all steps, to GREAD-X: titles and what differs from it."""


def ablation_specs() -> list[RunSpec]:
    """GREAD-X with its settings, and what is taken from it."""
    return [
        spec
        for dataset in ABLATED["datasets"]
        if (preset := selected(OURS, dataset)) is not None
        for _, change in ROWS
        for spec in runs_of_setting(OURS, dataset, preset, ABLATED["seeds"], **change)
    ]


def render_ablation(results: Sequence[Result]) -> TextTable:
    """Test metrics of each form."""
    shown = [d for d in ABLATED["datasets"] if any(r.spec.dataset == d for r in results)]
    forms: dict[str, tuple[str, str]] = {}
    for dataset in shown:
        preset = selected(OURS, dataset)
        assert preset is not None
        for title, change in ROWS:
            for spec in runs_of_setting(OURS, dataset, preset, ABLATED["seeds"], **change):
                forms[spec.key] = (title, dataset)
    found = accuracies((forms[r.spec.key], r) for r in results if r.spec.key in forms)
    means = means_of(found)
    titles = [title for title, _ in ROWS]
    best = {d: places([means.get((title, d)) for title in titles]) for d in shown}
    rows: list[list[str | Cell]] = [
        [title, *(Cell(measured(found.get((title, d))), best[d][place]) for d in shown)]
        for place, title in enumerate(titles)
    ]
    return TextTable.of(
        "GREAD-X: what each part adds",
        ("form", *(_heading(d) for d in shown)),
        rows,
        "Test metric in percent, mean ± deviation over ten splits. All settings "
        "but the named ones are those of GREAD-X in the honest comparison; no form was tuned for "
        f"itself.{said_of_failed(results)}{said_of_fewer(found)}",
    )
