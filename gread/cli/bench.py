"""``gread bench``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable

from gread.cli.console import bar, err, out
from gread.cli.options import Device, Json


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SECTIONS",
            help="headline, figure-9, datasets, models, population, memory, scale, shares, "
            "bandwidth; by default all.",
        ),
    ] = None,
    device: Device = "auto",
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write Markdown, JSON and pictures there."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="On tiny graphs, to see that it runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure what GREAD costs, in ratios to a naive implementation."""
    from gread.bench.section import bench as measure
    from gread.bench.sections import BENCHES

    with bar() as progress:
        task = progress.add_task("", total=len(names or BENCHES))
        done = itertools.count()
        found = measure(
            names or None,
            device=device,
            quick=quick,
            out=folder,
            on_section=lambda name: progress.update(task, completed=next(done), description=name),
        )
    if as_json:
        print(found.to_json(), end="")
    else:
        for subject, value in found.machine.items():
            out.print(f"{subject}: {value}", highlight=False)
        for section in found.sections.values():
            out.print(f"\n{section.title}", style="bold", highlight=False)
            shown = section.table()
            if shown.rows:
                table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
                for number, column in enumerate(shown.columns):
                    table.add_column(
                        column, justify="right" if number else "left", no_wrap=not number
                    )
                for row in shown.rows:
                    table.add_row(*(cell.text for cell in row))
                out.print(table)
            out.print(section.note, highlight=False)
    for file in found.files:
        err.print(f"Wrote {file}", highlight=False, soft_wrap=True)
