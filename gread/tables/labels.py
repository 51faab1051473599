"""Classes, labels, numbers to predict, and splits in columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gread.base.errors import InputError
from gread.tables.column import WORDS, Column
from gread.tables.table import Table
from gread.tables.written import as_days, date_format

SEPARATORS = ";|"
"""Separators of labels in a cell."""

CLASSES = 20
"""Number of distinct whole numbers up to which a column holds classes."""

SPLITS: dict[str, int] = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Labels:
    """Classes of nodes.

    Attributes:
        classes: Classes in order: booleans, whole numbers or texts.
        y: [N], index of a node's class in ``classes``; −1 if it has none.
    """

    classes: tuple[Any, ...]
    y: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mask [N] of nodes with a class."""
        return self.y >= 0


def read_labels(table: Table, name: str, classes: Sequence[Any] | None = None) -> Labels:
    """Read classes from a column; nodes with an empty cell are to be predicted.

    Args:
        table: The nodes.
        name: The column.
        classes: The classes if they are known; other values raise an error.
    """
    found = table[name]
    where = f"label column {name!r} of {table.name}"
    values = class_values(found, where)
    if classes is not None and found.kind in ("whole", "number") and type(classes[0]) is str:
        values = [None if value is None else str(value) for value in values]  # texts 1 and 2
    if classes is None:
        classes = sorted({value for value in values if value is not None})
        if not classes:
            raise InputError(f"{where} must name the class of some nodes, got none")
        if len(classes) < 2:
            raise InputError(f"{where} must have two classes or more, got only {classes[0]!r}")
    place: dict[Any, int] = {None: -1} | {value: at for at, value in enumerate(classes)}
    for value in values:
        if value not in place:
            raise InputError(
                f"{where} must have the classes {', '.join(map(repr, classes))}, got {value!r}"
            )
    return Labels(tuple(classes), np.array([place[value] for value in values], dtype=np.int64))


def class_values(found: Column, where: str) -> list[Any]:
    """Classes as Python values, with None for missing ones.

    Args:
        found: A column of classes; fractions, NaN, lists and mixed types raise an error.
        where: Name of the column in that error.
    """
    if found.unusable().any():
        raise InputError(f"{where} must hold classes, got NaN or infinity: leave them empty")
    if found.kind == "number":
        broken = found.values[~_whole(found)]
        if len(broken):
            raise InputError(
                f"{where} must hold classes, got numbers such as {broken[0]:g}: predict them with "
                "gread fit --task regression, or gread.GraphRegressor"
            )
        found = replace(found, values=found.values.astype(np.int64))  # floats because of a gap
    elif found.kind in ("vector", "mixed"):
        raise InputError(f"{where} must hold classes of one type, got {WORDS[found.kind]}")
    return found.cells()


def separator_of(found: Column, labels: Sequence[str] | None = None) -> str:
    """Separator of labels in a column of lists such as "a;b"; empty for a column of classes.

    A column holds lists if most labels in its lists also occur in other texts.

    Args:
        found: The column.
        labels: The labels if they are known; the separator is then the one that gives only these.
    """
    values = set(found.values[~found.missing]) if found.kind == "text" else set()
    if labels is not None:
        fits = (one for one in SEPARATORS if all(_parts(v, one) <= set(labels) for v in values))
        return next(fits, SEPARATORS[0])
    for separator in SEPARATORS:
        lists = sorted(value for value in values if separator in value)
        parts = [_parts(value, separator) for value in values]
        seen = Counter(part for some in parts for part in some)
        listed = {part for value in lists for part in _parts(value, separator)}
        if lists and 2 * sum(seen[part] > 1 for part in listed) > len(listed):
            return separator
    return ""


def _parts(value: str, separator: str) -> set[str]:
    return {part.strip() for part in value.split(separator)} - {""}


