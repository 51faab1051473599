"""The command that measures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gread.base.devices import choose_device
from gread.cli.console import Json, bar, err, out
from gread.cli.train import Device


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
    from gread.bench.machine import machine  # with matplotlib
    from gread.bench.section import BENCHES, measure, to_json, write

    chosen = names or list(BENCHES)
    for name in chosen:
        BENCHES[name]  # a misspelt name fails before anything is measured
    place = choose_device(device)
    described = machine(place)
    sections, files = {}, []
    with bar() as progress:
        task = progress.add_task("", total=len(chosen))
        for name in chosen:
            progress.update(task, description=name)
            sections[name] = measure(name, place, quick)
            if (
                folder is not None
            ):  # after each: a long benchmark that is stopped leaves what it has
                files = write(folder, described, sections)
            progress.advance(task)
    if as_json:
        print(to_json(described, sections), end="")
    else:
        for subject, value in described.items():
            out.print(f"{subject}: {value}", highlight=False)
        for section in sections.values():
            out.print(f"\n{section.title}", style="bold", highlight=False)
            shown = section.table()
            if shown.rows:
                table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
                for number, column in enumerate(shown.columns):
                    table.add_column(
                        column, justify="right" if number else "left", no_wrap=not number
                    )
                for row in shown.rows:
                    table.add_row(*(cell.text for cell in row))
                out.print(table)
            out.print(section.note, highlight=False)
    for file in files:
        err.print(f"Wrote {file}", highlight=False, soft_wrap=True)
