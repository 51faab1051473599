"""A column of a table: values of one kind with a mask of missing ones."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, issparse

from gread.base.errors import InputError

Kind: TypeAlias = Literal["whole", "number", "truth", "text", "vector", "mixed"]

WORDS: dict[Kind, str] = {  # names of the kinds in a sentence
    "whole": "whole numbers",
    "number": "numbers",
    "truth": "truth values",
    "text": "text",
    "vector": "lists of numbers",
    "mixed": "values of several types",
}

MISSING_NUMBERS = frozenset({"NA", "N/A", "null", "NULL", "None"})
"""Texts that mean a missing number, as does an empty cell; in a text column they are values."""


@dataclass(frozen=True)
class Column:
    """Values of one kind.

    Attributes:
        values: [N], of ``int64`` (whole), ``float64`` (number), ``bool`` (truth) or Python objects
            (text, mixed); ``float32`` [N, d] for vectors. Undefined where ``missing`` [N] is true.
            Mostly zero numbers may be a SciPy sparse matrix: CSR [N, d] for vectors, CSC [N, 1]
            for single numbers, with zeros for missing ones.
        categorical: Whether the source declares the values to be categories, as pandas does.
    """

    kind: Kind
    values: Any
    missing: NDArray[np.bool_]
    categorical: bool = False

    def __len__(self) -> int:
        return len(self.missing)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Column:
        return replace(self, values=self.values[rows], missing=self.missing[rows])

    @property
    def sparse(self) -> bool:
        """Whether the values are stored as a sparse matrix."""
        return bool(issparse(self.values))

    def dense(self) -> Column:
        """Convert sparse single numbers to an array; vectors stay sparse."""
        if not self.sparse or self.kind == "vector":
            return self
        return replace(self, values=self.values.toarray()[:, 0])

    def cells(self) -> list[Any]:
        """The values as Python objects, with None for missing ones."""
        pairs = zip(self.values.tolist(), self.missing, strict=True)
        return [None if gone else value for value, gone in pairs]

    def texts(self) -> list[str]:
        """The values as text; whole numbers stored as floats (in files with gaps) as integers.

        The text of a value does not depend on other rows, which may be fractions or missing.
        """
        values = self.values.tolist()
        if self.kind == "number":
            whole = (self.values == np.rint(self.values)) & (abs(self.values) < 2**53)
            pairs = zip(values, whole.tolist(), strict=True)
            values = [int(value) if is_whole else value for value, is_whole in pairs]
        return list(map(str, values))

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers or booleans."""
        return self.kind in ("whole", "number", "truth", "vector")

    def unusable(self) -> NDArray[np.bool_]:
        """Mask [N] of values that are NaN or infinite."""
        if self.kind not in ("number", "vector"):
            return np.zeros(len(self), dtype=bool)
        if self.sparse:
            entries = self.values.tocoo()
            found = np.zeros(len(self), dtype=bool)
            found[entries.row[~np.isfinite(entries.data)]] = True
            return found & ~self.missing
        finite = np.isfinite(self.values)
        return ~(finite.all(axis=1) if self.kind == "vector" else finite) & ~self.missing


LARGE = 1 << 22  # cells of a table from which on mostly zero columns become sparse
SPARSE = 0.25  # largest share of non-zeros for sparse storage


