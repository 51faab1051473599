"""Compare two outputs of ``gread bench``, row by row.

    python -m studies.compare_benchmarks BEFORE/bench.json AFTER/bench.json

Run it in the repository's root. It prints every time that both outputs have, and the ratio of the
second to the first. Times of the naive implementation show how much the two machines differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gread.report.tables import TextTable

Times: TypeAlias = Mapping[tuple[str, str, str], float]
"""Milliseconds by section, row and column."""


def times(path: str) -> Times:
    """All times of an output; names of rows do not include the required ratios."""
    sections: Mapping[str, Any] = json.loads(Path(path).read_text())["sections"]
    return {
        (section, _name(row), column): value
        for section, table in sections.items()
        for row in table["rows"]
        for column, value in row.items()
        if column.split()[-1] == "ms"
    }


def _name(row: Mapping[str, str | float]) -> str:
    """Name of a row: its columns that were not measured, which are texts and integers."""
    given = (row[column] for column in row if column not in ("at least", "at most"))
    return ", ".join(str(value) for value in given if not isinstance(value, float))


def table(before: Times, after: Times) -> TextTable:
    """The times that both outputs have.

    Example:
        >>> row = "headline", "Cora", "ours ms"
        >>> print(table({row: 2.0}, {row: 1.0}).csv())
        section,row,time,before,after,after / before
        headline,Cora,ours ms,2,1,0.50
        <BLANKLINE>
    """
    columns = ("section", "row", "time", "before", "after", "after / before")
    both = ((where, before[where], after[where]) for where in before if where in after)
    rows = ((*where, f"{old:.3g}", f"{new:.3g}", f"{new / old:.2f}") for where, old, new in both)
    return TextTable.of("Before and after", columns, rows, "Milliseconds.")


def main(before: str, after: str) -> None:
    """Print the comparison of two files."""
    print(table(times(before), times(after)).markdown())


if __name__ == "__main__":
    main(*sys.argv[1:])
