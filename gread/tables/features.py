"""From columns to features: every column has an encoder that is fitted to the training rows.

An encoder holds plain numbers and texts, so that a fitted preprocessing is JSON and a new table is
encoded as the first one was.
"""

from __future__ import annotations

import math
import re
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gread.base.errors import InputError
from gread.base.memory import free_memory
from gread.base.registry import Registry
from gread.tables.column import WORDS, Column
from gread.tables.table import Table

MOST_CATEGORIES = 64  # a column of text with more different values is read as words
HASHED_WORDS = 256  # features of a column of text
BLOCK = 65_536  # rows that are encoded at a time, to save memory
MAPPED = 0.2  # features that take more than this of the free memory are kept on the disk
LARGEST = 10.0  # standardised values beyond are clipped: an outlier must not drive a node's state


class Encoder(ABC):
    """What turns a column into features; a dataclass of plain values.

    With ``indicator`` the last feature says that a value is missing, as in some training rows.
    """

    indicator: bool

    def __post_init__(self) -> None:
        if not isinstance(self.indicator, bool):
            raise InputError(f"indicator must be true or false, got {self.indicator!r:.80}")

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.names(""))

    def encode(self, column: Column, out: NDArray[np.float32]) -> None:
        """Writes the features [N, width] of a column, which begin as zeros."""
        self._encode(column, out)
        if self.indicator:
            out[:, -1] = column.missing

    def names(self, column: str) -> list[str]:
        """What to call the features of a column."""
        return self._names(column) + [f"{column} is missing"] * self.indicator

    @abstractmethod
    def _encode(self, column: Column, out: NDArray[np.float32]) -> None:
        """Write the features of a column, without the indicator."""

    @abstractmethod
    def _names(self, column: str) -> list[str]:
        """Names of these features."""


ENCODERS: Registry[type[Encoder]] = Registry("encoder")


def check_numbers(name: str, values: object) -> None:
    """Requires finite numbers, as a tuple."""
    if not isinstance(values, tuple) or not all(
        type(value) in (int, float) and math.isfinite(value) for value in values
    ):
        raise InputError(f"{name} must be finite numbers, got {values!r:.80}")


@ENCODERS.register("numbers")
@dataclass(frozen=True)
class Numbers(Encoder):
    """(x − shift) / scale of every number of a row, zero where it is missing.

    A column whose training rows are mostly zero (counts, words, indicators) keeps its zeros and is
    divided by its largest value; another gets mean 0 and deviation 1.
    """

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    indicator: bool

    def __post_init__(self) -> None:
        check_numbers("shift", self.shift)
        check_numbers("scale", self.scale)
        super().__post_init__()
        if len(self.shift) != len(self.scale) or not all(scale > 0 for scale in self.scale):
            raise InputError("scale must be a number above zero for each of shift")

    @staticmethod
    def fit(column: Column, rows: NDArray[np.int64]) -> Numbers:
        """From the training rows."""
        present = rows[~column.missing[rows]]
        values = column.values[present].astype(np.float64)
        values = values[:, None] if values.ndim == 1 else values
        indicator = len(present) < len(rows)
        if not len(present):
            return Numbers((0.0,) * values.shape[1], (1.0,) * values.shape[1], indicator)
        largest = np.abs(values).max(axis=0)
        largest[largest == 0] = 1.0
        scaled = values / largest  # so that squares are finite
        sparse = (values == 0).mean(axis=0) > 0.5
        deviation = scaled.std(axis=0)
        deviation[deviation < 1e-12] = 1.0
        shift = np.where(sparse, 0.0, scaled.mean(axis=0) * largest)
        scale = np.maximum(np.where(sparse, 1.0, deviation) * largest, np.finfo(np.float64).tiny)
        return Numbers(tuple(shift.tolist()), tuple(scale.tolist()), indicator)

    def _encode(self, column: Column, out: NDArray[np.float32]) -> None:
        if column.numeric:
            values = column.values if column.kind == "vector" else column.values[:, None]
        elif column.missing.all():
            values = np.zeros((len(column), len(self.scale)))
        else:
            wrong = column.values[~column.missing][0]
            raise InputError(f"must hold numbers, got {WORDS[column.kind]}: {wrong!r}")
        if values.shape[1] != len(self.scale):
            raise InputError(
                f"must hold {len(self.scale)} numbers a row, as in training, got {values.shape[1]}"
            )
        known = out[:, : len(self.scale)]
        with np.errstate(over="ignore"):  # infinity is cut off too
            for place, (shift, scale) in enumerate(zip(self.shift, self.scale, strict=True)):
                known[:, place] = np.clip((values[:, place] - shift) / scale, -LARGEST, LARGEST)
        known[column.missing] = 0.0

    def _names(self, column: str) -> list[str]:
        several = len(self.scale) > 1
        return [f"{column}[{k}]" if several else column for k in range(len(self.scale))]


