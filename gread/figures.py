"""Pictures: numbers in, a matplotlib ``Figure`` out. Nothing here knows where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
