"""A section of the benchmark is a function that gives rows of numbers, and perhaps a picture."""

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
        rows: Texts and numbers by column; a row may lack a column.
        note: Remarks on the measurement.
        figure: The same as a figure; None without one.
    """

    title: str
    rows: list[Row] = field(default_factory=list)
    note: str = ""
    figure: Figure | None = None

    def table(self) -> TextTable:
        """The rows as texts."""
        columns = dict.fromkeys(column for row in self.rows for column in row)
        rows = ([_text(row.get(column, "")) for column in columns] for row in self.rows)
        return TextTable.of(self.title, columns, rows, self.note)


BENCHES: Registry[Callable[[str, bool], Section]] = Registry("section of the benchmark")
"""Functions of the device and of whether to be quick: on tiny graphs, to check that they run."""


@dataclass(frozen=True)
class Benchmark:
    """Measurements and their machine.

    Attributes:
        machine: Properties of the machine.
        sections: By name.
        files: What was written.
    """

    machine: Mapping[str, str]
    sections: Mapping[str, Section]
    files: list[Path]

    def to_json(self) -> str:
        """The raw numbers."""
        told = {
            name: {"title": section.title, "rows": section.rows, "note": section.note}
            for name, section in self.sections.items()
        }
        about = {"machine": self.machine, "sections": told}
        return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def bench(
    names: Iterable[str] | None = None,
    *,
    device: str = "auto",
    quick: bool = False,
    out: str | Path | None = None,
    on_section: Callable[[str], None] = lambda name: None,
) -> Benchmark:
    """Measure what GREAD costs, in ratios to a naive implementation.

    Args:
        names: Names of `BENCHES`; by default all.
        device: ``"auto"`` takes a GPU if there is one.
        quick: Whether to measure on tiny graphs, to see that it runs.
        out: Folder of Markdown, JSON and pictures, written after each section: a long benchmark
            that is stopped leaves what it has.
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
    """One section; one that lacks its data or diverges says so, and others go on."""
    try:
        return BENCHES[name](device, quick)
    except (InputError, ArithmeticError, OSError) as error:
        return Section(name, note=f"Left out: {error}.")


def _write(folder: Path, found: Benchmark) -> list[Path]:
    """``bench.md``, ``bench.json`` and a picture for every section that has one."""
    from gread.report.figures import save  # with matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    about = (f"- {key}: {value}\n" for key, value in found.machine.items())
    text = "# gread bench\n\n" + "".join(about)
    pictures = []
    for name, section in found.sections.items():
        text += f"\n#{section.table().markdown()}"  # one level down
        if section.figure is not None:
            pictures.append(folder / f"{name}.png")
            save(section.figure, pictures[-1])
            text += f"\n![{section.title}]({name}.png)\n"
    files = [folder / "bench.md", folder / "bench.json", *pictures]
    write_text(files[0], text)
    write_text(files[1], found.to_json())
    return files


def _text(value: str | float) -> str:
    """Number with three digits, the precision of a measured time."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3g}"
