"""Classes and splits in columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gread.base.errors import InputError
from gread.tables.column import WORDS, Column
from gread.tables.table import Table

SPLITS: dict[str, int] = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Labels:
    """Classes of nodes.

    Attributes:
        classes: In their order: truth values, whole numbers or texts.
        y: [N], the place of a node's class in ``classes``; −1 where it has none.
    """

    classes: tuple[Any, ...]
    y: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.bool_]:
        """[N], which nodes have a class."""
        return self.y >= 0


def read_labels(table: Table, name: str, classes: Sequence[Any] | None = None) -> Labels:
    """The classes in a column; a node where it is empty is one to predict.

    Args:
        table: The nodes.
        name: The column.
        classes: The classes if they are known; others fail.
    """
    found = table[name]
    where = f"label column {name!r} of {table.name}"
    values = _values(found, where)
    if classes is None:
        classes = sorted({value for value in values if value is not None})
        if not classes:
            raise InputError(f"{where} must name the class of some nodes, got none")
        if len(classes) < 2:
            raise InputError(f"{where} must have two classes or more, got {classes[0]!r} alone")
    place: dict[Any, int] = {None: -1} | {value: at for at, value in enumerate(classes)}
    for value in values:
        if value not in place:
            raise InputError(
                f"{where} must have the classes {', '.join(map(repr, classes))}, got {value!r}"
            )
    return Labels(tuple(classes), np.array([place[value] for value in values], dtype=np.int64))


def _values(found: Column, where: str) -> list[Any]:
    """Classes as Python values, None where there is none."""
    if found.unusable().any():
        raise InputError(f"{where} must hold classes, got NaN or infinity: leave them empty")
    if found.kind == "number":
        broken = found.values[found.values != np.rint(found.values)]
        if len(broken):
            raise InputError(f"{where} must hold classes, got numbers such as {broken[0]:g}")
        found = replace(found, values=found.values.astype(np.int64))  # from a table with a gap
    elif found.kind == "text" and (several := _several(set(found.values[~found.missing]))):
        raise InputError(
            f"{where} must hold one class a node, got several, such as {several!r}: keep one, or "
            "predict a column of 0 and 1 for each class"
        )
    elif found.kind in ("vector", "mixed"):
        raise InputError(f"{where} must hold classes of one type, got {WORDS[found.kind]}")
    return found.cells()


def _several(values: Set[str]) -> str:
    """A text that lists classes, as in "a;b"; empty if the parts are not classes of other nodes."""
    for separator in ";|":
        lists = sorted(value for value in values if separator in value)
        parts = [{part.strip() for part in value.split(separator)} for value in values]
        seen = Counter(part for some in parts for part in some)
        listed = {part.strip() for value in lists for part in value.split(separator)}
        if lists and 2 * sum(seen[part] > 1 for part in listed) > len(listed):
            return lists[0]
    return ""


def read_split(table: Table, name: str) -> NDArray[np.int64]:
    """What part a column gives each node: 0 train, 1 validation, 2 test, −1 none."""
    found = table[name]
    parts = np.full(len(found), -1, dtype=np.int64)
    for row in np.flatnonzero(~found.missing):
        word = str(found.values[row]).strip().lower()
        if word not in SPLITS:
            raise InputError(
                f"split column {name!r} of {table.name} must say {', '.join(SPLITS)} or nothing, "
                f"got {found.values[row]!r} in row {row + 1}"
            )
        parts[row] = SPLITS[word]
    return parts


def draw_split(
    y: NDArray[np.int64], fractions: tuple[float, float, float], seed: int
) -> NDArray[np.int64]:
    """Parts as in `read_split` for the nodes that have a class, drawn class by class."""
    rng = np.random.default_rng(seed)
    parts = np.full(len(y), -1, dtype=np.int64)
    bounds = np.cumsum(fractions)[:-1]
    for label in np.unique(y[y >= 0]):
        members = rng.permutation(np.flatnonzero(y == label))
        parts[members] = np.searchsorted(bounds, (np.arange(len(members)) + 0.5) / len(members))
    return parts


def check_split(parts: NDArray[np.int64], y: NDArray[np.int64], *, tested: bool = True) -> None:
    """Requires labelled nodes in all parts, and training nodes of two classes.

    Args:
        parts: As in `read_split`.
        y: Classes, −1 where there is none.
        tested: Whether there must be a test.
    """
    names = ("train", "validation", "test")[: 3 if tested else 2]
    sizes = [int(((parts == part) & (y >= 0)).sum()) for part in range(len(names))]
    if 0 in sizes:
        got = ", ".join(f"{size} {name}" for size, name in zip(sizes, names, strict=True))
        raise InputError(
            f"there must be nodes with a class to train, to validate{' and to test' * tested}, got "
            f"{got}: label some ten nodes of every class"
        )
    if len(np.unique(y[(parts == 0) & (y >= 0)])) < 2:
        raise InputError("training nodes must be of two classes or more, got one")
