"""``gread demo``, ``gread reproduce`` and ``gread report``: the paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import Progress
from rich.table import Column

from gread.cli.console import bar, note, out, print_json, print_table, resumable
from gread.cli.options import STORE, imports_of

if TYPE_CHECKING:
    from gread.experiments.reproduce import Forecast, Reproduction
    from gread.runs.result import Result
    from gread.runs.spec import RunSpec


def demo(folder: Path = Path("runs/demo"), as_json: bool = False) -> None:
    """Compare four models on random graphs from heterophily to homophily, and draw two pictures."""
    from gread.experiments.demo import BUILDS, HOMOPHILIES, RUNS, SPLITS, demo as show
    from gread.models.catalog import MODELS

    with bar() as progress:
        task = progress.add_task("training", total=RUNS)
        found = show(folder, on_run=lambda: progress.update(task, advance=1))
    if as_json:
        print_json({"cells": found.cells, "pictures": found.pictures})
        return
    columns = (Column(f"{homophily:.1f}", justify="right") for homophily in HOMOPHILIES)
    rows = [
        [MODELS[name].title]
        + [f"{c.mean:.1f} ± {c.deviation:.1f}" for c in found.cells if c.model == name]
        for name in BUILDS
    ]
    title = "Test accuracy (%) by homophily"
    print_table(("model", *columns), rows, title=title, title_justify="left")
    out.print(
        f"Mean ± standard deviation over {SPLITS} splits of a random graph with five classes; the "
        "same settings for all models.\n"
        "Homophily is the share of edges that join two nodes of one class."
    )
    for picture in found.pictures:
        out.print(f"Wrote {picture}", soft_wrap=True)


def report(file: Path = Path("report.html"), store: Path = STORE) -> None:
    """Write all tables and figures from stored runs as one HTML page that needs no network."""
    from gread.experiments.report import write_report

    write_report(file, store=store)
    note(f"Wrote {file}")


def reproduce(
    context: typer.Context,
    name: str,
    scale: str = "full",
    dry_run: bool = False,
    stored: bool = False,
    workers: int | None = None,
    executor: str = "local",
    device: str = "auto",
    deterministic: bool = False,
    store: Path = STORE,
    folder: Path = Path("runs/reproduce"),
    as_json: bool = False,
) -> None:
    """Regenerate a table or figure of the paper from stored runs, and compute missing ones."""
    from gread.experiments.reproduce import plan, reproduce as regenerate
    from gread.report.tables import TextTable

    names = None if name == "all" else [name]
    if dry_run:
        forecasts = plan(
            names, store=store, scale=scale, workers=workers, executor=executor, device=device
        )
        if as_json:
            print_json(forecasts)
        else:
            _print_plan(forecasts)
        return
    with resumable(), bar(weighted=True) as progress:
        shown = _Runs(progress)
        made = regenerate(
            names,
            store=store,
            out=folder,
            scale=scale,
            stored=stored,
            workers=workers,
            executor=executor,
            device=device,
            deterministic=deterministic,
            imports=imports_of(context),
            on_start=shown.start,
            on_result=shown.count,
            on_artefact=_print_files if names is None else None,
        )
    if names is not None:
        table = made[name].shown
        if isinstance(table, TextTable) and not as_json:
            from rich.markdown import Markdown

            text = table.markdown()
            out.print(Markdown(text) if out.is_terminal else text, soft_wrap=True)
        _print_files(name, made[name])
    if as_json:
        print_json({name: found.files for name, found in made.items()})


def _print_files(name: str, made: Reproduction) -> None:
    suffixes = ", ".join(file.suffix for file in made.files[1:])
    note(f"Wrote {made.files[0]}, {suffixes}")


class _Runs:
    """Progress bar of runs, weighted by their estimated time."""

    def __init__(self, progress: Progress):
        self.progress, self.total, self.done = progress, 0, 0

    def start(self, missing: Sequence[RunSpec]) -> None:
        from gread.runs.cost import estimate

        self.total = len(missing)
        self.task = self.progress.add_task("", total=sum(map(estimate, missing)))
        self.progress.update(self.task)

    def count(self, result: Result) -> None:
        from gread.runs.cost import estimate

        self.done += 1
        text = f"{self.done} of {self.total} runs"
        self.progress.update(self.task, advance=estimate(result.spec), description=text)


def _print_plan(forecasts: Sequence[Forecast]) -> None:
    rows = []
    for found in forecasts:
        left = found.runs - found.stored
        about = timedelta(seconds=found.seconds) if left else "–"
        rows.append((found.artefact, found.runs, found.stored, left, about))
    print_table(("artefact", "runs", "stored", "to compute", "about"), rows)
    out.print("Times are rough estimates, within a factor of a few. Shared runs count once.")
