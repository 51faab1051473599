"""Drawing of charts and numbers as matplotlib figures."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from gread.base.files import whole_file, write_text
from gread.report.charts import COLOURS as COLOURS, Axis, Chart, Panel, Series
from gread.report.claims import noted

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "figure.dpi": 200,
}

PRINT: Any = STYLE | {"font.size": 9, "figure.dpi": 250}
"""Style of charts, which are as wide as a page."""

WIDTHS = {1: 6.0, 2: 7.2, 3: 7.6, 4: 8.4}
"""Widths in inches by the number of columns; a page of the paper has 6.75."""


@matplotlib.rc_context(PRINT)
def draw(chart: Chart) -> Figure:
    """Draw a chart: panels in rows, the title and one legend above, the note below.

    Lines are labelled at their ends instead if there is one panel, or if there are more labels than
    colours can distinguish.
    """
    width = WIDTHS.get(chart.columns, 2.1 * chart.columns)
    images = [panel.image for panel in chart.panels if panel.image is not None]
    rows = math.ceil(len(chart.panels) / chart.columns)
    at_ends = len(chart.panels) == 1 or len(chart.legend) > 2 * len(COLOURS)
    keys = {} if at_ends or len(chart.legend) < 2 else chart.legend
    columns = _legend_columns(keys, width)
    above = 0.32 + 0.19 * math.ceil(len(keys) / columns) + 0.06
    note = textwrap.fill(noted(chart.note, chart.claims), int(width * 16.5))
    below = 0.06 + 0.135 * (note.count("\n") + 1) if note else 0.0
    each = (width - (0.9 if images else 0.0)) / chart.columns
    height = rows * (each * _shape(chart) + 0.3) + above + below
    room = (0, below / height, 1, 1 - (above + below) / height)
    layout = ConstrainedLayoutEngine(rect=room, h_pad=0.05, w_pad=0.06)
    figure = Figure(figsize=(width, height), layout=layout)
    axes = figure.subplots(rows, chart.columns, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= len(chart.panels):
            axis.set_axis_off()
            continue
        panel = chart.panels[place]
        last = place + chart.columns >= len(chart.panels)
        first = place % chart.columns == 0 or panel.y.label != chart.panels[place - 1].y.label
        _draw_panel(axis, panel, outer=(last, first))
        if at_ends:
            _name_at_ends(axis, panel)
    if images and images[0].label:
        drawn = axes.flat[0].get_images()[0]
        figure.colorbar(drawn, ax=axes, shrink=0.6, aspect=30, label=images[0].label)
    figure.text(0.01, 1 - 0.07 / height, chart.title, va="top", fontsize=11, fontweight="bold")
    figure.text(0.01, 0.05 / height, note, va="bottom", fontsize=7.5, color="#555555")
    if keys:
        figure.legend(
            handles=[_key(label, series) for label, series in keys.items()],
            loc="upper left",
            bbox_to_anchor=(0.0, 1 - 0.27 / height),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            columnspacing=1.3,
            labelspacing=0.3,
            handlelength=2.2,
            borderaxespad=0.2,
        )
    return figure


def _legend_columns(labels: Mapping[str, Series], width: float) -> int:
    """Number of legend columns that fit, in rows of similar length."""
    longest = max(map(len, labels), default=1)
    fit = max(1, int(width / (0.5 + 0.075 * longest)))
    rows = max(1, math.ceil(len(labels) / fit))
    return max(1, math.ceil(len(labels) / rows))


def _shape(chart: Chart) -> float:
    """Ratio of the height of a panel to its width."""
    if any(panel.image or (panel.x.hidden and panel.y.hidden) for panel in chart.panels):
        return 1.0
    return 0.62 if chart.columns == 1 else 0.74


def _draw_panel(axis: Axes, panel: Panel, *, outer: tuple[bool, bool]) -> None:
    """Draw a panel; only outer axes have labels."""
    axis.set_title(panel.title, fontsize=9.5)
    if panel.image is not None:
        image = panel.image
        axis.imshow(np.array(image.rows), cmap="magma", vmin=image.low, vmax=image.high)
    crowd = sum(len(series.x) for series in panel.series)
    for series in reversed(panel.series):
        DRAWN[series.mark](axis, series, crowd)
    for side, about, shown in zip("xy", (panel.x, panel.y), outer, strict=True):
        _set_axis(axis, side, about, named=shown)
    if panel.x.hidden and panel.y.hidden:
        axis.spines[:].set_visible(False)
    else:
        axis.grid(axis="y", which="major", alpha=0.25, linewidth=0.6)
        axis.set_axisbelow(True)
    if panel.remark:  # an axis without data
        axis.set(xticks=[], yticks=[])
    middle = {"transform": axis.transAxes, "ha": "center", "va": "center"}
    axis.text(0.5, 0.5, panel.remark, color="#777777", fontsize=9, **middle)  # type: ignore[arg-type]


def _set_axis(axis: Axes, side: str, about: Axis, *, named: bool) -> None:
    lines = {"x": axis.xaxis, "y": axis.yaxis}[side]
    if about.log:
        axis.set(**{f"{side}scale": "log"})
    if about.limits is not None:
        axis.set(**{f"{side}lim": about.limits})
    if about.log and np.ptp(np.log10(axis.get_xlim() if side == "x" else axis.get_ylim())) < 1.5:
        lines.set_major_formatter("{x:g}")  # there are only one or two powers of ten
        lines.set_minor_formatter("{x:g}")
        lines.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    if about.ticks:
        places, names = zip(*about.ticks, strict=True)
        axis.set(**{f"{side}ticks": places, f"{side}ticklabels": names})
        if side == "x" and max(map(len, names)) > 4:
            axis.tick_params("x", rotation=90)
    if about.hidden:
        axis.set(**{f"{side}ticks": []})
    if named:
        axis.set(**{f"{side}label": about.label})


def _name_at_ends(axis: Axes, panel: Panel) -> None:
    """Write labels to the right of the panel, moved apart if they overlap.

    A line that ends earlier, or below the panel, has its label at the last visible point.
    """
    style: dict[str, Any] = {"fontsize": 8.5, "fontweight": "bold"}
    ends: list[tuple[float, Series]] = []
    for series in panel.series:
        points = list(zip(series.x, series.y, strict=True))
        seen = [point for point in points if 0 <= _height(axis, point) <= 1]
        if not series.label or not seen:
            continue
        last, height = seen[-1], _height(axis, points[-1])
        if height >= 0 and points[-1][0] >= axis.get_xlim()[1]:
            ends.append((min(height, 1.0), series))
            continue
        offset = (6, 6 if _height(axis, last) < 0.1 else -8)  # inside the panel
        about = {"xytext": offset, "textcoords": "offset points", "color": series.colour}
        axis.annotate(series.label, last, **about, **style)  # type: ignore[arg-type]
    ends.sort(key=lambda end: end[0])
    heights = _apart([height for height, _ in ends], 0.052)
    for (_, series), height in zip(ends, heights, strict=True):
        place: dict[str, Any] = {"transform": axis.transAxes, "va": "center"}
        axis.text(1.015, height, series.label, color=series.colour, **place, **style)


def _height(axis: Axes, point: tuple[float, float]) -> float:
    """Relative height of a point: 0 at the bottom of the panel, 1 at its top."""
    return float(axis.transLimits.transform(axis.transScale.transform(point))[1])


def _apart(heights: list[float], room: float) -> list[float]:
    """Move ascending heights in [0, 1] apart until neighbours have a distance of ``room``."""
    moved = list(heights)
    for _ in range(300):
        for k in range(1, len(moved)):
            lack = max(0.0, room - (moved[k] - moved[k - 1]))
            moved[k] = min(moved[k] + lack / 2, 1.0)
            moved[k - 1] = max(moved[k - 1] - lack / 2, 0.0)
    return moved


def _line(axis: Axes, series: Series, crowd: int) -> None:
    if series.low:
        axis.fill_between(
            series.x, series.low, series.high, color=series.colour, alpha=0.13, linewidth=0
        )
    axis.plot(series.x, series.y, **_stroke(series))


def _points(axis: Axes, series: Series, crowd: int) -> None:
    size = min(16.0, max(4.0, 3000 / crowd))  # the more points in a panel, the smaller
    # Many points are rasterized, because a vector PDF of them is slow to open.
    style: Any = {"color": series.colour, "alpha": 0.75, "linewidth": 0}
    axis.scatter(series.x, series.y, s=size, rasterized=len(series.x) > 200, **style)


def _bars(axis: Axes, series: Series, crowd: int) -> None:
    apart = np.diff(np.sort(series.x))
    width = 0.8 if len(apart) < 3 else 0.95 * float(apart.min())
    axis.bar(series.x, series.y, width, color=series.colour)
    if series.low:
        middle = np.array(series.y)
        spread = np.abs(np.stack([middle - series.low, np.array(series.high) - middle]))
        axis.errorbar(series.x, series.y, spread, fmt="none", ecolor="#444444", capsize=2)


DRAWN = {"line": _line, "points": _points, "bars": _bars}


def _stroke(series: Series) -> dict[str, Any]:
    return {
        "color": series.colour,
        "marker": series.marker or None,
        "markersize": 3.6,
        "markeredgewidth": 0.8,
        "linestyle": (0, (4, 1.6)) if series.dashed else "-",
        "linewidth": series.width,
    }


def _key(label: str, series: Series) -> Line2D | Patch:
    """Legend handle of a series."""
    if series.mark == "bars":
        return Patch(color=series.colour, label=label)
    if series.width == 0:
        return Patch(color=series.colour, alpha=0.2, linewidth=0, label=label)
    if series.mark == "points":
        return Line2D([], [], color=series.colour, marker="o", linestyle="", label=label)
    return Line2D([], [], label=label, **_stroke(series))


FORMATS: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": None}
"""Metadata by format; without a date, the same chart gives the same file."""


def write(chart: Chart, folder: Path, name: str) -> list[Path]:
    """Write the figure in three formats, and the chart as JSON."""
    figure = draw(chart)
    with matplotlib.rc_context({"svg.hashsalt": "gread"}):  # reproducible ids inside the file
        for suffix, metadata in FORMATS.items():
            save(figure, folder / f"{name}.{suffix}", metadata)
    write_text(folder / f"{name}.json", chart.to_json() + "\n")
    return [folder / f"{name}.{suffix}" for suffix in (*FORMATS, "json")]


@matplotlib.rc_context(STYLE)
def selection(
    accuracies: Mapping[int, tuple[float, float]],
    selected: int,
    *,
    title: str,
    what: str = "accuracy (%)",
    higher_is_better: bool = True,
) -> Figure:
    """Draw test against validation metric of many settings, with the best setting by each.

    The right panel shows the best tenth by validation, among which the setting is selected.

    Args:
        accuracies: Validation and test metric by number of the setting; fractions in percent.
        selected: Number of the setting selected by validation.
        title: Title of the figure.
        what: The metric and its unit.
        higher_is_better: The direction of the metric.
    """
    points: NDArray[np.float64] = np.array(list(accuracies.values()))
    chosen = np.array(accuracies[selected])
    validation, test = points.T if higher_is_better else -points.T
    best_by_test = points[int(test.argmax())]
    order = validation.argsort()[::-1]
    top = points[order[: max(10, len(points) // 10)]]
    figure = Figure(figsize=(10.4, 4.9), layout="constrained")
    panels = figure.subplots(1, 2)
    for axis, shown, of in zip(panels, (points, top), ("all", "best by validation"), strict=True):
        axis.scatter(*shown.T, s=22, color=COLOURS[6], alpha=0.45, linewidth=0)
        axis.set_title(f"{of}: {len(shown)}{_correlation(shown)}", fontsize=11, loc="left")
        axis.set_xlabel(f"mean validation {what}")
        axis.grid(alpha=0.2)
        for point, mark in ((best_by_test, _RING), (chosen, _DISC)):
            if (shown == point).all(axis=1).any():
                axis.scatter(*point, zorder=3, **mark)
            axis.axhline(point[1], color=mark["edgecolor"], linewidth=1, linestyle="--", zorder=0)
    panels[0].set_ylabel(f"mean test {what}")
    marks = {
        f"selected by validation: test {chosen[1]:.2f}": _DISC,
        f"best by test (for reference, not a valid selection): {best_by_test[1]:.2f}": _RING,
    }
    handles = [panels[0].scatter([], [], label=text, **mark) for text, mark in marks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=14)
    return figure


# The disc fits into the ring, because one setting may be both.
_DISC: Mapping[str, Any] = {"s": 80, "facecolor": COLOURS[1], "edgecolor": COLOURS[1]}
_RING: Mapping[str, Any] = {"s": 190, "facecolor": "none", "edgecolor": COLOURS[0], "linewidth": 2}


def save(figure: Figure, file: Path, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a figure; characters of a user's names that the font lacks are empty boxes."""
    with warnings.catch_warnings(), whole_file(file) as part:
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(part, format=file.suffix[1:], metadata=metadata)


