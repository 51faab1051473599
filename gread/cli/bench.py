"""``gread bench`` and ``gread doctor``: speed, versions and devices of this machine."""

from __future__ import annotations

import itertools
from pathlib import Path

from rich.table import Column

from gread.cli.console import bar, note, out, print_json, print_table


def bench(
    names: list[str] | None = None,
    device: str = "auto",
    folder: Path | None = None,
    quick: bool = False,
    as_json: bool = False,
) -> None:
    """Measure the cost of GREAD in ratios to a naive implementation."""
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
            out.print(f"{subject}: {value}")
        for section in found.sections.values():
            out.print(f"\n{section.title}", style="bold")
            shown = section.table()
            if shown.rows:
                first, *others = shown.columns
                columns = Column(first, no_wrap=True), *(Column(n, justify="right") for n in others)
                rows = ([cell.text for cell in row] for row in shown.rows)
                print_table(columns, rows, box=None, padding=(0, 1, 0, 0), pad_edge=False)
            out.print(section.note)
    for file in found.files:
        note(f"Wrote {file}")


def doctor(as_json: bool = False) -> None:
    """List versions, devices and optional packages, what is missing and what to do about it."""
    from gread.bench.doctor import examine

    findings = examine()
    if as_json:
        print_json(findings)
        return
    rows = ((finding.subject, finding.found or "missing", finding.advice) for finding in findings)
    print_table(("", "found", "advice"), rows)
