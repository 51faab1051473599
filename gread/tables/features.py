"""Encoders from columns to features, fitted on training rows.

An encoder holds plain numbers and texts. A fitted preprocessing can therefore be stored as JSON,
and a new table is encoded in the same way as the training table.
"""

from __future__ import annotations

import math
import re
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack, issparse

from gread.base.errors import InputError
from gread.base.memory import free_memory
from gread.base.registry import Registry
from gread.tables.codes import are_codes
from gread.tables.column import SPARSE, Column
from gread.tables.scaling import SCALINGS, rescaled
from gread.tables.table import Table
from gread.tables.written import DATES, as_days, as_numbers, date_format, number_format

Block: TypeAlias = Any
"""Features [rows, width]: a float32 array or a SciPy sparse array."""

MOST_CATEGORIES = 64  # a text column with more distinct values is encoded as words
HASHED_WORDS = (256, 4096)  # smallest and largest number of features of a text column
SAMPLE = 1000  # rows used to estimate the number of non-zero features
BLOCK = 65_536  # rows that are encoded at a time, to save memory
MAPPED = 0.2  # share of the free memory above which features are memory-mapped
LARGEST = 10.0  # limit of scaled values, so that an outlier does not dominate a node's state
MILLION = 20.0  # the same for logarithms of counts
UNSCALED = 1e6  # the same for unscaled values
WORTH = 1 << 22  # values from which on features may be a sparse matrix


class Encoder(ABC):
    """Encoder from a column to features, a dataclass of plain values.

    With ``indicator``, the last feature is 1 for missing values; encoders set it if training rows
    have missing values.
    """

    indicator: bool

    def __post_init__(self) -> None:
        if not isinstance(self.indicator, bool):
            raise InputError(f"indicator must be true or false, got {self.indicator!r:.80}")

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.names(""))

    def encode(self, column: Column) -> Block:
        """The features [N, width] of a column."""
        found, missing = self._encode(column), column.missing[:, None].astype(np.float32)
        if not self.indicator:
            return found
        if issparse(found):
            return csr_array(hstack([found, csr_array(missing)]))
        return np.hstack([found, missing])

    def names(self, column: str) -> list[str]:
        """Names of the features of a column."""
        return self._names(column) + [f"{column} is missing"] * self.indicator

    @property
    @abstractmethod
    def about(self) -> str:
        """Short description of the encoding."""

    @abstractmethod
    def _encode(self, column: Column) -> Block:
        """The features of a column, without the indicator."""

    @abstractmethod
    def _names(self, column: str) -> list[str]:
        """Names of the features without the indicator."""


ENCODERS: Registry[type[Encoder]] = Registry("encoder")


def check_numbers(name: str, values: object) -> None:
    """Require a tuple of finite numbers."""
    if not isinstance(values, tuple) or not all(
        type(value) in (int, float) and math.isfinite(value) for value in values
    ):
        raise InputError(f"{name} must be finite numbers, got {values!r:.80}")


