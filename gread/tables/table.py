"""Tables: columns by name, with a name for messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from gread.base.errors import InputError
from gread.tables.column import Column

ROW = "(row)"  # column of row numbers in a table read from a matrix
MOST_COLUMNS = 100_000  # wider features must be one column of vectors
MOST_EMPTY = 10_000_000  # cells of a mostly empty table; in larger ones 1 % must have values


def check_shape(rows: int, columns: int, values: int | None = None) -> None:
    """Limit the number of columns, and of cells relative to the number of ``values``."""
    if columns > MOST_COLUMNS:
        raise InputError(
            f"it must have {MOST_COLUMNS:,} columns or fewer, got {columns:,}: store wide "
            "features as one column of lists of numbers, in NPZ or Parquet"
        )
    if values is not None and rows * columns > max(MOST_EMPTY, 100 * values):
        raise InputError(
            f"its {columns:,} columns must contain enough values in {rows:,} rows, got {values:,} "
            "in total: values seem to be used as names"
        )


@dataclass(frozen=True)
class Table:
    """Columns of one length; ``table[name]`` is dense except for sparse vectors.

    Example:
        >>> from gread.tables.column import column
        >>> Table("nodes.csv", {"id": column([1, 2])})["idd"]
        Traceback (most recent call last):
        ...
        gread.base.errors.InputError: nodes.csv has no column 'idd', did you mean 'id'? It has: id
    """

    name: str
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            some = ", ".join(f"{name} {len(column)}" for name, column in self.columns.items())
            raise InputError(f"the columns of {self.name} must have one length, got {some}")

    def __len__(self) -> int:
        return next((len(column) for column in self.columns.values()), 0)

    def __getitem__(self, name: str) -> Column:
        return self.stored(name).dense()

    def stored(self, name: str) -> Column:
        """The column as stored, possibly sparse."""
        if name in self.columns:
            return self.columns[name]
        near = get_close_matches(name, self.columns, n=1)
        hint = f", did you mean {near[0]!r}? It" if near else "; it"
        shown = list(self.columns)[:20]
        more = ", ..." if len(self.columns) > len(shown) else ""
        raise InputError(
            f"{self.name} has no column {name!r}{hint} has: {', '.join(shown) or 'none'}{more}"
        )
