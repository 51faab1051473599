"""Formats of numbers and dates in text: 1,234.50 and 31.12.2020."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.tables.column import MISSING_NUMBERS, WORDS, Column

NUMBERS: Registry[tuple[re.Pattern[str], Callable[[str], str]]] = Registry(
    "number format",
    {
        "thousands separators": (
            re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|0|[1-9]\d*)(\.\d*)?"),
            lambda text: text.replace(",", ""),
        ),
        "decimal commas": (
            re.compile(r"[+-]?(0|[1-9]\d*)(,\d+)?"),
            lambda text: text.replace(",", "."),
        ),
    },
)
"""Patterns of numbers with conversions to Python; the first that matches all texts is used."""

_TIME = r"(?:[ T]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?(?:Z|[AaPp][Mm]|[+-]\d{2}:?\d{2}))?)?"
DATES: Registry[re.Pattern[str]] = Registry(
    "date format",
    {
        "YYYY-MM-DD": re.compile(rf"(?P<y>\d{{4}})-(?P<m>\d\d?)-(?P<d>\d\d?){_TIME}"),
        "YYYY/MM/DD": re.compile(rf"(?P<y>\d{{4}})/(?P<m>\d\d?)/(?P<d>\d\d?){_TIME}"),
        "DD.MM.YYYY": re.compile(rf"(?P<d>\d\d?)\.(?P<m>\d\d?)\.(?P<y>\d{{4}}){_TIME}"),
        "MM/DD/YYYY": re.compile(rf"(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<y>\d{{4}}){_TIME}"),
        "DD/MM/YYYY": re.compile(rf"(?P<d>\d\d?)/(?P<m>\d\d?)/(?P<y>\d{{4}}){_TIME}"),
    },
)
"""Patterns of dates; an optional time is ignored."""


def number_format(column: Column) -> str:
    """Format of the numbers of a text column, a name of `NUMBERS`; empty without one."""
    texts = _texts(column, MISSING_NUMBERS)
    if not any("," in text for text in texts):
        return ""  # numbers without commas that were kept as text are codes
    return next((way for way, (like, _) in NUMBERS.items() if all(map(like.fullmatch, texts))), "")


def as_numbers(column: Column, way: str) -> Column:
    """Convert a column of numbers, or of text in a format of `NUMBERS`, to numbers."""
    if column.numeric or column.missing.all():
        return column
    like, plain = NUMBERS[way] if way else (re.compile(r"(?!)"), str)
    missing = column.missing.copy()
    values = np.zeros(len(column))
    for row in np.flatnonzero(~missing):
        text = str(column.values[row]).strip()
        if like.fullmatch(text):
            values[row] = float(plain(text))
        elif way and text in MISSING_NUMBERS:
            missing[row] = True
        else:
            wrong = column.values[row]
            raise InputError(f"must hold numbers, got {WORDS[column.kind]}: {wrong!r}")
    return Column("number", values, missing)


def date_format(column: Column) -> str:
    """Format of the dates of a text column, a name of `DATES`; empty without one."""
    texts = _texts(column, frozenset())
    return next((way for way in DATES if texts and all(_day(way, text) for text in texts)), "")


def as_days(column: Column, way: str) -> NDArray[np.int64]:
    """Ordinals of dates (1 is 0001-01-01) in a format of `DATES`; 0 for missing values."""
    days = np.zeros(len(column), dtype=np.int64)
    known: dict[Any, int] = {}
    for row in np.flatnonzero(~column.missing):
        value = column.values[row]
        if value not in known:
            found = _day(way, str(value).strip())
            if not found:
                raise InputError(f"must hold dates such as {way}, got {value!r}")
            known[value] = found
        days[row] = known[value]
    return days


def _texts(column: Column, missing: frozenset[str]) -> Sequence[str]:
    """Distinct texts of a column, except those that mean a missing value."""
    if column.kind != "text":
        return ()
    return list({str(value).strip() for value in column.values[~column.missing]} - missing)


def _day(way: str, text: str) -> int:
    """Ordinal of a date (1 is 0001-01-01), or 0 if the text is not a date."""
    found = DATES[way].fullmatch(text)
    try:
        return date(*(int(found[part]) for part in "ymd")).toordinal() if found else 0
    except ValueError:  # such as month 13
        return 0