@ENCODERS.register("numbers")
@dataclass(frozen=True)
class Numbers(Encoder):
    """Scaled numbers (x − shift) / scale; zero for missing values.

    A column that is mostly zero in the training rows is not shifted, so its zeros stay zero.

    Attributes:
        written: Format of numbers in a text column, a name of `gread.tables.written.NUMBERS`.
        counts: A name of `SCALINGS` that replaces this formula: ``"none"``, ``"binary"``, ``"log"``
            or ``"row"``. `Preprocessing` completes ``"row"``, which depends on all columns: its
            1 / scale is the mean number of non-zeros per row, so that their mean is 1.
    """

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    indicator: bool
    written: str = ""
    counts: str = ""

    def __post_init__(self) -> None:
        check_numbers("shift", self.shift)
        check_numbers("scale", self.scale)
        super().__post_init__()
        if len(self.shift) != len(self.scale) or not all(scale > 0 for scale in self.scale):
            raise InputError("scale must be a number above zero for each of shift")
        if self.counts not in ("", *SCALINGS):
            raise InputError(f"counts must be a scaling, got {self.counts!r:.80}")

    @staticmethod
    def fit(
        column: Column, rows: NDArray[np.int64], written: str = "", scaling: str = "auto"
    ) -> Numbers:
        """Fit to the training rows."""
        column = as_numbers(column, written)
        found = _Moments.of(column, rows)
        zeros, ones = np.zeros(found.width), np.ones(found.width)
        shift, scale, counts = zeros, ones, ""
        if scaling == "none":
            counts = "none"
        elif found.are_counts and scaling in ("binary", "row", "log"):
            counts = scaling
        elif found.are_counts and scaling == "auto" and found.whole:
            counts = "log"
        elif found.are_counts and scaling == "auto":
            scale = ones * (found.mean_nonzero or 1.0)
        elif found.rows:
            mostly_zero = found.mostly_zero | column.sparse
            shift = np.where(mostly_zero, 0.0, found.mean * found.largest)
            kept = found.deviation if found.are_counts else ones
            scale = np.where(mostly_zero, kept, found.deviation) * found.largest
        scale = np.maximum(scale, np.finfo(np.float64).tiny)
        return Numbers(
            tuple(shift.tolist()), tuple(scale.tolist()), found.rows < len(rows), written, counts
        )

    @property
    def about(self) -> str:
        """Description of the scaling."""
        what = f"numbers with {self.written}" if self.written else "numbers"
        if self.counts:
            return (
                f"{'numbers' if self.counts == 'none' else 'counts'}, {SCALINGS[self.counts].about}"
            )
        if any(self.shift):
            return f"{what}, standardized"
        same = all(scale == 1 for scale in self.scale)
        return f"{what}, mostly zero, {'unchanged' if same else 'scaled'}"

    def _encode(self, column: Column) -> Block:
        column = as_numbers(column, self.written)
        shape = len(column), len(self.scale)
        if column.missing.all():
            return np.zeros(shape, dtype=np.float32)
        values = (
            column.values if column.kind == "vector" or column.sparse else column.values[:, None]
        )
        if values.shape != shape:
            raise InputError(
                f"must hold {len(self.scale)} numbers per row as in training, got {values.shape[1]}"
            )
        if column.sparse and not any(self.shift):
            out = values.astype(np.float64).tocsc()
            entries = np.repeat(np.arange(shape[1]), np.diff(out.indptr))
            out.data = self._scaled(out.data, 0.0, np.array(self.scale)[entries])
            return out
        values = values.toarray() if column.sparse else values
        out = np.empty(shape, dtype=np.float32)
        for place, (shift, scale) in enumerate(zip(self.shift, self.scale, strict=True)):
            out[:, place] = self._scaled(values[:, place], shift, scale)
        out[column.missing] = 0.0
        return out

    def _scaled(self, values: NDArray[Any], shift: float, scale: Any) -> NDArray[np.float32]:
        """Scaled values, clipped so that they are finite."""
        if self.counts:
            way = SCALINGS["none" if self.counts == "row" else self.counts].of
            assert way is not None
            given = torch.from_numpy(np.asarray(values, dtype=np.float64))
            most = MILLION if self.counts == "log" else UNSCALED
            return way(given, given, len(given)).clamp(-most, most).float().numpy()
        with np.errstate(over="ignore"):  # infinity is clipped too
            return np.clip((values - shift) / scale, -LARGEST, LARGEST).astype(np.float32)

    def _names(self, column: str) -> list[str]:
        several = len(self.scale) > 1
        return [f"{column}[{k}]" if several else column for k in range(len(self.scale))]


@dataclass(frozen=True)
class _Moments:
    """Statistics of the non-missing numbers in training rows; arrays are [d], one per feature.

    Attributes:
        rows: Number of non-missing rows.
        nonzeros: Number of non-zeros in total.
        largest: Largest absolute value, 1 if all are zero.
        mean, deviation: Mean and standard deviation of the numbers divided by ``largest``, so that
            squares are finite; a zero deviation is replaced by 1.
        mean_nonzero: Mean absolute value of all non-zeros, 0 if there are none.
        are_counts: Whether most numbers are zero and none is negative.
        whole: Whether all numbers are whole.
    """

    width: int
    rows: int
    nonzeros: int
    largest: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    mostly_zero: NDArray[np.bool_]
    mean_nonzero: float
    are_counts: bool
    whole: bool

    @staticmethod
    def of(column: Column, rows: NDArray[np.int64]) -> _Moments:
        present = rows[~column.missing[rows]]
        width = column.values.shape[1] if column.values.ndim == 2 else 1
        places, values = _nonzeros(column, present)
        largest = np.zeros(width)
        np.maximum.at(largest, places, np.abs(values))
        largest[largest == 0] = 1.0
        scaled, n = values / largest[places], max(len(present), 1)
        mean = np.bincount(places, scaled, width) / n
        zeros = n - np.bincount(places, minlength=width)
        off = np.bincount(places, (scaled - mean[places]) ** 2, width) + zeros * mean**2
        deviation = np.sqrt(off / n)
        deviation[deviation < 1e-12] = 1.0
        top = largest.max(initial=1.0)
        return _Moments(
            width,
            len(present),
            len(values),
            largest,
            mean,
            deviation,
            mostly_zero=zeros > 0.5 * n,
            mean_nonzero=float(np.abs(values / top).mean() * top) if len(values) else 0.0,
            are_counts=bool(zeros.sum() > 0.5 * n * width and (values >= 0).all()),
            whole=bool((values == np.rint(values)).all()),
        )


