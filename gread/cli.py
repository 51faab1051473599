"""The ``gread`` command: one function a command, no logic of its own."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import gread
from gread.data import DATASETS
from gread.doctor import examine
from gread.inputs import InputError
from gread.listing import LISTINGS, dataset_row, grouped
from gread.models import MODELS
from gread.ode import IntegrationError

app = typer.Typer(
    help="Graph neural reaction-diffusion networks: train, compare, reproduce.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


def main() -> None:
    """Runs the command; what a user got wrong is one sentence and exit code 2."""
    try:
        app()
    except (InputError, IntegrationError, OSError) as error:
        err.print(f"gread: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"gread {gread.__version__}", highlight=False)
        raise typer.Exit


def _import(modules: list[str] | None) -> None:
    """Imports a user's modules, so that what they register is known to every command."""
    sys.path.insert(0, os.getcwd())
    for module in modules or []:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise InputError(
                f"--import must name a module that Python finds, got {module!r} ({error})"
            ) from error


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            callback=_import,
            help="Import a Python module first, for instance one that registers a reaction.",
        ),
    ] = None,
) -> None:
    """Options before the command."""


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the pictures go.")
    ] = Path("runs/demo"),
    as_json: Json = False,
) -> None:
    """Show the paper's point: four models from heterophily to homophily, and two pictures."""
    from gread.demo import HOMOPHILIES, HYPERPARAMETERS, SPLITS, compare, draw  # with matplotlib

    pictures = draw(folder)  # first, so that a folder that cannot be written fails at once
    with _progress() as progress:
        runs = len(HOMOPHILIES) * len(HYPERPARAMETERS) * SPLITS
        task = progress.add_task("training", total=runs)
        cells = compare(on_run=lambda: progress.advance(task))
    if as_json:
        _print_json(
            {
                "cells": [dataclasses.asdict(cell) for cell in cells],
                "pictures": [str(picture) for picture in pictures],
            }
        )
        return
    table = Table(title="Test accuracy (%) by homophily", title_justify="left")
    table.add_column("model")
    for homophily in HOMOPHILIES:
        table.add_column(f"{homophily:.1f}", justify="right")
    for name in HYPERPARAMETERS:
        row = [f"{c.mean:.1f} ± {c.deviation:.1f}" for c in cells if c.model == name]
        table.add_row(MODELS[name].title, *row)
    out.print(table)
    out.print(
        f"Mean ± deviation over {SPLITS} splits of a random graph with five classes, the same "
        "settings for all models.\n"
        "Homophily is the share of edges that join two nodes of one class."
    )
    for picture in pictures:
        out.print(f"Wrote {picture}", soft_wrap=True, highlight=False)


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(LISTINGS)}.")],
    as_json: Json = False,
) -> None:
    """List the reactions, solvers, models or datasets there are."""
    rows = LISTINGS[kind]()
    if as_json:
        _print_json(rows)
        return
    columns = [column for column in rows[0] if column != "hyperparameters"]
    table = Table()
    for column in columns:
        table.add_column(column, no_wrap=column == "name")
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    out.print(table)


@app.command()
def datasets(
    names: Annotated[list[str] | None, typer.Argument(help="Which; by default all.")] = None,
    as_json: Json = False,
) -> None:
    """Show the datasets beside the paper's table; one that is named is downloaded if need be."""
    chosen = names or list(DATASETS)
    rows = []
    for name in chosen:
        DATASETS[name]  # a misspelt name fails before anything is downloaded
    with _progress() as progress:
        for name in progress.track(chosen, description="reading"):
            rows.append(dataset_row(name, named=bool(names)))
    if as_json:
        _print_json([dataclasses.asdict(row) for row in rows])
        return
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("dataset", no_wrap=True)
    for column in ("nodes", "edges", "+loops", "feat.", "classes", "node h.", "edge h.", "splits"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, *row.counts())
        if row.paper:
            table.add_row("  paper", *row.paper_counts(), style="dim")
    out.print(table)
    out.print("h. is homophily; ≠ marks a slip of the paper, whose value is not that of the data.")
    for source, names in grouped(rows, lambda row: row.source).items():
        out.print(f"\n[bold]{', '.join(names)}[/bold]\n{source}", highlight=False)
    out.print()
    for note, names in grouped(rows, lambda row: row.note).items():
        out.print(f"[bold]{', '.join(names)}[/bold]: {note}.", highlight=False)
    for missing, names in grouped(rows, lambda row: row.missing).items():
        out.print(f"[bold]Not here: {', '.join(names)}[/bold]: {missing}.", highlight=False)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine has, what it lacks, and what that costs."""
    findings = examine()
    if as_json:
        _print_json([dataclasses.asdict(finding) for finding in findings])
        return
    table = Table("", "found", "advice")
    for finding in findings:
        table.add_row(finding.subject, finding.found or "missing", finding.advice)
    out.print(table)


def _progress() -> Progress:
    """A bar on standard error, so that standard output stays clean."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))
