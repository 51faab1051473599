"""Commands that show what there is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from gread.bench.doctor import examine
from gread.cli.console import Json, bar, out, print_json
from gread.data.catalog import DATASETS
from gread.experiments.catalogue import LISTINGS, dataset_row, grouped
from gread.models.catalog import MODELS


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the pictures go.")
    ] = Path("runs/demo"),
    as_json: Json = False,
) -> None:
    """Show the paper's point: four models from heterophily to homophily, and two pictures."""
    from gread.experiments.demo import BUILDS, HOMOPHILIES, SPLITS, compare, draw  # with matplotlib

    pictures = draw(folder)  # first, so that a folder that cannot be written fails at once
    with bar() as progress:
        runs = len(HOMOPHILIES) * len(BUILDS) * SPLITS
        task = progress.add_task("training", total=runs)
        cells = compare(on_run=lambda: progress.advance(task))
    if as_json:
        print_json(
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
    for name in BUILDS:
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


def list_(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(LISTINGS)}.")],
    as_json: Json = False,
) -> None:
    """List the reactions, solvers, models or datasets there are."""
    rows = LISTINGS[kind]()
    if as_json:
        print_json(rows)
        return
    columns = [column for column in rows[0] if column != "hyperparameters"]
    table = Table()
    for column in columns:
        table.add_column(column, no_wrap=column == "name")
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    out.print(table)


def datasets(
    names: Annotated[list[str] | None, typer.Argument(help="Which; by default all.")] = None,
    as_json: Json = False,
) -> None:
    """Show the datasets beside the paper's table; one that is named is downloaded if need be."""
    chosen = names or list(DATASETS)
    rows = []
    for name in chosen:
        DATASETS[name]  # a misspelt name fails before anything is downloaded
    with bar() as progress:
        for name in progress.track(chosen, description="reading"):
            rows.append(dataset_row(name, named=bool(names)))
    if as_json:
        print_json([dataclasses.asdict(row) for row in rows])
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
        out.print()
        _print_named(", ".join(names), f"\n{source}")
    out.print()
    for note, names in grouped(rows, lambda row: row.note).items():
        _print_named(", ".join(names), f": {note}.")
    for missing, names in grouped(rows, lambda row: row.missing).items():
        _print_named(f"Not here: {', '.join(names)}", f": {missing}.")


def _print_named(names: str, text: str) -> None:
    out.print(Text(names, style="bold").append(text, style="not bold"))


def doctor(as_json: Json = False) -> None:
    """Say what this machine has, what it lacks, and what that costs."""
    findings = examine()
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
        return
    table = Table("", "found", "advice")
    for finding in findings:
        table.add_row(finding.subject, finding.found or "missing", finding.advice)
    out.print(table)