@matplotlib.rc_context(STYLE)
def portrait(
    degrees: Sequence[int],
    classes: Mapping[str, int],
    mixing: Sequence[Sequence[float]],
    *,
    title: str,
) -> Figure:
    """Draw degrees, class sizes and mixing of classes.

    Args:
        degrees: Numbers of nodes with 0, 1, 2 to 3, 4 to 7, ... neighbours.
        classes: Number of nodes by class.
        mixing: One row per class: the share of each class among its neighbours.
        title: Title of the figure.
    """
    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    bounds = [0, 1, *(2**k for k in range(1, len(degrees) - 1))][: len(degrees)]
    left.bar(range(len(degrees)), degrees, color=COLOURS[1])
    left.set_xticks(range(len(degrees)), [str(bound) for bound in bounds], rotation=45)
    left.set(xlabel="number of neighbours, at least", ylabel="nodes", yscale="symlog")
    left.set_title("Degrees", loc="left")
    middle.barh(range(len(classes)), list(classes.values()), color=COLOURS[2])
    middle.set_yticks(range(len(classes)), [_shown(name, 14) for name in classes])
    middle.invert_yaxis()
    middle.set(xlabel="labelled nodes")
    middle.set_title("Classes", loc="left")
    _shares(right, list(classes), mixing, "class of the neighbours", "class of a node")
    right.set_title("Neighbours by class", loc="left")
    figure.suptitle(_shown(title, 80), fontsize=14)
    return figure


