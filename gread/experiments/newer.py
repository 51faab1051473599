"""Experiments of the paper repeated on newer graphs: beyond the paper.

The graphs are Chameleon and Squirrel without duplicates, and five larger heterophilous graphs, all
by Platonov et al., ICLR 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments import ablations, sensitivity
from gread.experiments.accuracy import measured
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import (
    accuracies,
    means_of,
    note_on_failed,
    note_on_fewer,
    splits_of,
    title_of,
)
from gread.experiments.protocol import GREAD, PROTOCOL, runs_on
from gread.models.catalog import MODELS
from gread.report.charts import Chart
from gread.report.claims import listed
from gread.report.statistics import standings
from gread.report.tables import Cell, TextTable, places
from gread.runs.result import Result

Shown = TypeVar("Shown", TextTable, Chart)

ABOUT = PROTOCOL["newer"]
DATASETS: tuple[str, ...] = tuple(ABOUT["datasets"])
COMPARED = (*ABOUT["baselines"], *GREAD)
SMALLEST = "chameleon-filtered"
NOTE = (
    "Nothing is tuned here: the two filtered graphs use the settings of their source graphs, and "
    "the others the defaults of every model. The metric is accuracy on all graphs. On Minesweeper, "
    "Tolokers and Questions, where one class has most nodes, others report ROC-AUC."
)


def render(datasets: Sequence[str], results: Sequence[Result]) -> TextTable:
    """Accuracies, and the average rank of every model that has all of them."""
    found = accuracies(((title_of(r), r.spec.dataset), r) for r in results)
    titles = [MODELS[model].title for model in COMPARED]
    means = means_of(found)
    complete = {
        title: {d: means[title, d] for d in datasets}
        for title in titles
        if all((title, d) in means for d in datasets)
    }
    ranks = {s.model: f"{s.rank:.2f}" for s in standings(complete)} if complete else {}
    best = {d: places([means.get((title, d)) for title in titles]) for d in datasets}
    rows: list[tuple[str | Cell, ...]] = []
    for row, title in enumerate(titles):
        cells = [Cell(measured(found.get((title, d))), best[d][row]) for d in datasets]
        rows.append((title, *cells, ranks.get(title, "")))
    return TextTable.of(
        "Newer graphs: accuracy",
        ("model", *(CATALOGUE[d].title for d in datasets), "average rank"),
        rows,
        f"Test accuracy in percent, mean ± standard deviation over {splits_of(results)}."
        + note_on_failed(results)
        + note_on_fewer(found),
    )


def repeated(
    render: Callable[[Sequence[str], Sequence[Result]], Shown], results: Sequence[Result]
) -> Shown:
    """Render an artefact of the paper for the newer graphs that have runs.

    Some graphs can be downloaded only from their authors' site.
    """
    known = [name for name in DATASETS if any(r.spec.dataset == name for r in results)]
    shown = render(known or DATASETS, results)
    without = [CATALOGUE[name].title for name in DATASETS if name not in known]
    note = f"{shown.note} {NOTE}" + (f" No numbers yet: {listed(without)}." if without else "")
    return replace(shown, note=note)


QUICK = Quick(epochs=10, without=tuple(d for d in DATASETS if d != SMALLEST))

_specs = partial(runs_on, DATASETS, COMPARED)
ARTEFACTS.add("newer-accuracy", Artefact(_specs, partial(repeated, render), QUICK))
for _name, _ablation, _title in (
    ("newer-adjacency", ablations.ADJACENCY, "Newer graphs: soft adjacency"),
    ("newer-beta", ablations.BETA, "Newer graphs: scalar and vector β"),
):
    _specs = partial(ablations.specs, _ablation, DATASETS)
    _render = partial(ablations.render, _title, _ablation, None)
    ARTEFACTS.add(_name, Artefact(_specs, partial(repeated, _render), QUICK))
for _name, _sweep, _title in (
    ("newer-time", sensitivity.TIME, "Newer graphs: sensitivity to T"),
    ("newer-step", sensitivity.STEP, "Newer graphs: sensitivity to the step size"),
):
    _specs = partial(sensitivity.specs, _sweep, DATASETS)
    _draw = partial(sensitivity.render, _title, _sweep, ())
    ARTEFACTS.add(_name, Artefact(_specs, partial(repeated, _draw), replace(QUICK, epochs=5)))
