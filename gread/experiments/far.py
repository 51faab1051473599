"""Origins of the baselines' settings, and how far their numbers are from the paper.

The comparison with equal budgets has other settings than Table 8. Where it is near the paper,
settings explain the difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from statistics import fmean
from typing import NamedTuple

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import (
    BASELINES,
    PAPER_ROWS,
    QUICK,
    ROWS,
    Accuracies,
    measured,
    number,
    signed,
    specs,
    summary,
)
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.curves import Measured, accuracies, means_of
from gread.experiments.fair import FAIR, computed
from gread.experiments.protocol import GREAD, preset_of
from gread.experiments.searched import by_model_and_graph
from gread.report.tables import TextTable
from gread.runs.result import Result
from gread.runs.spec import RunSpec

DEVIATIONS = 2
"""Number of the paper's standard deviations beyond which a cell is far from the paper."""

BORROWED = ("film", "squirrel", "pubmed")
"""Graphs on which ``studies/tune_baselines.py`` compared settings of other graphs."""

NOT_THE_AUTHORS = ": not its authors' settings. "
"""Text after the title in the first line of a preset file with settings of others."""


def origin_of(model: str, dataset: str) -> str:
    """Origin of the settings of a baseline in Table 8."""
    source = preset_of(model, dataset).source
    if source == "tuned":
        return "borrowed" if dataset in BORROWED else "searched"
    return "not the authors'" if NOT_THE_AUTHORS in _header(model) else "authors'"


@cache
def _header(model: str) -> str:
    file = resources.files("gread").joinpath("runs", "presets", "published", f"{model}.toml")
    return file.read_text("utf-8").partition("\n")[0]


class Far(NamedTuple):
    """A cell far from the paper.

    Attributes:
        title: Title of the model.
        dataset: Name of the graph.
        ours: Our mean and standard deviation.
        paper: Mean and standard deviation that the paper prints.
    """

    title: str
    dataset: str
    ours: Sequence[float]
    paper: Sequence[float]


def is_far(mean: float, paper: Sequence[float]) -> bool:
    """Whether a mean differs from the paper's by more than two of the paper's deviations."""
    return abs(mean - paper[0]) > DEVIATIONS * paper[1]


def far_cells(ours: Accuracies) -> list[Far]:
    """Cells of baselines that differ from the paper by more than two of its deviations."""
    return [
        Far(title, dataset, row[dataset], paper)
        for title, row in ours.items()
        if title in BASELINES
        for dataset, paper in PAPER_ROWS.get(title, {}).items()
        if dataset in row and is_far(row[dataset][0], paper)
    ]


def baseline_specs() -> list[RunSpec]:
    """Runs of the baselines in Table 8."""
    return [spec for spec in specs(ROWS) if spec.model not in GREAD]


def both_specs() -> list[RunSpec]:
    """Runs of the baselines in Table 8 and in the comparison with equal budgets."""
    models = [model for model in FAIR.models if model in BASELINES.values()]
    return [*baseline_specs(), *FAIR.specs(models=models)]


def _both(results: Sequence[Result]) -> tuple[Accuracies, dict[tuple[str, str], Measured]]:
    """Numbers of Table 8 by title and graph, and those with equal budgets by model and graph."""
    own, repeated = FAIR.apart(results)
    return summary(repeated), accuracies(by_model_and_graph(own))


def render(results: Sequence[Result]) -> TextTable:
    """Table of the cells that are far from the paper, ordered by graph."""
    ours, equal = _both(results)
    found, order = far_cells(ours), list(CATALOGUE)
    found.sort(key=lambda cell: order.index(cell.dataset))
    searched = [equal.get((BASELINES[cell.title], cell.dataset)) for cell in found]
    rows = [
        (
            CATALOGUE[cell.dataset].title,
            cell.title,
            number(cell.ours),
            number(cell.paper),
            signed(cell.ours[0] - cell.paper[0]),
            f"{abs(cell.ours[0] - cell.paper[0]) / cell.paper[1]:.1f}",
            origin_of(BASELINES[cell.title], cell.dataset),
            measured(values),
        )
        for cell, values in zip(found, searched, strict=True)
    ]
    columns = (
        "graph",
        "model",
        "ours",
        "paper",
        "difference",
        "deviations",
        "settings",
        "equal budgets",
    )
    pairs = [(fmean(v), c.paper) for v, c in zip(searched, found, strict=True) if v]
    near = sum(not is_far(mean, paper) for mean, paper in pairs)
    note = (
        f"Baselines of Table 8 whose mean differs from the paper's by more than {DEVIATIONS} of "
        "the paper's standard deviations. Settings: the authors'; not the authors' (their preset "
        "file names them); searched on the graph by validation; or borrowed from the model's "
        "settings on other graphs by validation. Equal budgets: the number of the fair comparison, "
        f"which is within {DEVIATIONS} deviations of the paper's in {near} of {len(pairs)} cells. "
        "docs/baselines.md discusses the causes."
    )
    return TextTable.of("Baselines far from the paper", columns, rows, note)


def render_models(results: Sequence[Result]) -> TextTable:
    """Every baseline: the origin of its settings, and its numbers with both kinds of settings."""
    ours, equal = _both(results)
    means = means_of(equal)
    graphs = computed(means)
    rows = [
        row
        for title in BASELINES
        if title in PAPER_ROWS
        and (row := _model_row(title, graphs, ours.get(title, {}), means)) is not None
    ]
    columns = (
        "model",
        "settings in Table 8",
        "Table 8",
        "equal budgets",
        "paper",
        "far, Table 8",
        "far, equal budgets",
    )
    named = ", ".join(CATALOGUE[d].title for d in graphs)
    note = (
        f"Averages over {named or 'no graph yet'}. The origins of settings are counted over the "
        "nine graphs. Far: the number of graphs in the averages on which the mean differs from the "
        f"paper's by more than {DEVIATIONS} of the paper's standard deviations."
    )
    return TextTable.of("Baselines and their settings", columns, rows, note)


def _model_row(
    title: str,
    graphs: Sequence[str],
    ours: Mapping[str, Sequence[float]],
    equal: Mapping[tuple[str, str], float],
) -> tuple[str, ...] | None:
    """A row of a model; an average is missing if the model lacks a number on a graph."""
    if not graphs:
        return None
    model, paper = BASELINES[title], PAPER_ROWS[title]
    origins = Counter(origin_of(model, d) for d in FAIR.datasets)
    columns = (
        {d: ours[d][0] for d in graphs if d in ours},
        {d: equal[model, d] for d in graphs if (model, d) in equal},
        {d: paper[d][0] for d in graphs if d in paper},
    )
    far = [
        str(sum(is_far(mean, paper[d]) for d, mean in column.items()))
        if len(column) == len(columns[-1]) == len(graphs)
        else "missing"
        for column in columns[:-1]
    ]
    averages = [
        f"{fmean(column.values()):.2f}" if len(column) == len(graphs) else "missing"
        for column in columns
    ]
    named = ", ".join(f"{name} {count}" for name, count in origins.most_common())
    return (title, named, *averages, *far)


for _name, _render in (("far-cells", render), ("baselines", render_models)):
    ARTEFACTS.add(_name, Artefact(both_specs, _render, QUICK))
