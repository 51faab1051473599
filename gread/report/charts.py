"""Figures as values, before they are drawn.

`gread.report.figures.draw` draws a chart with matplotlib; a page draws the same chart from JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gread.report.claims import Claim

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Palette of Okabe and Ito, which colour-blind readers can distinguish."""

MARKS = ("line", "points", "bars")


@dataclass(frozen=True)
class Series:
    """A series of numbers.

    Attributes:
        label: Name in the legend, in which equal names share an entry; empty for no entry.
        x: Positions.
        y: Values.
        low: Lower ends of the spread around y: a band around a line, or whiskers on bars. Empty
            without a spread, as is ``high``.
        high: Upper ends of the spread.
        mark: One of `MARKS`.
        colour: Colour as ``#RRGGBB``.
        marker: Marker of the points on a line, as in Matplotlib; empty for none.
        dashed: Whether the line is dashed.
        width: Width of the line in points.
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
    """Numbers on a grid, drawn as colours.

    Attributes:
        rows: Rows of numbers, from the top.
        low: Number with the darkest colour.
        high: Number with the brightest colour.
        label: Label of the colour bar.
    """

    rows: tuple[tuple[float, ...], ...]
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Labels and scale of an axis.

    Attributes:
        label: Label of the axis.
        log: Whether it is logarithmic.
        limits: Lower and upper limit; None to derive them from the data.
        ticks: Positions and labels of the ticks; empty to derive them from the data.
        hidden: Whether ticks are hidden, because the numbers have no meaning.
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
        title: Title above the panel.
        series: Series, the first on top.
        image: Image instead of series.
        x: The horizontal axis.
        y: The vertical axis.
        remark: Short text inside the panel, for instance the reason why it is empty.
    """

    title: str = ""
    series: tuple[Series, ...] = ()
    image: Image | None = None
    x: Axis = Axis()
    y: Axis = Axis()
    remark: str = ""

    @staticmethod
    def of(title: str, series: Iterable[Series], x: Axis, y: Axis) -> Panel:
        """Panel of series, with a remark if none has a point."""
        shown = tuple(series)
        remark = "" if any(part.y for part in shown) else "no runs yet"
        return Panel(title, shown, x=x, y=y, remark=remark)


@dataclass(frozen=True)
class Frame:
    """The panels of a chart at one time.

    Attributes:
        label: Label of the time.
        panels: Panels, row by row.
    """

    label: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        title: Title of the figure.
        panels: Panels, row by row.
        columns: Number of panels in a row.
        note: Remarks for the reader.
        claims: Claims of the paper about the figure.
        frames: Frames that a page shows one at a time, with a slider; a static figure shows only
            the panels.

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
        """Unique labels, each with its first series."""
        found: dict[str, Series] = {}
        for panel in self.panels:
            for series in panel.series:
                if series.label:
                    found.setdefault(series.label, series)
        return found

    def to_json(self) -> str:
        """The chart as JSON. Numbers have six significant digits; NaN and infinity are null."""
        return json.dumps(_plain(asdict(self)), separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
