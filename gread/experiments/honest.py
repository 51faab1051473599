"""The honest comparison: strong competitors, one budget, graphs beyond the paper's.

The section ``honest`` of ``protocol.toml`` has the budget. docs/gread-x.md explains the protocol.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from statistics import fmean, stdev
from typing import Any, NamedTuple

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import measured, signed
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import Measured, accuracies, means_of, note_on_failed, note_on_fewer
from gread.experiments.protocol import PROTOCOL, PUBLISHED, SEVERAL_SEEDS
from gread.experiments.searched import Comparison, average, average_ranks, by_model_and_graph
from gread.models.catalog import MODELS
from gread.report.charts import COLOURS, Axis, Chart, Panel, Series
from gread.report.claims import listed
from gread.report.statistics import paired_t_test, t_quantile
from gread.report.tables import Cell, TextTable, places
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value

HONEST = Comparison("honest")
OURS, REFERENCE = "gread-x", "tuned-gcn"
NINE: tuple[str, ...] = tuple(HONEST.about["graphs"]["nine"])
GRAPHS: tuple[str, ...] = tuple(name for name in HONEST.datasets if name not in NINE)
ABLATED: Mapping[str, Any] = PROTOCOL["honest-ablation"]


class Derived(NamedTuple):
    """Test metrics that are computed from the class probabilities of all seeds.

    Attributes:
        ensemble: Test metric of the mean probabilities, by split.
        accuracy: Mean test accuracy of the seeds, by split.
    """

    ensemble: Measured
    accuracy: Measured


@cache
def derived(comparison: Comparison) -> dict[tuple[str, str], Derived]:
    """Read `Derived` by model and graph from the CSV file of a comparison.

    ``studies/report_settings.py`` writes these files.
    """
    file = resources.files("gread").joinpath("experiments", f"{comparison.name}.csv")
    found: dict[tuple[str, str], Derived] = {}
    if not file.is_file():
        return found
    for row in csv.DictReader(file.read_text("utf-8").splitlines()):
        own = found.setdefault((row["model"], row["dataset"]), Derived(Measured(), Measured()))
        own.ensemble.append(100 * float(row["ensemble"]))
        own.accuracy.append(100 * float(row["accuracy"]))
    return found


def render(title: str, datasets: Sequence[str], results: Sequence[Result]) -> TextTable:
    """Test metrics, ranks, the difference from the tuned GCN, and published numbers.

    A graph or a model without any number is listed in the note.
    """
    found = accuracies(by_model_and_graph(results))
    shown = [d for d in datasets if any(key[1] == d for key in found)] or list(datasets)
    models = [m for m in HONEST.models if any((m, d) in found for d in shown)]
    models = models or [OURS, REFERENCE]
    means = means_of(found)
    ranks = average_ranks(means, models, shown)
    best = {d: places([means.get((m, d)) for m in models]) for d in shown}
    rows: list[list[str | Cell]] = []
    for place, model in enumerate(models):
        cells = [Cell(measured(found.get((model, d))), best[d][place]) for d in shown]
        rank = f"{ranks[model]:.2f}" if model in ranks else ""
        own = average(means.get((model, d)) for d in shown)
        rows.append([MODELS[model].title, *cells, own, rank])
    for model in (OURS, REFERENCE):
        texts, mean = ensembles(HONEST, model, shown)
        if any(texts):
            rows.append([f"– {MODELS[model].title}, ensemble", *texts, mean, ""])
    rows.extend(_accuracy_rows(models, shown))
    rows.extend([name, *texts, "", ""] for name, *texts in against_reference(results, shown))
    for name, row in PUBLISHED["honest"].items():
        if any(d in row for d in shown):
            texts = [f"{row[d]:.2f}" if d in row else "" for d in shown]
            rows.append([f"{name}, published", *texts, "", ""])
    columns = ("model", *map(heading, shown), "average", "average rank")
    return TextTable.of(title, columns, rows, _note(datasets, results))


def heading(dataset: str) -> str:
    """Title of a graph, with its metric unless that is the accuracy."""
    title = CATALOGUE[dataset].title
    return title if HONEST.metric_of(dataset) is None else f"{title} (ROC-AUC)"


def ensembles(comparison: Comparison, model: str, datasets: Sequence[str]) -> tuple[list[str], str]:
    """Texts of the metric of the mean probabilities of all seeds, and the mean over the graphs."""
    known = [derived(comparison).get((model, d)) for d in datasets]
    texts = [measured(of.ensemble) if of else "" for of in known]
    return texts, average(of and fmean(of.ensemble) for of in known)


def _accuracy_rows(models: Sequence[str], datasets: Sequence[str]) -> list[list[str | Cell]]:
    """Rows of accuracies on graphs with another metric."""
    others = [d for d in datasets if HONEST.metric_of(d) is not None]
    rows: list[list[str | Cell]] = []
    for model in models:
        known = {d: derived(HONEST).get((model, d)) for d in others}
        if any(known.values()):
            texts = [measured(of.accuracy) if (of := known.get(d)) else "" for d in datasets]
            rows.append([f"– {MODELS[model].title}, accuracy", *texts, "", ""])
    return rows


def against_reference(results: Sequence[Result], datasets: Sequence[str]) -> list[list[str]]:
    """Rows of the difference between GREAD-X and the tuned GCN, and of its p-value."""
    differences, chances = [], []
    for dataset in datasets:
        pairs = _by_split(results, dataset)
        if not pairs:
            differences.append("")
            chances.append("")
            continue
        difference, chance = paired_t_test(*zip(*pairs, strict=True))
        differences.append(signed(difference))
        shown = "< 0.001" if chance < 0.001 else f"{chance:.3f}"
        chances.append(shown if len(pairs) > 1 else "")
    if not any(differences):
        return []
    ours, reference = MODELS[OURS].title, MODELS[REFERENCE].title
    return [[f"{ours} less {reference}", *differences], ["p, paired t-test over splits", *chances]]


def _by_split(results: Sequence[Result], dataset: str) -> list[tuple[float, float]]:
    """Means over the seeds of a split, of GREAD-X and of the tuned GCN."""
    own = (((r.spec.model, r.spec.split), r) for r in results if r.spec.dataset == dataset)
    means = {key: fmean(values) for key, values in accuracies(own).items() if values.whole}
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
    """A part of the budget, for the note."""
    counts = {
        name: size[what] if isinstance(size[what], int) else len(size[what])
        for name, size in HONEST.about["sizes"].items()
    }
    return BY_SIZE[what].format(**counts)


def _note(datasets: Sequence[str], results: Sequence[Result]) -> str:
    found = accuracies(by_model_and_graph(results))
    fewer = {d: HONEST.splits_of(d) for d in datasets if HONEST.splits_of(d) != 10}
    splits = "ten splits"
    if fewer:
        splits += f" ({listed(f'{n} on {CATALOGUE[d].title}' for d, n in fewer.items())})"
    epochs = sorted({int(HONEST.training_of(d)["epochs"] or 0) for d in datasets})
    note = (
        f"Test metric in percent, mean ± standard deviation over {splits} and {_by_size('seeds')} "
        f"that the search has not used. Budget of every model on every graph: {_by_size('draws')}, "
        f"{_by_size('finalists')}, {epochs[0]} to {epochs[-1]} epochs a run; selected by the same "
        "metric on validation. An ensemble is the mean probability of the seeds. Published numbers "
        "have other budgets, and some have other splits."
    )
    if not found:
        return f"{note} No numbers yet."
    graphs = [CATALOGUE[d].title for d in datasets if not any(key[1] == d for key in found)]
    models = [MODELS[m].title for m in HONEST.models if not any(key[0] == m for key in found)]
    for word, names in (("on", graphs), ("of", models)):
        note += f" No numbers yet {word} {listed(names)}." if names else ""
    if any((m, d) not in found for m, _ in found for _, d in found):
        note += " Missing cells are not computed yet; a model with one has no rank."
    return note + note_on_failed(results) + note_on_fewer(found)


def margins() -> list[RunSpec]:
    """Runs of GREAD-X and of the tuned GCN on all graphs."""
    return HONEST.specs(models=(OURS, REFERENCE))


def draw_margins(results: Sequence[Result]) -> Chart:
    """Differences between GREAD-X and the tuned GCN by graph, with confidence intervals."""
    pairs = {dataset: _by_split(results, dataset) for dataset in HONEST.datasets}
    shown = {d: [a - b for a, b in of] for d, of in pairs.items() if of}
    middle = [fmean(apart) for apart in shown.values()]
    width = list(map(_half_width, shown.values()))
    bars = Series(
        "",
        tuple(map(float, range(len(shown)))),
        tuple(middle),
        tuple(m - w for m, w in zip(middle, width, strict=True)),
        tuple(m + w for m, w in zip(middle, width, strict=True)),
        mark="bars",
        colour=COLOURS[1],
    )
    ticks = tuple((float(k), CATALOGUE[d].title) for k, d in enumerate(shown))
    y = Axis(f"points above {MODELS[REFERENCE].title}")
    note = (
        "Difference of the test metric in points (ROC-AUC on Minesweeper, Tolokers and Questions, "
        "accuracy elsewhere), mean over splits of the means over seeds. Whiskers are 95 % "
        "confidence intervals of the paired t-test over splits. Splits share nodes, so these "
        "intervals are too narrow. A graph with one split has none."
    )
    without = [CATALOGUE[d].title for d in HONEST.datasets if d not in shown]
    if without:
        note += f" Not computed for both models yet: {listed(without)}."
    return Chart(
        f"{MODELS[OURS].title} and the tuned GCN, by graph",
        (Panel.of("", [bars] if shown else [], Axis(ticks=ticks), y),),
        note=note,
    )


def _half_width(differences: Sequence[float]) -> float:
    """Half of a 95 % confidence interval; 0 for one number."""
    count = len(differences)
    return t_quantile(0.975, count - 1) * stdev(differences) / count**0.5 if count > 1 else 0.0


ROWS: tuple[tuple[str, Mapping[str, Value]], ...] = tuple(
    (row["title"], {name: value for name, value in row.items() if name != "title"})
    for row in ABLATED["rows"]
)
"""Titles and changed settings, from scalar coefficients shared by all steps to GREAD-X."""


def ablated_runs(dataset: str) -> dict[str, list[RunSpec]]:
    """Runs of every row on a graph, by title; empty before the search."""
    settings = ABLATED["settings"].get(dataset) or HONEST.selected(OURS, dataset)
    if settings is None:
        return {}
    fixed = ABLATED["common"]
    return {
        title: HONEST.runs_of(OURS, dataset, settings, ABLATED["seeds"], **fixed | change)
        for title, change in ROWS
    }


def ablation_specs() -> list[RunSpec]:
    """Runs of all rows; rows with equal settings on a graph share their runs."""
    rows = (of for dataset in ABLATED["datasets"] for of in ablated_runs(dataset).values())
    return list(dict.fromkeys(spec for specs in rows for spec in specs))


def render_ablation(results: Sequence[Result]) -> TextTable:
    """Test metrics of each row."""
    datasets: Sequence[str] = ABLATED["datasets"]
    known = {result.spec.key: result for result in results}
    found = accuracies(
        ((title, dataset), known[spec.key])
        for dataset in datasets
        for title, specs in ablated_runs(dataset).items()
        for spec in specs
        if spec.key in known
    )
    means = means_of(found)
    best = {d: places([means.get((title, d)) for title, _ in ROWS]) for d in datasets}
    rows: list[list[str | Cell]] = [
        [title, *(Cell(measured(found.get((title, d))), best[d][place]) for d in datasets)]
        for place, (title, _) in enumerate(ROWS)
    ]
    return TextTable.of(
        "GREAD-X: what each part adds",
        ("form", *map(heading, datasets)),
        rows,
        "Test metric in percent, mean ± standard deviation over ten splits. All settings except "
        "the named ones are those of GREAD-X in the honest comparison (on Minesweeper and the "
        "filtered graphs before its fourth or fifth revision), with the local term and the "
        "reaction BS; no form has a search of its own."
        f"{note_on_failed(results)}{note_on_fewer(found)}",
    )


def quick(kept: Iterable[str]) -> Quick:
    """Quick scale with short runs on the graphs ``kept``."""
    return Quick(epochs=10, without=tuple(d for d in HONEST.datasets if d not in {*kept}))


SMALLEST = "chameleon-filtered"
for _name, _title, _datasets, _kept in (
    ("honest", "GREAD-X and strong competitors", GRAPHS, (SMALLEST,)),
    ("honest-nine", "GREAD-X and strong competitors: the paper's graphs", NINE, SEVERAL_SEEDS),
):
    _specs = partial(HONEST.specs, _datasets)
    ARTEFACTS.add(_name, Artefact(_specs, partial(render, _title, _datasets), quick(_kept)))
ARTEFACTS.add("honest-ablation", Artefact(ablation_specs, render_ablation, quick((SMALLEST,))))
ARTEFACTS.add("honest-margins", Artefact(margins, draw_margins, quick((SMALLEST, *SEVERAL_SEEDS))))
