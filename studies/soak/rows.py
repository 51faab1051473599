"""Rows of the soak scripts, and the page made of them."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gread.base.registry import Registry

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies" / "soak" / "results"
PAGE = ROOT / "docs" / "reliability.md"

# A script is a function of the number of attempts (None: the number for the page), in a separate
# file below studies/soak/, registered with @SCRIPTS.register("name").
SCRIPTS: Registry[Callable[[int | None], "Iterable[Row]"]] = Registry("soak script")


@dataclass(frozen=True)
class Row:
    """One line of the page.

    Attributes:
        fault: Kind of fault; rows of one kind form a section.
        must_hold: Requirement that must hold despite the fault.
        tried: The attempt.
        times: Number of attempts.
        found: Outcome, and what was fixed.
        script: File that repeats it, or a test as ``tests/test_x.py::test_y``.
    """

    fault: str
    must_hold: str
    tried: str
    times: int
    found: str
    script: str


def store(name: str, rows: list[Row], on: str, seconds: float) -> None:
    """Store the rows of one script with the machine that they were measured on."""
    RESULTS.mkdir(exist_ok=True)
    kept = {"on": on, "seconds": round(seconds), "rows": [asdict(row) for row in rows]}
    text = json.dumps(kept, indent=2, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def stored() -> Iterator[tuple[str, str, int, list[Row]]]:
    """Name, machine, seconds and rows of every stored script."""
    for path in sorted(RESULTS.glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        yield path.stem, kept["on"], kept["seconds"], [Row(**row) for row in kept["rows"]]


def page() -> str:
    """Render docs/reliability.md from the stored rows."""
    parts = [
        "# Reliability",
        "This page lists the faults that were injected, the number of attempts and the outcome. "
        "`make soak` writes it from `studies/soak/results/`; do not edit it. `python -m "
        "studies.soak NAME` repeats one script.",
    ]
    faults: dict[tuple[str, str], list[Row]] = {}
    for _, _, _, rows in stored():
        for row in rows:
            faults.setdefault((row.fault, row.must_hold), []).append(row)
    for (fault, must_hold), rows in faults.items():
        lines = ["| fault | attempts | outcome | script |", "| --- | ---: | --- | --- |"]
        for row in rows:
            tried, found = (text.replace("|", r"\|") for text in (row.tried, row.found))
            lines.append(f"| {tried} | {row.times:,} | {found} | `{row.script}` |")
        parts += [f"## {fault}", f"Requirement: {must_hold}.", "\n".join(lines)]
    seen = [f"- `{name}`: {on}; {seconds:,} s" for name, on, seconds, _ in stored()]
    parts += ["## Machines", "\n".join(seen)]
    return "\n\n".join(parts) + "\n"
