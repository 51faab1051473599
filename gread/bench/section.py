"""Sections of the benchmark: functions that return rows of numbers, and optionally a figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.files import write_text
from gread.base.registry import Registry
from gread.bench.machine import machine
from gread.report.tables import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = dict[str, str | float]


@dataclass(frozen=True)
class Section:
    """A table of measurements.

    Attributes:
        title: Title of the comparison.
        rows: Texts and numbers by column; a row may omit columns.
        note: Remarks on the measurement.
        figure: The measurements as a figure, or None.
    """

    title: str
    rows: list[Row] = field(default_factory=list)
    note: str = ""
    figure: Figure | None = None

    def table(self) -> TextTable:
        """The rows as a text table."""
        columns = dict.fromkeys(column for row in self.rows for column in row)
        rows = ([_text(row.get(column, "")) for column in columns] for row in self.rows)
        return TextTable.of(self.title, columns, rows, self.note)


BENCHES: Registry[Callable[[str, bool], Section]] = Registry("section of the benchmark")
"""Functions of the device and ``quick``, which selects tiny graphs to check that they run."""


@dataclass(frozen=True)
class Benchmark:
    """Measurements and their machine.

    Attributes:
        machine: Properties of the machine.
        sections: Sections by name.
        files: Written files.
    """

    machine: Mapping[str, str]
    sections: Mapping[str, Section]
    files: list[Path]

    def to_json(self) -> str:
        """Raw numbers as JSON."""
        sections = {
            name: {"title": section.title, "rows": section.rows, "note": section.note}
            for name, section in self.sections.items()
        }
        about = {"machine": self.machine, "sections": sections}
        return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def bench(
    names: Iterable[str] | None = None,
    *,
    device: str = "auto",
    quick: bool = False,
    out: str | Path | None = None,
    on_section: Callable[[str], None] = lambda name: None,
) -> Benchmark:
    """Measure the costs of GREAD relative to a naive implementation.

    Args:
        names: Names of `BENCHES`; by default all.
        device: ``"auto"`` takes a GPU if there is one.
        quick: Whether to measure on tiny graphs, to check that everything runs.
        out: Folder for Markdown, JSON and figures. It is written after each section, so an
            interrupted benchmark keeps the completed sections.
        on_section: Called with the name of a section before it is measured.

    Example:
        >>> from gread.bench import bench
        >>> list(bench(["bandwidth"], device="cpu", quick=True).sections)
        ['bandwidth']
    """
    chosen = list(BENCHES if names is None else names)
    for name in chosen:
        BENCHES[name]  # a misspelt name fails before anything is measured
    place = choose_device(device)
    found = Benchmark(machine(place), {}, [])
    for name in chosen:
        on_section(name)
        found = replace(found, sections={**found.sections, name: measure(name, place, quick)})
        if out is not None:
            found = replace(found, files=_write(Path(out), found))
    return found


def measure(name: str, device: str, quick: bool) -> Section:
    """Measure one section; if its data are missing or it diverges, return a note instead."""
    try:
        return BENCHES[name](device, quick)
    except (InputError, ArithmeticError, OSError) as error:
        return Section(name, note=f"Left out: {error}.")


def _write(folder: Path, found: Benchmark) -> list[Path]:
    """Write ``bench.md``, ``bench.json`` and the figure of every section that has one."""
    from gread.report.figures import save  # imports matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    about = (f"- {key}: {value}\n" for key, value in found.machine.items())
    text = "# gread bench\n\n" + "".join(about)
    pictures = []
    for name, section in found.sections.items():
        text += f"\n#{section.table().markdown()}"  # one heading level down
        if section.figure is not None:
            pictures.append(folder / f"{name}.png")
            save(section.figure, pictures[-1])
            text += f"\n![{section.title}]({name}.png)\n"
    files = [folder / "bench.md", folder / "bench.json", *pictures]
    write_text(files[0], text)
    write_text(files[1], found.to_json())
    return files


def _text(value: str | float) -> str:
    """Format a number as an integer or with three digits, the precision of a measured time."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3g}"
