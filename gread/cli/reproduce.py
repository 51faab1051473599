"""``gread reproduce``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.table import Table as RichTable

from gread.cli.console import err, out, print_json, resumable, weighted_bar
from gread.cli.options import (
    STORE,
    Deterministic,
    Device,
    ExecutorName,
    Json,
    Store,
    imports_of,
    names_in,
)

if TYPE_CHECKING:
    from gread.experiments.reproduce import Forecast, Reproduction
    from gread.runs.result import Result
    from gread.runs.spec import RunSpec


def reproduce(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help=f"all, or one of: {names_in('gread.experiments.questions:ARTEFACTS')}."
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="full is the paper's protocol; quick shows it in minutes on a CPU.")
    ] = "full",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be computed, and how long it takes.")
    ] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Compute nothing; show what is stored.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes at a time; by default one a core on a CPU.")
    ] = None,
    executor: ExecutorName = "local",
    device: Device = "auto",
    deterministic: Deterministic = False,
    store: Store = STORE,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where tables and figures go.")
    ] = Path("runs/reproduce"),
    as_json: Json = False,
) -> None:
    """Regenerate a table or figure of the paper from stored runs, computing what is missing."""
    from gread.experiments.reproduce import plan, reproduce as regenerate
    from gread.report.tables import Table

    names = None if name == "all" else [name]
    if dry_run:
        _print_plan(
            plan(
                names, store=store, scale=scale, workers=workers, executor=executor, device=device
            ),
            as_json,
        )
        return
    with resumable(), weighted_bar() as progress:
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
        if isinstance(table, Table) and not as_json:
            from rich.markdown import Markdown

            text = table.markdown()
            out.print(Markdown(text) if out.is_terminal else text, soft_wrap=True)
        _print_files(name, made[name])
    if as_json:
        print_json({name: list(map(str, found.files)) for name, found in made.items()})


def _print_files(name: str, made: Reproduction) -> None:
    suffixes = ", ".join(file.suffix for file in made.files[1:])
    err.print(f"Wrote {made.files[0]}, {suffixes}", highlight=False, soft_wrap=True)


class _Runs:
    """Shows on a bar how many runs are computed; it moves by what each is estimated to take."""

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


def _print_plan(forecasts: Sequence[Forecast], as_json: bool) -> None:
    if as_json:
        print_json([dataclasses.asdict(found) for found in forecasts])
        return
    table = RichTable("artefact", "runs", "stored", "to compute", "about")
    for found in forecasts:
        left = found.runs - found.stored
        about = str(timedelta(seconds=found.seconds)) if left else "–"
        table.add_row(found.artefact, str(found.runs), str(found.stored), str(left), about)
    out.print(table)
    out.print("Times are estimates, good to a factor of a few; runs that several need count once.")