def read_lists(
    table: Table, name: str, separator: str, labels: Sequence[str] | None = None
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The labels in a column of lists, and their indicator matrix [N, labels].

    Args:
        table: The nodes.
        name: The column; an empty cell gives a row of NaN.
        separator: See `separator_of`.
        labels: The labels if they are known; other labels raise an error.
    """
    found = table[name]
    lists = [None if cell is None else _parts(str(cell), separator) for cell in found.cells()]
    every = sorted({part for some in lists for part in some or ()})
    labels = every if labels is None else labels
    if unknown := set(every) - set(labels):
        raise InputError(
            f"label column {name!r} of {table.name} must have the labels {', '.join(labels)}, got "
            f"{sorted(unknown)[0]!r}"
        )
    y = [
        [np.nan] * len(labels) if some is None else [one in some for one in labels]
        for some in lists
    ]
    return tuple(labels), np.array(y, dtype=np.float64).reshape(len(lists), len(labels))


def read_truths(table: Table, names: Sequence[str]) -> NDArray[np.float64]:
    """Read columns of 0 and 1, [N, columns]; all are NaN for a node with an empty cell."""
    y = np.stack([_numbers(table, name, "0 and 1") for name in names], axis=1)
    wrong = ~np.isin(y, (0, 1)) & ~np.isnan(y)
    if wrong.any():
        row, place = np.argwhere(wrong)[0]
        raise InputError(
            f"label column {names[place]!r} of {table.name} must hold 0 and 1, as one of several "
            f"labels, got {y[row, place]:g} in row {row + 1}"
        )
    y[np.isnan(y).any(axis=1)] = np.nan
    return y


def read_numbers(table: Table, name: str) -> NDArray[np.float64]:
    """Read the numbers in a column, [N]; NaN for empty cells."""
    return _numbers(table, name, "numbers")


def _numbers(table: Table, name: str, wanted: str) -> NDArray[np.float64]:
    found = table[name]
    where = f"label column {name!r} of {table.name}"
    if found.kind not in ("whole", "number", "truth"):
        raise InputError(f"{where} must hold {wanted}, got {WORDS[found.kind]}")
    if found.unusable().any():
        raise InputError(f"{where} must hold {wanted}, got NaN or infinity: leave them empty")
    return np.where(found.missing, np.nan, found.values.astype(np.float64))


def are_quantities(found: Column) -> bool:
    """Whether a column holds numbers to predict rather than classes.

    Numbers with a fraction are quantities. More than 20 distinct whole numbers are quantities too,
    unless they are codes 0 to k or 1 to k, each with two rows or more on average.

    Example:
        >>> from gread.tables.column import column
        >>> are_quantities(column([0.5, 1.0])), are_quantities(column(list(range(40)) * 3))
        (True, False)
        >>> are_quantities(column([10 * k for k in range(40)]))
        True
    """
    if found.kind not in ("whole", "number") or found.categorical or found.unusable().any():
        return False
    if not _whole(found).all():
        return True
    values = np.unique(found.values[~found.missing])
    if len(values) <= CLASSES:
        return False
    codes = values[0] in (0, 1) and bool(values[-1] - values[0] == len(values) - 1)
    return not codes or 2 * len(values) > len(found) - int(found.missing.sum())


def _whole(found: Column) -> NDArray[np.bool_]:
    """Mask of integers and missing values."""
    return found.missing | (found.values == np.rint(found.values))


def read_split(table: Table, name: str) -> NDArray[np.int64]:
    """Read the set of each node: 0 train, 1 validation, 2 test, −1 none."""
    found = table[name]
    parts = np.full(len(found), -1, dtype=np.int64)
    for row in np.flatnonzero(~found.missing):
        word = str(found.values[row]).strip().lower()
        if word not in SPLITS:
            raise InputError(
                f"split column {name!r} of {table.name} must contain {', '.join(SPLITS)} or "
                f"nothing, got {found.values[row]!r} in row {row + 1}"
            )
        parts[row] = SPLITS[word]
    return parts


def draw_split(
    y: NDArray[np.int64], fractions: tuple[float, float, float], seed: int
) -> NDArray[np.int64]:
    """Draw the sets of labelled nodes, stratified by class; values as in `read_split`."""
    rng = np.random.default_rng(seed)
    parts = np.full(len(y), -1, dtype=np.int64)
    bounds = np.cumsum(fractions)[:-1]
    for label in np.unique(y[y >= 0]):
        members = rng.permutation(np.flatnonzero(y == label))
        parts[members] = np.searchsorted(bounds, (np.arange(len(members)) + 0.5) / len(members))
    return parts


@dataclass(frozen=True)
class Times:
    """Times in a column.

    Attributes:
        values: [N], numbers, or ordinals of dates (1 is 0001-01-01); undefined where ``missing``
            [N] is true.
        dates: Whether the values are ordinals of dates.
    """

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    dates: bool

    def text(self, value: float) -> str:
        """Format a time as an ISO date or a number."""
        return date.fromordinal(int(value)).isoformat() if self.dates else f"{value:.12g}"


def read_times(table: Table, name: str) -> Times:
    """Read times from a column of numbers or dates; the time of day is ignored."""
    found = table[name].dense()
    way = date_format(found)
    if way:
        return Times(as_days(found, way).astype(np.float64), found.missing, dates=True)
    if found.kind not in ("whole", "number") or found.unusable().any():
        got = WORDS[found.kind] if found.kind not in ("whole", "number") else "NaN or infinity"
        raise InputError(
            f"time column {name!r} of {table.name} must hold numbers or dates, got {got}"
        )
    return Times(found.values.astype(np.float64), found.missing, dates=False)


def split_by_time(
    times: NDArray[np.float64], known: NDArray[np.bool_], fractions: tuple[float, float, float]
) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """Split the known nodes by time, the latest for the test; sets as in `read_split`.

    Nodes with the same time are in the same set, so the fractions are approximate.

    Returns:
        The set of each node, and the times at which validation and test begin.

    Example:
        >>> split_by_time(np.array([3.0, 1, 2, 5, 4]), np.full(5, True), (0.6, 0.2, 0.2))
        (array([0, 0, 0, 2, 1]), (4.0, 5.0))
    """
    moments, counts = np.unique(times[known], return_counts=True)
    if len(moments) < 3:
        raise InputError(
            "labelled nodes must have three different times or more for a split by time, got "
            f"{len(moments)}"
        )
    before = (np.cumsum(counts) - counts) / counts.sum()  # share of nodes before each time
    first = 1 + int(np.abs(before[1:-1] - fractions[0]).argmin())
    second = first + 1 + int(np.abs(before[first + 1 :] - fractions[0] - fractions[1]).argmin())
    cuts = float(moments[first]), float(moments[second])
    return np.where(known, np.searchsorted(cuts, times, side="right"), -1), cuts


def check_split(parts: NDArray[np.int64], known: NDArray[np.bool_], *, tested: bool = True) -> None:
    """Require labelled nodes in all sets.

    Args:
        parts: As in `read_split`.
        known: Which nodes have a label.
        tested: Whether test nodes are required.
    """
    names = ("train", "validation", "test")[: 3 if tested else 2]
    sizes = [int(((parts == part) & known).sum()) for part in range(len(names))]
    if 0 in sizes:
        got = ", ".join(f"{size} {name}" for size, name in zip(sizes, names, strict=True))
        raise InputError(
            f"there must be nodes with a class to train, to validate{' and to test' * tested}, got "
            f"{got}: label some ten nodes of every class"
        )