def sparse_vectors(matrix: Any) -> Column:
    """A column of vectors from a sparse matrix [N, d]."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"a sparse matrix must be [N, d] of numbers, got {list(matrix.shape)} of {matrix.dtype}"
        )
    values = csr_array(matrix, dtype=np.float32)
    values.sum_duplicates()
    values.eliminate_zeros()
    return Column("vector", values, np.zeros(matrix.shape[0], dtype=bool))


def sparse_numbers(
    kind: Kind, rows: NDArray[np.int64], values: NDArray[Any], missing: NDArray[np.bool_]
) -> Column:
    """A column of numbers that are zero except in ``rows``, which are in ascending order."""
    kept = (values != 0) & ~missing[rows]
    ends = np.array([0, kept.sum()])
    matrix = csc_array((values[kept], rows[kept], ends), shape=(len(missing), 1))
    return Column(kind, matrix, missing)


def thinned(columns: Iterable[tuple[str, Column]], cells: int) -> dict[str, Column]:
    """Convert mostly zero columns of a large table to sparse ones.

    Columns are converted one at a time, so that not all are in memory as arrays at once.
    """
    return {name: _thin(found) if cells >= LARGE else found for name, found in columns}


def _thin(found: Column) -> Column:
    if found.kind not in ("whole", "number") or found.sparse or found.categorical:
        return found
    rows = np.flatnonzero((found.values != 0) & ~found.missing)
    if len(rows) > SPARSE * len(found):
        return found
    return sparse_numbers(found.kind, rows, found.values[rows], found.missing)


def column(
    values: Sequence[Any] | NDArray[Any], missing: NDArray[np.bool_] | None = None
) -> Column:
    """A column of Python or NumPy values; None and the rows in ``missing`` are missing.

    An array with a dtype other than ``object`` is converted by its dtype.

    Example:
        >>> column([1, None, 3]).kind
        'whole'
        >>> column(["a", 2]).kind
        'mixed'
    """
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _typed(values, missing)
    absent = np.fromiter((value is None for value in values), bool, len(values))
    if missing is not None:
        absent |= missing
    present = [value for value, gone in zip(values, absent, strict=True) if not gone]
    kind = _kind_of(present)
    if kind == "vector":
        return _vectors(present, absent)
    if kind == "whole":
        try:
            return _filled(kind, np.array(present, dtype=np.int64), absent)
        except OverflowError:  # integers beyond 64 bits are kept as text
            kind = "text"
    if kind == "number":
        return _filled(kind, np.array([_double(value) for value in present], np.float64), absent)
    if kind == "truth":
        return _filled(kind, np.array(present, dtype=bool), absent)
    if kind == "text":
        present = [value if type(value) is str else str(value) for value in present]
    return _filled(kind, np.fromiter(present, dtype=object, count=len(present)), absent, "")


def _filled(
    kind: Kind, present: NDArray[Any], absent: NDArray[np.bool_], gap: object = 0
) -> Column:
    """A column of the present values, with ``gap`` in place of absent ones."""
    values: NDArray[Any] = np.full(len(absent), gap, dtype=present.dtype)
    values[~absent] = present
    return Column(kind, values, absent)


def column_of_texts(texts: Sequence[str]) -> Column:
    """A column from texts; numbers or booleans if all texts are.

    An empty text is missing, and among numbers also `MISSING_NUMBERS`. A number with a leading zero
    is a code and stays text: 007 is not 7.
    """
    empty, absent = (_among(words, texts) for words in ({""}, {""} | MISSING_NUMBERS))
    if empty.all():
        return Column("number", np.zeros(len(texts)), empty)
    if present := list(compress(texts, ~absent)):
        kind, values = _numbers(present)
        if values is not None:
            return _filled(kind, values, absent)
    known: dict[str, str] = {}  # equal texts share one object
    once = [known.setdefault(text, text) for text in texts]
    return Column("text", np.array(once, dtype=object), empty)


def _among(words: Set[str], texts: Sequence[str]) -> NDArray[np.bool_]:
    """Mask of the texts that are in ``words``."""
    if words.isdisjoint(texts):
        return np.zeros(len(texts), dtype=bool)
    return np.fromiter((text in words for text in texts), bool, len(texts))


_CODE = re.compile(r"^[+-]?0\d|_", re.MULTILINE)
_WHOLE = re.compile(r"[-0-9\n]*")
_TRUTH = {"true": True, "false": False}


def _numbers(texts: list[str]) -> tuple[Kind, NDArray[Any] | None]:
    """The texts as booleans or numbers, if all of them are."""
    if texts[0].lower() in _TRUTH:
        truths = [_TRUTH.get(text.lower()) for text in texts]
        return "truth", None if None in truths else np.array(truths, dtype=bool)
    joined = "\n".join(texts)
    if _CODE.search(joined):
        return "text", None
    try:
        if _WHOLE.fullmatch(joined):
            return "whole", np.array(texts, dtype=np.int64)
        return "number", np.array(texts, dtype=np.float64)
    except (ValueError, OverflowError):
        return "text", None


def _typed(values: NDArray[Any], missing: NDArray[np.bool_] | None) -> Column:
    """A column from an array with a dtype other than ``object``."""
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.dtype.kind not in "biuf"):
        raise InputError(
            f"a column must be an array [N], or [N, d] of numbers, got {list(values.shape)} of "
            f"{values.dtype}"
        )
    absent = np.zeros(len(values), dtype=bool) if missing is None else missing
    if values.ndim == 2:
        return Column("vector", _as(np.float32, values), absent)
    if values.dtype.kind == "b":
        return Column("truth", values, absent)
    if values.dtype.kind in "iu" and (values.dtype.itemsize < 8 or values.dtype.kind == "i"):
        return Column("whole", values.astype(np.int64, copy=False), absent)
    if values.dtype.kind == "f":
        return Column("number", _as(np.float64, values), absent)
    if values.dtype.kind == "M":
        return column([str(value) for value in values], absent | np.isnat(values))
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    return column(values.astype(object), absent)


def _as(of: type, values: NDArray[Any]) -> NDArray[Any]:
    """Cast values to a float type; overflow gives infinity, see `Column.unusable`."""
    with np.errstate(over="ignore"):
        return values.astype(of, copy=False)


def _vectors(rows: list[Any], absent: NDArray[np.bool_]) -> Column:
    """A column of vectors of one length."""
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        some = sorted(lengths)[:2]
        raise InputError(f"lists in a column must have one length, got {some[0]} and {some[1]}")
    try:
        filled = np.zeros((len(absent), lengths.pop()), dtype=np.float32)
        filled[~absent] = _as(np.float32, np.array(rows, dtype=np.float64))
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"lists in a column must hold only numbers: {error}") from error
    return Column("vector", filled, absent)


def _kind_of(values: Iterable[Any]) -> Kind:
    """The common kind of the values."""
    kinds: set[Kind] = set()
    for of in set(map(type, values)):
        if issubclass(of, dict):
            raise InputError("a column must hold plain values, got an object")
        kinds.add(next((kind for kind, types in _TYPES.items() if issubclass(of, types)), "text"))
    if not kinds or kinds == {"whole", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "mixed"


_TYPES: dict[Kind, Any] = {
    "truth": bool | np.bool_,
    "whole": numbers.Integral,
    "number": numbers.Real,
    "vector": list | tuple | np.ndarray,
}
"""Python types of the kinds, narrowest first: a boolean is an integer, an integer a number."""


def _double(value: Any) -> float:
    """Convert to float64; an integer that is too large becomes infinity."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")
