"""Pictures: numbers in, a matplotlib ``Figure`` out. Nothing here knows where they come from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "figure.dpi": 200,
}


@matplotlib.rc_context(STYLE)
def snapshots(
    rows: Mapping[str, Sequence[NDArray[np.float32]]], times: Sequence[float], *, title: str
) -> Figure:
    """Signals on a grid graph over time: a row for each dynamics, a column for each time.

    All panels share the colours of the first one, so that fading shows as fading.
    """
    figure = Figure(figsize=(2.3 * len(times) + 1.2, 2.45 * len(rows) + 0.5), layout="constrained")
    axes = figure.subplots(len(rows), len(times), squeeze=False)
    first = next(iter(rows.values()))[0]
    low, high = np.quantile(first, [0.02, 0.98])
    for axis, time in zip(axes[0], times, strict=True):
        axis.set_title(f"t = {time:g}")
    for row, (name, images) in zip(axes, rows.items(), strict=True):
        row[0].set_ylabel(name, fontsize=12, labelpad=8)
        for axis, image in zip(row, images, strict=True):
            drawn = axis.imshow(image, cmap="magma", vmin=low, vmax=high)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    figure.colorbar(drawn, ax=axes, shrink=0.6, aspect=30, label="state of a node")
    figure.suptitle(title, fontsize=14)
    return figure


@matplotlib.rc_context(STYLE)
def energies(
    times: Sequence[float], curves: Mapping[str, Sequence[float]], *, title: str
) -> Figure:
    """Dirichlet energy over time on logarithmic axes, each curve named at its end."""
    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    axis = figure.subplots()
    for colour, (name, energy) in zip(COLOURS, curves.items(), strict=False):
        axis.plot(times, energy, color=colour, linewidth=2.4)
        axis.annotate(
            name,
            (times[-1], energy[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold",
        )
    axis.set(xscale="log", yscale="log", xlabel="time t", ylabel="Dirichlet energy (Eq. 18)")
    axis.set_xlim(times[0], times[-1])
    axis.grid(axis="y", which="major", alpha=0.25)
    axis.set_title(title, fontsize=14, loc="left")
    return figure


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


def save(figure: Figure, file: Path) -> None:
    """Writes a figure with a user's names in it: letters that the font lacks are empty boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(file)


@matplotlib.rc_context(STYLE)
def portrait(
    degrees: Sequence[int],
    classes: Mapping[str, int],
    mixing: Sequence[Sequence[float]],
    *,
    title: str,
) -> Figure:
    """A graph before training: degrees, sizes of the classes, and who is joined to whom.

    Args:
        degrees: How many nodes have 0, 1, 2 to 3, 4 to 7, ... neighbours.
        classes: From a class to the number of its nodes.
        mixing: A row a class, the share of each class among its neighbours.
        title: Above all.
    """
    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    bounds = [0, 1, *(2**k for k in range(1, len(degrees) - 1))][: len(degrees)]
    left.bar(range(len(degrees)), degrees, color=COLOURS[1])
    left.set_xticks(range(len(degrees)), [str(bound) for bound in bounds], rotation=45)
    left.set(xlabel="neighbours, at least", ylabel="nodes", yscale="symlog")
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
    """What nodes of each class were taken for, as shares of the class."""
    table = np.asarray(counts, dtype=np.float64)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    size = 3.6 + 0.35 * len(classes)
    figure = Figure(figsize=(size + 1.2, size), layout="constrained")
    axis = figure.subplots()
    _shares(axis, classes, shares.tolist(), "predicted", "true")
    axis.set_title(title, fontsize=14, loc="left")
    return figure


@matplotlib.rc_context(STYLE)
def reliability(
    confidences: Sequence[float], accuracies: Sequence[float], sizes: Sequence[int], *, title: str
) -> Figure:
    """How often predictions of a confidence are right; on the diagonal, as often as they say."""
    figure = Figure(figsize=(5.2, 4.8), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color=COLOURS[6], linewidth=1, linestyle="--")
    axis.plot(confidences, accuracies, color=COLOURS[1], linewidth=1.5)
    areas = 20 + 280 * np.asarray(sizes) / max(1, *sizes, 1)
    axis.scatter(confidences, accuracies, s=areas, color=COLOURS[1], edgecolor="white", zorder=3)
    axis.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axis.grid(alpha=0.2)
    axis.set_title(title, fontsize=14, loc="left")
    return figure


def _shown(name: str, length: int) -> str:
    """A user's name, cut where it is long; in it a dollar does not begin mathematics."""
    short = name if len(name) <= length else name[: length - 1] + "…"
    return short.replace("$", r"\$")


def _shares(
    axis: Any, names: Sequence[str], shares: Sequence[Sequence[float]], across: str, down: str
) -> None:
    """A square of shares from 0 to 1, with the numbers where there is room."""
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
    """Pearson's, where there is one."""
    if len(points) < 3 or (np.ptp(points, axis=0) == 0).any():
        return ""
    return f", correlation {np.asarray(np.corrcoef(points.T))[0, 1]:.2f}"
