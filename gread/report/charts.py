"""Figures as values, before they are drawn.

`gread.report.figures.draw` makes a picture of a chart; a page draws the same chart from its JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gread.report.claims import Claim

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

MARKS = ("line", "points", "bars")


@dataclass(frozen=True)
class Series:
    """A series of numbers.

    Attributes:
        label: Its name in the legend, where those of equal names share an entry; empty for none.
        x: Where.
        y: How much.
        low: Where the spread around y begins: of a band around a line, or a whisker on a bar. Empty
            where there is none, and so with ``high``.
        high: Where it ends.
        mark: One of `MARKS`.
        colour: As ``#RRGGBB``.
        marker: Of the points on a line, in Matplotlib's letters; empty for none.
        dashed: Whether the line is.
        width: Of the line, in points.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    mark: str = "line"
    colour: str = COLOURS[0]
    marker: str = ""
    dashed: bool = False
    width: float = 1.6

    def __post_init__(self) -> None:
        assert self.mark in MARKS
        assert len(self.x) == len(self.y)
        assert len(self.low) == len(self.high)
        assert len(self.low) in (0, len(self.y))


@dataclass(frozen=True)
class Image:
    """Numbers on a grid, as colours.

    Attributes:
        rows: From the top.
        low: The number of the darkest colour.
        high: The number of the brightest.
        label: What the numbers are.
    """

    rows: tuple[tuple[float, ...], ...]
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Labels and scale of an axis.

    Attributes:
        label: What it measures.
        log: Whether it is logarithmic.
        limits: The ends; None where the numbers decide.
        ticks: Places and their names; empty where the numbers decide.
        hidden: Whether its numbers mean nothing, and are not shown.
    """

    label: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    hidden: bool = False


@dataclass(frozen=True)
class Panel:
    """One part of a chart.

    Attributes:
        title: Above it.
        series: What is in it, the first on top.
        image: What is in it instead.
        x: The horizontal axis.
        y: The vertical axis.
        remark: A few words inside, for instance why it is empty.
    """

    title: str = ""
    series: tuple[Series, ...] = ()
    image: Image | None = None
    x: Axis = Axis()
    y: Axis = Axis()
    remark: str = ""

    @staticmethod
    def of(title: str, series: Iterable[Series], x: Axis, y: Axis) -> Panel:
        """Panel that says so if no series has a point."""
        shown = tuple(series)
        remark = "" if any(part.y for part in shown) else "no runs yet"
        return Panel(title, shown, x=x, y=y, remark=remark)


@dataclass(frozen=True)
class Frame:
    """The panels of a chart at one moment.

    Attributes:
        label: Which moment.
        panels: Row by row.
    """

    label: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        title: What it shows.
        panels: Row by row.
        columns: Panels in a row.
        note: What a reader must know.
        claims: What the paper says of it.
        frames: Many moments, which a page shows one at a time, with a slider; a picture has no room
            for them and shows the panels.

    Example:
        >>> line = Series("a", (0.0, 1.0), (1.0, float("inf")))
        >>> value = json.loads(Chart("title", (Panel(series=(line,)),)).to_json())
        >>> value["panels"][0]["series"][0]["y"]
        [1.0, None]
    """

    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    note: str = ""
    claims: tuple[Claim, ...] = ()
    frames: tuple[Frame, ...] = ()

    @property
    def legend(self) -> dict[str, Series]:
        """Every label once, with a series that has it."""
        found: dict[str, Series] = {}
        for panel in self.panels:
            for series in panel.series:
                if series.label:
                    found.setdefault(series.label, series)
        return found

    def to_json(self) -> str:
        """The chart as JSON. Numbers have six digits; those that are not finite are null."""
        return json.dumps(_plain(asdict(self)), separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