@ENCODERS.register("categories")
@dataclass(frozen=True)
class Categories(Encoder):
    """A feature for each value, as text: 1 where the column has it; none for unseen values."""

    values: tuple[str, ...]
    indicator: bool

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple) or not all(isinstance(v, str) for v in self.values):
            raise InputError("values must be texts")
        super().__post_init__()

    def _encode(self, column: Column, out: NDArray[np.float32]) -> None:
        places = {value: place for place, value in enumerate(self.values)}
        for row, value in enumerate(column.values.tolist()):
            place = None if column.missing[row] else places.get(str(value))
            if place is not None:
                out[row, place] = 1.0

    def _names(self, column: str) -> list[str]:
        return [f"{column} = {value}" for value in self.values]


@ENCODERS.register("words")
@dataclass(frozen=True)
class Words(Encoder):
    """A bag of words, hashed: ± the weight of a word at the place of its hash, of length 1.

    Attributes:
        weights: Of every place, 1 + log((1 + n) / (1 + rows that have it)) of n training rows.
    """

    weights: tuple[float, ...]
    indicator = False

    def __post_init__(self) -> None:
        check_numbers("weights", self.weights)

    @staticmethod
    def fit(column: Column, rows: NDArray[np.int64]) -> Words:
        """From the training rows."""
        counts = np.zeros((len(rows), HASHED_WORDS), dtype=np.float32)
        _count_words(column, rows, counts)
        having = (counts != 0).sum(axis=0)
        weights = 1 + np.log((1 + len(rows)) / (1 + having))
        return Words(tuple(weights.tolist()))

    def _encode(self, column: Column, out: NDArray[np.float32]) -> None:
        _count_words(column, np.arange(len(column)), out)
        out *= np.array(self.weights, dtype=np.float32)
        length = np.linalg.norm(out, axis=1, keepdims=True)
        np.divide(out, length, out=out, where=length > 0)

    def _names(self, column: str) -> list[str]:
        return [f"{column} word {place}" for place in range(len(self.weights))]


