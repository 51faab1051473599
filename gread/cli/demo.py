"""``gread demo``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable

from gread.cli.console import bar, out, print_json
from gread.cli.options import Json


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the pictures go.")
    ] = Path("runs/demo"),
    as_json: Json = False,
) -> None:
    """Show the paper's point: four models from heterophily to homophily, and two pictures."""
    from gread.experiments.demo import BUILDS, HOMOPHILIES, RUNS, SPLITS, demo as show
    from gread.models.catalog import MODELS

    with bar() as progress:
        task = progress.add_task("training", total=RUNS)
        found = show(folder, on_run=lambda: progress.update(task, advance=1))
    if as_json:
        cells = [dataclasses.asdict(cell) for cell in found.cells]
        print_json({"cells": cells, "pictures": list(map(str, found.pictures))})
        return
    table = RichTable(title="Test accuracy (%) by homophily", title_justify="left")
    table.add_column("model")
    for homophily in HOMOPHILIES:
        table.add_column(f"{homophily:.1f}", justify="right")
    for name in BUILDS:
        row = [f"{c.mean:.1f} ± {c.deviation:.1f}" for c in found.cells if c.model == name]
        table.add_row(MODELS[name].title, *row)
    out.print(table)
    out.print(
        f"Mean ± deviation over {SPLITS} splits of a random graph with five classes, the same "
        "settings for all models.\n"
        "Homophily is the share of edges that join two nodes of one class."
    )
    for picture in found.pictures:
        out.print(f"Wrote {picture}", soft_wrap=True, highlight=False)