def _nonzeros(
    column: Column, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Feature indices and values of the non-zeros in ``rows``."""
    if column.sparse and column.kind != "vector":
        inside = np.zeros(len(column), dtype=bool)
        inside[rows] = True
        values = column.values.data[inside[column.values.indices]]
        return np.zeros(len(values), dtype=np.int64), values.astype(np.float64)
    values = column.values[rows]
    if column.sparse:
        return values.indices, values.data.astype(np.float64)
    values = values.astype(np.float64).reshape(len(rows), *values.shape[1:] or (1,))
    places = np.nonzero(values)
    return places[1], values[places]


@ENCODERS.register("categories")
@dataclass(frozen=True)
class Categories(Encoder):
    """One-hot encoding of values as text; unseen values get zeros.

    Attributes:
        codes: Whether the values are whole numbers.
    """

    values: tuple[str, ...]
    indicator: bool
    codes: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple) or not all(isinstance(v, str) for v in self.values):
            raise InputError("values must be texts")
        super().__post_init__()

    @staticmethod
    def fit(column: Column, rows: NDArray[np.int64]) -> Categories:
        """Fit to the training rows."""
        present = rows[~column.missing[rows]]
        values = sorted(set(column[present].texts()), key=_by_number)
        return Categories(tuple(values), len(present) < len(rows), column.kind in NUMERIC)

    @property
    def about(self) -> str:
        """Description of the encoding; codes are mentioned, since they could be quantities."""
        if self.codes:
            return "codes, one feature for each value (quantities with --numeric COLUMNS)"
        return "text, one feature for each value"

    def _encode(self, column: Column) -> Block:
        column = column.dense()
        places = {value: place for place, value in enumerate(self.values)}
        found = np.array([places.get(name, -1) for name in column.texts()], dtype=np.int64)
        rows = np.flatnonzero((found >= 0) & ~column.missing)
        ones = np.ones(len(rows), dtype=np.float32)
        return csr_array((ones, (rows, found[rows])), shape=(len(column), len(self.values)))

    def _names(self, column: str) -> list[str]:
        return [f"{column} = {value}" for value in self.values]


NUMERIC = ("whole", "number")  # kinds of columns whose values are single numbers


def _by_number(text: str) -> tuple[float, str]:
    """Sort key: whole numbers by value, before other texts."""
    return (float(text) if text.lstrip("-").isdecimal() else math.inf), text


@ENCODERS.register("dates")
@dataclass(frozen=True)
class Dates(Encoder):
    """Year, month, day of the week and days since the first date.

    Years and days are standardized; months and days of the week are one-hot encoded.

    Attributes:
        way: Format of the dates, a name of `gread.tables.written.DATES`.
        first: First training date, as an ordinal (1 is 0001-01-01).
        shift, scale: Shift and scale of the years, and of the days since the first date, as in
            `Numbers`.
    """

    way: str
    first: int
    shift: tuple[float, ...]
    scale: tuple[float, ...]
    indicator: bool

    def __post_init__(self) -> None:
        DATES[self.way]
        check_numbers("first", (self.first,))
        Numbers(self.shift, self.scale, self.indicator)
        if len(self.shift) != 2:
            raise InputError(f"shift must be two numbers, got {len(self.shift)}")

    @staticmethod
    def fit(column: Column, rows: NDArray[np.int64], way: str) -> Dates:
        """Fit to the training rows."""
        days = as_days(column[rows], way)
        missing = column.missing[rows]
        first = int(days[~missing].min()) if not missing.all() else 0
        parts = np.column_stack([_calendar(days)[0], days - first]).astype(np.float64)
        found = Numbers.fit(Column("vector", parts, missing), np.arange(len(rows)))
        return Dates(way, first, found.shift, found.scale, found.indicator)

    @property
    def about(self) -> str:
        """Description with the detected date format."""
        return f"dates ({self.way}), their year, month, day of the week and days since the first"

    def _encode(self, column: Column) -> Block:
        days = as_days(column, self.way)
        year, month, weekday = _calendar(days)
        numbers = Column("vector", np.column_stack([year, days - self.first]), column.missing)
        found = Numbers(self.shift, self.scale, indicator=False).encode(numbers)
        there = ~column.missing[:, None]
        one_of = [np.eye(12)[month - 1] * there, np.eye(7)[weekday] * there]
        return np.hstack([found, *one_of]).astype(np.float32)

    def _names(self, column: str) -> list[str]:
        parts = ["year", "days", *(f"month {k}" for k in range(1, 13))]
        return [f"{column} {part}" for part in [*parts, *(f"weekday {k}" for k in range(1, 8))]]


def _calendar(days: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Year, month (1 to 12) and day of the week (0 is Monday) of ordinals (1 is 0001-01-01)."""
    different, place = np.unique(np.maximum(days, 1), return_inverse=True)
    dates = map(date.fromordinal, different.tolist())
    parts = np.array([(day.year, day.month, day.weekday()) for day in dates]).reshape(-1, 3)
    return tuple(parts[place].T)


@ENCODERS.register("words")
@dataclass(frozen=True)
class Words(Encoder):
    """Hashed bag of words: a word adds ± the weight at its hash index; rows have norm 1.

    Attributes:
        weights: Inverse document frequency per index, 1 + log((1 + n) / (1 + rows that have it))
            for n training rows.
        longest: Length of the longest n-grams: with 2, pairs of adjacent words count as words too.
    """

    weights: tuple[float, ...]
    longest: int = 1
    indicator = False

    def __post_init__(self) -> None:
        check_numbers("weights", self.weights)
        if self.longest not in (1, 2):
            raise InputError(f"longest must be 1 or 2, got {self.longest!r:.80}")

    @staticmethod
    def fit(column: Column, rows: NDArray[np.int64], longest: int = 2) -> Words:
        """Fit to the training rows; the number of features grows with that of distinct words."""
        different = len(set().union(*(_words(text, longest) for text in _texts(column[rows]))))
        least, most = HASHED_WORDS
        width = min(most, max(least, 1 << different.bit_length()))
        having = (_counts(column[rows], width, longest) != 0).sum(axis=0)
        weights = 1 + np.log((1 + len(rows)) / (1 + having))
        return Words(tuple(weights.tolist()), longest)

    @property
    def about(self) -> str:
        """Description with the number of features."""
        pairs = " and pairs of words" if self.longest == 2 else ""
        return f"text, its words{pairs} hashed to {len(self.weights):,} features"

    def _encode(self, column: Column) -> Block:
        found = _counts(column, len(self.weights), self.longest)
        found.data *= np.array(self.weights, dtype=np.float32)[found.indices]
        rows = np.repeat(np.arange(len(column)), np.diff(found.indptr))
        length = np.sqrt(np.bincount(rows, found.data.astype(np.float64) ** 2, len(column)))
        found.data /= np.maximum(length, np.finfo(np.float32).tiny)[rows].astype(np.float32)
        return found

    def _names(self, column: str) -> list[str]:
        return [f"{column} word {place}" for place in range(len(self.weights))]


def _texts(column: Column) -> Iterator[str]:
    """The values as text, empty for missing ones."""
    for value, gone in zip(column.values.tolist(), column.missing, strict=True):
        yield "" if gone else str(value)


def _words(text: str, longest: int) -> list[str]:
    """The words of a text in lower case; unless ``longest`` is 1, also pairs of adjacent words."""
    words = re.findall(r"\w+", text.lower())
    return words if longest == 1 else words + [" ".join(pair) for pair in pairwise(words)]


def _counts(column: Column, width: int, longest: int) -> csr_array:
    """Signed counts: every word of a row adds ±1 at the index of its hash."""
    known: dict[str, tuple[int, float]] = {}
    places, signs, ends = [], [], [0]
    for text in _texts(column):
        for word in _words(text, longest):
            if word not in known:
                code = zlib.crc32(word.encode())
                known[word] = (code >> 1) % width, 1.0 - 2.0 * (code & 1)
            place, sign = known[word]
            places.append(place)
            signs.append(sign)
        ends.append(len(places))
    entries = np.array(signs, dtype=np.float32), np.array(places, dtype=np.int64), np.array(ends)
    found = csr_array(entries, shape=(len(column), width))
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


@dataclass(frozen=True)
class Preprocessing:
    """The encoders of all used columns, in order.

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
    def fit(
        table: Table,
        names: Sequence[str],
        rows: NDArray[np.int64],
        *,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        scaling: str = "auto",
    ) -> Preprocessing:
        """Fit an encoder to the training ``rows`` of each column.

        Whether texts are numbers or dates depends on all rows, as the type of a column does.

        Args:
            table: The nodes.
            names: Columns to use.
            rows: Indices of the training rows.
            categorical: Columns to encode with one feature for each value.
            numeric: Columns to encode as quantities.
            scaling: Scaling of counts, a name of `SCALINGS`.
        """
        SCALINGS[scaling]  # a misspelt name fails here
        for name in names:
            _check_finite(table.name, name, table.stored(name))
        both = set(categorical) & set(numeric)
        if both:
            raise InputError(f"a column must be categorical or numeric, got both: {min(both)!r}")
        found: dict[str, Encoder] = {}
        for name in names:
            column = table.stored(name)
            try:
                if name in categorical:
                    found[name] = _categories(column, rows)
                elif name in numeric:
                    found[name] = Numbers.fit(column, rows, number_format(column), scaling)
                else:
                    found[name] = _fitted(column, rows, scaling)
            except InputError as error:
                raise InputError(f"column {name!r} of {table.name} {error}") from error
        numbers = {name: one for name, one in found.items() if isinstance(one, Numbers)}
        by_row = {name: one for name, one in numbers.items() if one.counts == "row"}
        entries = (len(_nonzeros(table.stored(name), rows)[1]) for name in by_row)
        scale = len(rows) / max(sum(entries), 1)
        scaled = {
            name: replace(one, scale=(scale,) * len(one.scale)) for name, one in by_row.items()
        }
        return Preprocessing(found | scaled)

    def transform(self, table: Table) -> Block:
        """Encode all rows as features [N, F].

        The result is a CSR matrix if that saves memory, else an array. An array that would fill the
        memory is mapped from a temporary file.
        """
        columns = {name: table.stored(name) for name in self.encoders}
        for name, column in columns.items():
            _check_finite(table.name, name, column)
        size = len(table) * self.width
        if size >= WORTH and self._entries(table, columns) <= SPARSE * size:
            blocks = (self._encoded(table.name, name, columns[name]) for name in columns)
            found = hstack([csc_array(block) for block in blocks], dtype=np.float32)
            return self._per_row(csr_array(found))
        out = _zeros(len(table), self.width)
        for first in range(0, len(table), BLOCK):
            rows, start = slice(first, first + BLOCK), 0
            for name, encoder in self.encoders.items():
                block = self._encoded(table.name, name, columns[name][rows])
                end = start + encoder.width
                out[rows, start:end] = block.toarray() if issparse(block) else block
                start = end
            out[rows] = self._per_row(out[rows])
        return out

    def _encoded(self, table: str, name: str, column: Column) -> Block:
        try:
            return self.encoders[name].encode(column)
        except InputError as error:
            raise InputError(f"column {name!r} of {table} {error}") from error

    def _entries(self, table: Table, columns: Mapping[str, Column]) -> float:
        """Estimate the number of non-zeros, if necessary by encoding the first rows of a column."""
        total = 0.0
        for name, column in columns.items():
            if column.sparse and not any(getattr(self.encoders[name], "shift", ())):
                total += column.values.nnz
            else:
                block = self._encoded(table.name, name, column[:SAMPLE])
                found = block.nnz if issparse(block) else np.count_nonzero(block)
                total += found * len(column) / max(block.shape[0], 1)
        return total

    def _per_row(self, x: Block) -> Block:
        """Divide counts with scaling ``"row"`` by their total in the row and by their scale."""
        factors = [np.zeros(0)]
        for encoder in self.encoders.values():
            factors.append(np.zeros(encoder.width))
            if isinstance(encoder, Numbers) and encoder.counts == "row":
                factors[-1][: len(encoder.scale)] = 1 / np.array(encoder.scale)
        factor = np.concatenate(factors)
        if not factor.any():
            return x
        chosen = factor > 0
        if not issparse(x):
            shares = rescaled(torch.from_numpy(x[:, chosen]), "row").numpy()
            x[:, chosen] = shares * factor[chosen]
            return x
        rows, by_row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)), chosen[x.indices]
        way = SCALINGS["row"].of
        assert way is not None
        row, values = torch.from_numpy(rows[by_row]), torch.from_numpy(x.data[by_row])
        shares = way(row, values, x.shape[0]).numpy()
        x.data[by_row] = shares * factor[x.indices[by_row]]
        return x

    @property
    def width(self) -> int:
        """Number F of features."""
        return sum(encoder.width for encoder in self.encoders.values())

    def names(self) -> list[str]:
        """Names of the features."""
        return [text for name, encoder in self.encoders.items() for text in encoder.names(name)]

    def about(self) -> list[str]:
        """Descriptions of the encodings, one line each, with names of some columns.

        Example:
            >>> from gread.tables import column
            >>> table = Table("nodes", {f"x{k}": column([1.5, 2.5]) for k in range(700)})
            >>> Preprocessing.fit(table, list(table.columns), np.arange(2)).about()
            ['numbers, standardized: x0, x1, x2, x3, x4, x5 and 694 more']
        """
        ways: dict[str, list[str]] = {}
        for name, encoder in self.encoders.items():
            ways.setdefault(encoder.about, []).append(name)
        return [f"{way}: {some(names, 6)}" for way, names in ways.items()]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain values, for JSON."""
        kinds = {of: kind for kind, of in ENCODERS.items()}
        return [
            {"column": name, "encoder": kinds[type(encoder)], **asdict(encoder)}  # type: ignore[call-overload]
            for name, encoder in self.encoders.items()
        ]

    @staticmethod
    def from_dict(values: Sequence[Mapping[str, Any]]) -> Preprocessing:
        """Restore a preprocessing from `to_dict`."""
        encoders = {}
        for entry in values:
            fields: dict[str, Any] = dict(entry)
            column, make = fields.pop("column"), ENCODERS[fields.pop("encoder")]
            if not isinstance(column, str):
                raise InputError(f"a column must have a name, got {column!r:.80}")
            lists = {name: tuple(value) for name, value in fields.items() if type(value) is list}
            encoders[column] = make(**fields | lists)
        return Preprocessing(encoders)


def some(names: Sequence[str], most: int) -> str:
    """Join the first ``most`` names, and state the number of others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def choose_features(table: Table, wanted: str | Sequence[str], others: Sequence[str]) -> list[str]:
    """The columns to use: the named ones, or with ``"auto"`` all except ``others``."""
    if isinstance(wanted, str) and wanted == "auto":
        return [name for name in table.columns if name not in others]
    names = named(table, wanted)
    for name in names:
        if name in others:
            raise InputError(
                f"features must not name the column to predict or to split by: {name!r}"
            )
    return names


def named(table: Table, wanted: str | Sequence[str]) -> list[str]:
    """Parse and check column names, given as a list or separated by commas."""
    names = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    found = [name.strip() for name in names if name.strip()]
    for name in found:
        table[name]  # a misspelt name fails here
    return found


def _fitted(column: Column, rows: NDArray[np.int64], scaling: str) -> Encoder:
    """Choose and fit the encoder of a column."""
    present = rows[~column.missing[rows]]
    if column.categorical and column.kind != "vector":
        return _categories(column, rows)
    if column.kind in NUMERIC and not column.sparse and are_codes(column.values[present]):
        return _categories(column, rows)
    if column.numeric:
        return Numbers.fit(column, rows, scaling=scaling)
    if written := number_format(column):
        return Numbers.fit(column, rows, written, scaling)
    if way := date_format(column):
        return Dates.fit(column, rows, way)
    values = {str(value) for value in column.values[present]}
    if len(values) <= min(MOST_CATEGORIES, max(2, len(present) // 2)):
        return Categories.fit(column, rows)
    return Words.fit(column, rows)


def _categories(column: Column, rows: NDArray[np.int64]) -> Categories:
    """Fit categories to a column that is declared categorical."""
    column = column.dense()
    if column.kind == "vector":
        raise InputError("must hold single values to be categorical, got lists of numbers")
    return Categories.fit(column, rows)


def _zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Zeros in memory, or mapped from a temporary file that is deleted with the array."""
    if 4 * rows * width <= MAPPED * free_memory():
        return np.zeros((rows, width), dtype=np.float32)
    with tempfile.TemporaryFile() as file:
        file.truncate(4 * rows * width)
        return np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, width))


def _check_finite(table: str, name: str, column: Column) -> None:
    bad = column.unusable()
    if bad.any():
        advice = "leave missing cells empty"
        if column.kind == "vector":
            advice = "replace them, or use one column per feature, where values may be missing"
        raise InputError(
            f"column {name!r} of {table} must hold finite numbers, got NaN or infinity in "
            f"{int(bad.sum())} rows, the first in row {int(bad.argmax()) + 1}: {advice}"
        )
