"""What a script has to say, and the page made of it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gread.base.registry import Registry

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies" / "soak" / "results"
PAGE = ROOT / "docs" / "reliability.md"

# A script is a function of how often to try (None: as often as the page should say), in a file of
# its own below studies/soak/: @SCRIPTS.register("name").
SCRIPTS: Registry[Callable[[int | None], "Iterable[Row]"]] = Registry("soak script")


@dataclass(frozen=True)
class Row:
    """One line of the page.

    Attributes:
        fault: What goes wrong, as the issue's table names it; rows of one fault stand together.
        must_hold: What must be so all the same.
        tried: What was done.
        times: How often.
        found: What was seen, and what was repaired for it.
        script: What repeats it: a file, or a test as ``tests/test_x.py::test_y``.
    """

    fault: str
    must_hold: str
    tried: str
    times: int
    found: str
    script: str


def store(name: str, rows: list[Row], on: str, seconds: float) -> None:
    """Keeps the rows of one script, with what they were seen on."""
    RESULTS.mkdir(exist_ok=True)
    kept = {"on": on, "seconds": round(seconds), "rows": [asdict(row) for row in rows]}
    text = json.dumps(kept, indent=2, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def stored() -> Iterator[tuple[str, str, int, list[Row]]]:
    """Name, machine, seconds and rows of every script that has run."""
    for path in sorted(RESULTS.glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        yield path.stem, kept["on"], kept["seconds"], [Row(**row) for row in kept["rows"]]


def page() -> str:
    """docs/reliability.md, from the stored rows alone."""
    parts = [
        "# Reliability",
        "What was tried, how often, and what was found. Written by `make soak` from\n"
        "`studies/soak/results/`; do not edit. One of them: `python -m studies.soak NAME`.",
    ]
    faults: dict[tuple[str, str], list[Row]] = {}
    for _, _, _, rows in stored():
        for row in rows:
            faults.setdefault((row.fault, row.must_hold), []).append(row)
    for (fault, must_hold), rows in faults.items():
        lines = ["| tried | times | found | again with |", "| --- | ---: | --- | --- |"]
        for row in rows:
            tried, found = (text.replace("|", r"\|") for text in (row.tried, row.found))
            lines.append(f"| {tried} | {row.times:,} | {found} | `{row.script}` |")
        parts += [f"## {fault}", f"Must hold: {must_hold}.", "\n".join(lines)]
    seen = [f"- `{name}`: {on}; {seconds:,} s" for name, on, seconds, _ in stored()]
    parts += ["## Seen on", "\n".join(seen)]
    return "\n\n".join(parts) + "\n"
