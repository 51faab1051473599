"""``gread datasets`` and ``gread list``: names in the registries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from gread.cli.console import bar, out, print_json, print_table

if TYPE_CHECKING:
    from gread.data.rows import DatasetRow


def list_(kind: str, as_json: bool = False) -> None:
    """List all reactions, solvers, models or datasets."""
    from gread.experiments.catalogue import catalogue

    rows = catalogue(kind)
    if as_json:
        print_json(rows)
        return
    names = [name for name in rows[0] if name != "hyperparameters"]
    columns = (Column(name, no_wrap=name == "name") for name in names)
    print_table(columns, ([row[name] for name in names] for row in rows))


def datasets(names: list[str] | None = None, as_json: bool = False) -> None:
    """Show statistics of datasets and the paper's values; download named ones if missing."""
    from gread.data.catalog import DATASETS
    from gread.data.rows import dataset_rows

    with bar() as progress:
        task = progress.add_task("reading", total=len(names or DATASETS))
        rows = dataset_rows(names or None, on_row=lambda _: progress.update(task, advance=1))
    if as_json:
        print_json(rows)
        return
    numbers = ("nodes", "edges", "+loops", "feat.", "classes", "node h.", "edge h.", "splits")
    columns = (Column(name, justify="right", no_wrap=True) for name in numbers)
    table = Table(Column("dataset", no_wrap=True), *columns, box=None, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(row.name, *row.counts())
        if row.paper:
            table.add_row("  paper", *row.paper_counts(), style="dim")
    out.print(table)
    out.print("h.: homophily. ≠: the paper's value is wrong; it differs from the data.")
    for source, named in _grouped(rows, lambda row: row.source).items():
        out.print()
        _print_named(", ".join(named), f"\n{source}")
    out.print()
    for note, named in _grouped(rows, lambda row: row.note).items():
        _print_named(", ".join(named), f": {note}.")
    for missing, named in _grouped(rows, lambda row: row.missing).items():
        _print_named(f"Not here: {', '.join(named)}", f": {missing}.")


def _print_named(names: str, text: str) -> None:
    out.print(Text(names, style="bold").append(text, style="not bold"))


def _grouped(
    rows: Sequence[DatasetRow], words: Callable[[DatasetRow], str]
) -> dict[str, list[str]]:
    """Names of datasets by their text, so that each text is printed once."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if words(row):
            groups.setdefault(words(row), []).append(row.name)
    return groups
