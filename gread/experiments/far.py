"""Origins of the baselines' settings, and the cells of Table 8 that lie far from the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import (
    BASELINES,
    PAPER_ROWS,
    QUICK,
    ROWS,
    Accuracies,
    number,
    signed,
    specs,
    summary,
)
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.protocol import GREAD, preset_of
from gread.report.tables import TextTable
from gread.runs.result import Result
from gread.runs.spec import RunSpec

DEVIATIONS = 2
"""A cell is far from the paper if it differs by more of the paper's standard deviations."""

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


def far_cells(ours: Accuracies) -> list[Far]:
    """Cells of baselines that differ from the paper by more than two of its deviations."""
    return [
        Far(title, dataset, row[dataset], paper)
        for title, row in ours.items()
        if title in BASELINES
        for dataset, paper in PAPER_ROWS.get(title, {}).items()
        if dataset in row and abs(row[dataset][0] - paper[0]) > DEVIATIONS * paper[1]
    ]


def baseline_specs() -> list[RunSpec]:
    """Runs of the baselines in Table 8."""
    return [spec for spec in specs(ROWS) if spec.model not in GREAD]


def render(results: Sequence[Result]) -> TextTable:
    """Every cell that is far, by graph."""
    found = far_cells(summary(results))
    order = list(CATALOGUE)
    found.sort(key=lambda cell: order.index(cell.dataset))
    rows = [
        (
            CATALOGUE[cell.dataset].title,
            cell.title,
            number(cell.ours),
            number(cell.paper),
            signed(cell.ours[0] - cell.paper[0]),
            f"{abs(cell.ours[0] - cell.paper[0]) / cell.paper[1]:.1f}",
            origin_of(BASELINES[cell.title], cell.dataset),
        )
        for cell in found
    ]
    columns = ("graph", "model", "ours", "paper", "difference", "deviations", "settings")
    note = (
        f"Baselines of Table 8 whose mean differs from the paper's by more than {DEVIATIONS} of "
        "the paper's standard deviations. Settings: the authors'; not the authors' (their preset "
        "file says whose); searched on the graph by validation; or borrowed from the model's "
        "settings on other graphs by validation. docs/baselines.md discusses the causes."
    )
    return TextTable.of("Baselines far from the paper", columns, rows, note)


ARTEFACTS.add("far-cells", Artefact(baseline_specs, render, QUICK))