@matplotlib.rc_context(STYLE)
def confusion(classes: Sequence[str], counts: Sequence[Sequence[int]], *, title: str) -> Figure:
    """Draw a confusion matrix, normalized by row."""
    table = np.asarray(counts, dtype=np.float64)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    size = 3.6 + 0.35 * len(classes)
    figure, axis = one_axis(size + 1.2, size, title)
    _shares(axis, classes, shares.tolist(), "predicted", "true")
    return figure


@matplotlib.rc_context(STYLE)
def reliability(
    confidences: Sequence[float], accuracies: Sequence[float], sizes: Sequence[int], *, title: str
) -> Figure:
    """Draw accuracy against confidence; a calibrated model is on the diagonal."""
    figure, axis = one_axis(5.2, 4.8, title)
    axis.plot([0, 1], [0, 1], color=COLOURS[6], linewidth=1, linestyle="--")
    axis.plot(confidences, accuracies, color=COLOURS[1], linewidth=1.5)
    areas = 20 + 280 * np.asarray(sizes) / max(1, *sizes, 1)
    axis.scatter(confidences, accuracies, s=areas, color=COLOURS[1], edgecolor="white", zorder=3)
    axis.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    axis.grid(alpha=0.2)
    return figure


def one_axis(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    """Figure of the given size in inches, with a title and one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    axis.set_title(title, fontsize=14, loc="left")
    return figure, axis


def _shown(name: str, length: int) -> str:
    """Truncate a user's name, and escape dollars, which would begin mathematics."""
    short = name if len(name) <= length else name[: length - 1] + "…"
    return short.replace("$", r"\$")


def _shares(
    axis: Any, names: Sequence[str], shares: Sequence[Sequence[float]], across: str, down: str
) -> None:
    """Draw a square of shares from 0 to 1, with numbers for up to 12 names."""
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    short = [_shown(name, 14) for name in names]
    axis.set_xticks(range(len(names)), short, rotation=45, ha="right")
    axis.set_yticks(range(len(names)), short)
    axis.set(xlabel=across, ylabel=down)
    axis.spines[:].set_visible(False)
    if len(names) <= 12:
        for row, values in enumerate(shares):
            for column, share in enumerate(values):
                colour = "white" if share > 0.55 else "black"
                axis.text(column, row, f"{share:.2f}", ha="center", va="center", color=colour)


def _correlation(points: NDArray[np.float64]) -> str:
    """Pearson correlation as text; empty if it is undefined."""
    if len(points) < 3 or (np.ptp(points, axis=0) == 0).any():
        return ""
    return f", correlation {np.asarray(np.corrcoef(points.T))[0, 1]:.2f}"
