"""A section of the benchmark is a function that gives rows of numbers, and perhaps a picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure

from gread.base.errors import InputError
from gread.base.files import write_text
from gread.base.registry import Registry
from gread.report.figures import save
from gread.report.tables import Cell, Table

Row: TypeAlias = dict[str, str | float]


@dataclass(frozen=True)
class Section:
    """What was measured.

    Attributes:
        title: What is compared.
        rows: Texts and numbers by column; a row may lack a column.
        note: What a reader must know.
        figure: The same as a picture, where there is something to see.
    """

    title: str
    rows: list[Row] = field(default_factory=list)
    note: str = ""
    figure: Figure | None = None

    def table(self) -> Table:
        """The rows as texts."""
        columns = tuple(dict.fromkeys(column for row in self.rows for column in row))
        rows = tuple(
            tuple(Cell(_text(row.get(column, ""))) for column in columns) for row in self.rows
        )
        return Table(self.title, columns, rows, self.note)


Bench: TypeAlias = Callable[[str, bool], Section]
BENCHES: Registry[Bench] = Registry(
    "section of the benchmark",
    modules=[f"gread.bench.{name}" for name in ("costs", "epochs", "many", "models")],
)
"""Each is called with the device, and with whether to be quick: on tiny graphs, to see it run."""


def measure(name: str, device: str, quick: bool) -> Section:
    """One section; one that lacks its data or diverges says so, and others go on."""
    try:
        return BENCHES[name](device, quick)
    except (InputError, ArithmeticError, OSError) as error:
        return Section(name, note=f"Left out: {error}.")


def write(folder: Path, machine: Mapping[str, str], sections: Mapping[str, Section]) -> list[Path]:
    """``bench.md``, ``bench.json`` and a picture for every section that has one."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "# gread bench\n\n" + "".join(f"- {key}: {value}\n" for key, value in machine.items())
    pictures = []
    for name, section in sections.items():
        text += f"\n#{section.table().markdown()}"  # one level down
        if section.figure is not None:
            pictures.append(folder / f"{name}.png")
            save(section.figure, pictures[-1])
            text += f"\n![{section.title}]({name}.png)\n"
    files = [folder / "bench.md", folder / "bench.json", *pictures]
    write_text(files[0], text)
    write_text(files[1], to_json(machine, sections))
    return files


def to_json(machine: Mapping[str, str], sections: Mapping[str, Section]) -> str:
    """The raw numbers."""
    told = {
        name: {"title": section.title, "rows": section.rows, "note": section.note}
        for name, section in sections.items()
    }
    return json.dumps({"machine": machine, "sections": told}, indent=2, ensure_ascii=False) + "\n"


def _text(value: str | float) -> str:
    """Three digits are all that a measurement of time deserves."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3g}"
