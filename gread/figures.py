"""Pictures: a chart or numbers in, a matplotlib ``Figure`` out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from gread.report.charts import COLOURS as COLOURS
from gread.report.charts import Chart, Panel, Series

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "figure.dpi": 200,
}

WIDTHS = {1: 6.0, 2: 7.2, 3: 7.6, 4: 8.4}
"""In inches, by the number of columns: a page of the paper has 6.75."""


@matplotlib.rc_context(STYLE)
def draw(chart: Chart) -> Figure:
    """A picture of a chart: panels in rows, one legend for all, the note below."""
    rows = math.ceil(len(chart.panels) / chart.columns)
    width = WIDTHS.get(chart.columns, 2.1 * chart.columns)
    labels = chart.legend
    note = textwrap.fill(chart.note, int(width * 17.5))
    legend_rows = math.ceil(len(labels) / _legend_columns(labels, width))
    extra = 0.45 + 0.24 * legend_rows + 0.15 * (note.count("\n") + 1 if note else 0)
    height = max(_heights(chart)) * width / chart.columns
    figure = Figure(figsize=(width, rows * (height + 0.25) + extra), layout="constrained")
    axes = figure.subplots(rows, chart.columns, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place >= len(chart.panels):
            axis.set_axis_off()
            continue
        last = place + chart.columns >= len(chart.panels)
        _draw_panel(axis, chart.panels[place], outer=(last, place % chart.columns == 0))
    images = [panel.image for panel in chart.panels if panel.image is not None]
    if images and images[0].label:
        drawn = axes.flat[0].get_images()[0]
        figure.colorbar(drawn, ax=axes, shrink=0.6, aspect=30, label=images[0].label)
    if len(labels) > 1:
        figure.legend(
            handles=[_key(label, series) for label, series in labels.items()],
            loc="outside upper center",
            ncols=_legend_columns(labels, width),
            frameon=False,
            fontsize=9,
            columnspacing=1.4,
            handlelength=2.0,
        )
    figure.suptitle(chart.title, fontsize=12, fontweight="bold")
    if note:
        figure.supxlabel(note, fontsize=7.5, color="#555555", x=0.01, ha="left")
    return figure


def _legend_columns(labels: Mapping[str, Series], width: float) -> int:
    """As many as fit beside each other, in rows of about the same length."""
    longest = max(map(len, labels), default=1)
    fit = max(1, int(width / (0.62 + 0.075 * longest)))
    rows = max(1, math.ceil(len(labels) / fit))
    return max(1, math.ceil(len(labels) / rows))


def _heights(chart: Chart) -> Iterator[float]:
    """Of every panel, in its width."""
    for panel in chart.panels:
        square = panel.image is not None or (panel.x.hidden and panel.y.hidden)
        yield 1.0 if square else 0.62 if chart.columns == 1 else 0.78


def _draw_panel(axis: Axes, panel: Panel, *, outer: tuple[bool, bool]) -> None:
    """What is in a panel; labels of axes only where they are the outermost."""
    axis.set_title(panel.title, fontsize=10)
    if panel.image is not None:
        image = panel.image
        axis.imshow(np.array(image.rows), cmap="magma", vmin=image.low, vmax=image.high)
        axis.spines[:].set_visible(False)
    for series in reversed(panel.series):
        DRAWN[series.mark](axis, series)
    for side, about, shown in zip("xy", (panel.x, panel.y), outer, strict=True):
        scale = {"yscale": "log", "xscale": "log"} if about.log else {}
        axis.set(**{key: value for key, value in scale.items() if key[0] == side})
        if about.limits is not None:
            axis.set(**{f"{side}lim": about.limits})
        if about.ticks:
            places, names = zip(*about.ticks, strict=True)
            axis.set(**{f"{side}ticks": places, f"{side}ticklabels": names})
            if side == "x" and max(map(len, names)) > 4:
                axis.tick_params("x", rotation=90)
        if about.hidden or panel.image is not None:
            axis.set(**{f"{side}ticks": []})
        if shown:
            axis.set(**{f"{side}label": about.label})
    if not panel.image and not (panel.x.hidden and panel.y.hidden):
        axis.grid(axis="y", which="major", alpha=0.25, linewidth=0.6)
        axis.set_axisbelow(True)
    if panel.remark:
        axis.text(
            *(0.5, 0.5, panel.remark),
            transform=axis.transAxes,
            ha="center",
            va="center",
            color="#777777",
            fontsize=9,
        )


def _line(axis: Axes, series: Series) -> None:
    if series.low:
        axis.fill_between(
            series.x, series.low, series.high, color=series.colour, alpha=0.15, linewidth=0
        )
    axis.plot(series.x, series.y, **_stroke(series))


def _points(axis: Axes, series: Series) -> None:
    size = 4.0 if len(series.x) > 60 else 16.0
    # Thousands of points as an image: a PDF of them would be slow to open.
    axis.scatter(
        *(series.x, series.y),
        s=size,
        color=series.colour,
        alpha=0.75,
        linewidth=0,
        rasterized=len(series.x) > 200,
    )


def _bars(axis: Axes, series: Series) -> None:
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
    """What stands for a series in the legend."""
    if series.mark == "bars":
        return Patch(color=series.colour, label=label)
    if series.mark == "points":
        return Line2D([], [], color=series.colour, marker="o", linestyle="", label=label)
    return Line2D([], [], label=label, **_stroke(series))


FORMATS = ("svg", "pdf", "png")


def write(chart: Chart, folder: Path, name: str) -> list[Path]:
    """The picture in three formats, and the chart as JSON."""
    figure = draw(chart)
    files = [folder / f"{name}.{suffix}" for suffix in FORMATS]
    for file in files:
        # Without a date and with fixed names inside, the same chart is the same file.
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": None}[file.suffix[1:]]
        with matplotlib.rc_context({"svg.hashsalt": "gread"}):
            figure.savefig(file, metadata=dated)
    data = folder / f"{name}.json"
    data.write_text(chart.to_json() + "\n", encoding="utf-8")
    return [*files, data]


@matplotlib.rc_context(STYLE)
def selection(
    accuracies: Mapping[int, tuple[float, float]], selected: int, *, title: str
) -> Figure:
    """Validation and test accuracy of many settings: how much of the best one is luck.

    The right panel is the best tenth by validation, among which the choice is made.

    Args:
        accuracies: From a number to validation and test accuracy, in percent.
        selected: Which was chosen by validation.
        title: Above all.
    """
    points: NDArray[np.float64] = np.array(list(accuracies.values()))
    chosen = np.array(accuracies[selected])
    lucky = points[int(points[:, 1].argmax())]
    order = points[:, 0].argsort()[::-1]
    top = points[order[: max(10, len(points) // 10)]]
    figure = Figure(figsize=(10.4, 4.9), layout="constrained")
    panels = figure.subplots(1, 2)
    for axis, shown, what in zip(panels, (points, top), ("all", "best by validation"), strict=True):
        axis.scatter(*shown.T, s=22, color=COLOURS[6], alpha=0.45, linewidth=0)
        axis.set_title(f"{what}: {len(shown)}{_correlation(shown)}", fontsize=11, loc="left")
        axis.set_xlabel("mean validation accuracy (%)")
        axis.grid(alpha=0.2)
        for point, colour in ((lucky, COLOURS[0]), (chosen, COLOURS[1])):
            if (shown == point).all(axis=1).any():
                axis.scatter(*point, s=90, color=colour, edgecolor="white", zorder=3)
            axis.axhline(point[1], color=colour, linewidth=1.0, linestyle="--", zorder=0)
    panels[0].set_ylabel("mean test accuracy (%)")
    marks = (
        (COLOURS[1], f"selected by validation: test {chosen[1]:.2f}"),
        (COLOURS[0], f"best by test, which nobody may select: {lucky[1]:.2f}"),
    )
    handles = [panels[0].scatter([], [], s=90, color=colour, label=text) for colour, text in marks]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=14)
    return figure


def _correlation(points: NDArray[np.float64]) -> str:
    """Pearson's, where there is one."""
    if len(points) < 3 or (np.ptp(points, axis=0) == 0).any():
        return ""
    return f", correlation {np.asarray(np.corrcoef(points.T))[0, 1]:.2f}"