@dataclass(frozen=True)
class Preprocessing:
    """An encoder for every column that is used, in their order.

    Example:
        >>> from gread.tables import column
        >>> table = Table("nodes", {"age": column([1, 2, 3]), "colour": column(["a", "b", "a"])})
        >>> fitted = Preprocessing.fit(table, ["age", "colour"], np.array([0, 2]))
        >>> fitted.transform(table).tolist()
        [[-1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
        >>> Preprocessing.from_dict(fitted.to_dict()) == fitted
        True
    """

    encoders: Mapping[str, Encoder]

    @staticmethod
    def fit(table: Table, names: Sequence[str], rows: NDArray[np.int64]) -> Preprocessing:
        """Looks at the training ``rows`` of some columns, and at no other row."""
        for name in names:
            _check_finite(table, name)
        return Preprocessing({name: _fitted(table[name], rows) for name in names})

    def transform(self, table: Table) -> NDArray[np.float32]:
        """The features [N, F] of every row, on the disk where they would fill the memory."""
        out = _zeros(len(table), self.width)
        start = 0
        for name, encoder in self.encoders.items():
            _check_finite(table, name)
            end = start + encoder.width
            for first in range(0, len(table), BLOCK):
                rows = slice(first, first + BLOCK)
                try:
                    encoder.encode(table[name][rows], out[rows, start:end])
                except InputError as error:
                    raise InputError(f"column {name!r} of {table.name} {error}") from error
            start = end
        return out

    @property
    def width(self) -> int:
        """F."""
        return sum(encoder.width for encoder in self.encoders.values())

    def names(self) -> list[str]:
        """Of the features."""
        return [text for name, encoder in self.encoders.items() for text in encoder.names(name)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain values, for JSON."""
        kinds = {of: kind for kind, of in ENCODERS.items()}
        return [
            {"column": name, "encoder": kinds[type(encoder)], **asdict(encoder)}  # type: ignore[call-overload]
            for name, encoder in self.encoders.items()
        ]

    @staticmethod
    def from_dict(values: Sequence[Mapping[str, Any]]) -> Preprocessing:
        """What `to_dict` gave."""
        encoders = {}
        for entry in values:
            fields: dict[str, Any] = dict(entry)
            column, make = fields.pop("column"), ENCODERS[fields.pop("encoder")]
            if not isinstance(column, str):
                raise InputError(f"a column must have a name, got {column!r:.80}")
            lists = {name: tuple(value) for name, value in fields.items() if type(value) is list}
            encoders[column] = make(**fields | lists)
        return Preprocessing(encoders)


def choose_features(table: Table, wanted: str | Sequence[str], others: Sequence[str]) -> list[str]:
    """The columns to use: those that are named, or with ``"auto"`` all but ``others``."""
    if isinstance(wanted, str) and wanted == "auto":
        return [name for name in table.columns if name not in others]
    named = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    names = [name.strip() for name in named if name.strip()]
    for name in names:
        table[name]  # a misspelt name fails here
        if name in others:
            raise InputError(
                f"features must not name the column to predict or to split by: {name!r}"
            )
    return names


def _fitted(column: Column, rows: NDArray[np.int64]) -> Encoder:
    """The encoder that suits what a column holds."""
    if column.numeric:
        return Numbers.fit(column, rows)
    present = rows[~column.missing[rows]]
    values = sorted({str(value) for value in column.values[present]})
    if len(values) <= min(MOST_CATEGORIES, max(2, len(present) // 2)):
        return Categories(tuple(values), len(present) < len(rows))
    return Words.fit(column, rows)


def _zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Zeros in memory, or mapped from a file that goes when they do."""
    if 4 * rows * width <= MAPPED * free_memory():
        return np.zeros((rows, width), dtype=np.float32)
    with tempfile.TemporaryFile() as file:
        file.truncate(4 * rows * width)
        return np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, width))


def _check_finite(table: Table, name: str) -> None:
    bad = table[name].unusable()
    if bad.any():
        raise InputError(
            f"column {name!r} of {table.name} must hold finite numbers, got NaN or infinity in "
            f"{int(bad.sum())} rows, the first in row {int(bad.argmax()) + 1}: leave empty what is "
            "missing"
        )


def _count_words(column: Column, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
    """Adds ±1 for every word of the rows at the place of its hash."""
    known: dict[str, tuple[int, float]] = {}
    width = out.shape[1]
    for place, row in enumerate(rows.tolist()):
        if column.missing[row]:
            continue
        for word in re.findall(r"\w+", str(column.values[row]).lower()):
            if word not in known:
                code = zlib.crc32(word.encode())
                known[word] = (code >> 1) % width, 1.0 - 2.0 * (code & 1)
            at, sign = known[word]
            out[place, at] += sign
