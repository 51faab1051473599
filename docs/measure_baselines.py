"""Looks into the cells of Table 8 that lie more than two of the paper's deviations off the paper.

    python docs/measure_baselines.py RESULTS STORE [DEVICE] [WORKERS] [MODEL ...]

from the repository's root, with RESULTS a file of runs. On Texas, Chameleon and Cora, and for the
models named (by default all), it tries another form of the model, where there is one, the edges as
they are drawn, where the graph comes with directions, and a search of 30 settings, selected by
validation on the first three splits. Prints a Markdown table of validation and test accuracy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from docs.measure_gaps import line
from gread.data.catalog import dataset
from gread.data.real import BENCHMARKS
from gread.experiments.accuracy import summary
from gread.experiments.protocol import PUBLISHED
from gread.models import MODELS
from gread.models.catalog import model
from gread.models.gde import GDE
from gread.runs import Result, ResultStore, RunSpec, launch
from gread.runs.exported import read_results
from gread.search import read_space, search, select
from gread.search.study import Plan

DATASETS = ("texas", "chameleon", "cora")
TRIALS, SPLITS = 30, range(3)

DIRECTED = {
    graph.name: replace(graph, name=f"{graph.name}-directed", clean=lambda data: data)
    for graph in BENCHMARKS
    if graph.name in ("texas", "chameleon")
}
for name, graph in DIRECTED.items():
    dataset(graph.name, graph, stored=graph.stored, key=name)


@model("gde-linear", title="GDE with linear ends", group="continuous", reference="ours")
@wraps(GDE)
def gde_with_linear_ends(*arguments: Any, **options: Any) -> GDE:
    """GDE whose first and last layer look at no neighbours, as in the skeleton of GRAND."""
    found = GDE(*arguments, **options)
    for layer in (found.encoder, found.decoder):
        layer.mix = lambda y, adj: y
    return found


FORMS = {"gde": {"linear first and last layer": "gde-linear"}}
"""What to try instead of a model, by its name."""


def off(results: Iterable[Result]) -> dict[tuple[str, str], tuple[float, float]]:
    """Model and dataset of every such cell, with our mean and the paper's."""
    found = {}
    ours = summary(result for result in results if result.spec.dataset in DATASETS)
    models = {entry.title: name for name, entry in MODELS.items()}
    for title, row in ours.items():
        for name, (number, _) in row.items():
            paper = PUBLISHED["paper"].get(title, {}).get(name)
            if paper is not None and abs(number - paper[0]) > 2 * paper[1]:
                found[models[title], name] = number, paper[0]
    return found


def tried(
    cell: tuple[str, str], specs: list[RunSpec], store: ResultStore, device: str, workers: int
) -> dict[str, list[Result]]:
    """What was tried in a cell, and the ten runs of each."""
    model, name = cell
    attempts = {
        what: [replace(spec, model=other) for spec in specs]
        for what, other in FORMS.get(model, {}).items()
    }
    if name in DIRECTED:
        attempts["edges as drawn"] = [replace(s, dataset=DIRECTED[name].name) for s in specs]
    space = read_space(model)
    trials = search(
        *(name, model),
        trials=TRIALS,
        store=store,
        splits=list(SPLITS),
        devices=[device],
        workers=workers,
    )
    plan = Plan(name, model, {}, "", False, range(10), [0])
    attempts[f"best of {TRIALS} settings"] = plan.specs(select(trials, space).settings)
    launch(
        [spec for attempt in attempts.values() for spec in attempt],
        store,
        devices=[device],
        workers=workers,
        histories=False,
    )
    found = {what: [store.get(spec) for spec in attempt] for what, attempt in attempts.items()}
    return {what: [r for r in results if r is not None] for what, results in found.items()}


def main(results: str, folder: str, device: str = "cpu", workers: str = "1", *models: str) -> None:
    """Prints the table."""
    runs = [result for result in read_results(Path(results)) if result.spec.seed == 0]
    store = ResultStore(folder)
    print("| cell | paper | as in the table | attempt | validation / test |")
    print("| --- | ---: | ---: | --- | --- |")
    for cell, (ours, paper) in off(runs).items():
        model, name = cell
        if models and model not in models:
            continue
        own = [r for r in runs if (r.spec.model, r.spec.dataset) == cell]
        found = tried(cell, [r.spec for r in own], store, device, int(workers))
        head = f"| {MODELS[model].title} {name} | {paper:.2f} | {ours:.2f} |"
        for what, others in {"–": own, **found}.items():
            print(head, what, "|", line(others), "|", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
