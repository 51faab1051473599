"""Pictures of the benchmark, in the style of `gread.report.figures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from gread.bench.section import Row
from gread.report.figures import COLOURS, STYLE, one_axis

OURS, NAIVE, OTHER = COLOURS[0], "#9A9A9A", COLOURS[1]


def _columns(rows: Sequence[Row], *names: str) -> list[list[float]]:
    return [[float(row[name]) for row in rows] for name in names]


@matplotlib.rc_context(STYLE)
def ratio_bars(rows: Sequence[Row], *, title: str) -> Figure:
    """Bar of every ratio with its spread, and a black line at the ``at least`` of a row."""
    figure, axis = one_axis(7.6, 1.3 + 0.45 * len(rows), title)
    names = [str(next(iter(row.values()))) for row in rows]
    ratios, low, high = _columns(rows, "ratio", "lowest", "highest")
    spread = np.subtract([ratios, high], [low, ratios])
    axis.barh(names, ratios, xerr=spread, color=OURS, height=0.62, ecolor="#444444", capsize=3)
    goals = [float(row.get("at least", 0)) for row in rows]
    longest = max(high + goals)
    for number, (value, end, goal) in enumerate(zip(ratios, high, goals, strict=True)):
        if goal:
            axis.plot([goal] * 2, [number - 0.4, number + 0.4], color="black", linewidth=2)
        behind = goal if end < goal < end + 0.15 * longest else end  # no text across the line
        place: dict[str, Any] = {"textcoords": "offset points", "va": "center"}
        axis.annotate(f"{value:.1f} ×", (behind, number), (7, 0), fontweight="bold", **place)
    axis.axvline(1, color="#444444", linewidth=0.8, linestyle=":")
    axis.set_xlim(0, 1.18 * longest)
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("times faster" + ("; black: at least" if any(goals) else ""))
    return figure


@matplotlib.rc_context(STYLE)
def grouped_bars(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]], *, ylabel: str, title: str
) -> Figure:
    """Panels in a row, each with a group of bars for every name."""
    groups = max(len(panel) for panel in panels.values())
    size = (max(7.6, 1.2 + 0.62 * groups * len(panels)), 4.2)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    kinds = dict.fromkeys(kind for p in panels.values() for group in p.values() for kind in group)
    colours = dict(zip(kinds, (NAIVE, OURS, OTHER), strict=False))
    named: dict[str, Any] = {}
    for axis, (name, panel) in zip(axes, panels.items(), strict=True):
        for place, group in enumerate(panel.values()):
            width = 0.8 / len(group) if len(group) > 1 else 0.5
            for number, (kind, value) in enumerate(group.items()):
                shift = (number - (len(group) - 1) / 2) * width
                named[kind] = axis.bar(place + shift, value, width, color=colours[kind])
                text = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
                axis.bar_label(named[kind], [text], fontsize=8, padding=1)
        axis.set_xticks(range(len(panel)), list(panel))
        axis.tick_params(axis="x", length=0)
        axis.set_title(name, fontsize=12)
        axis.grid(axis="y", alpha=0.25)
        axis.set_axisbelow(True)
    axes[0].set_ylabel(ylabel)
    figure.legend(named.values(), list(named), frameon=False, loc="outside right upper")
    figure.suptitle(title, fontsize=14, x=0.01, ha="left")
    return figure


@matplotlib.rc_context(STYLE)
def memory_curves(rows: Sequence[Row]) -> Figure:
    """One panel per solver, with our states and the naive ones (dashed) for every reaction."""
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, solver in zip(axes, ("Euler", "RK4"), strict=True):
        for colour, name in zip(COLOURS, ("F", "BS"), strict=False):
            chosen = [r for r in rows if (r["reaction"], r["solver"]) == (name, solver.lower())]
            steps, ours, naive = _columns(chosen, "steps", "ours states", "naive states")
            axis.plot(steps, naive, "o--", color=colour, alpha=0.5, label=f"{name}, naive")
            axis.plot(steps, ours, "o-", color=colour, linewidth=2.4, label=f"{name}, gread")
            axis.set(xscale="log", yscale="log", xlabel="steps of the solver")
            axis.set_xticks(steps, [f"{step:g}" for step in steps])
            axis.minorticks_off()
        axis.set_title(solver, fontsize=12)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("states held for backward")
    axes[0].legend(frameon=False)
    figure.suptitle("Memory against the number of steps", fontsize=14, x=0.01, ha="left")
    return figure


@matplotlib.rc_context(STYLE)
def time_an_edge(rows: Sequence[Row]) -> Figure:
    """Time per edge; a flat curve means that time is linear in the number of edges."""
    figure, axis = one_axis(7.6, 4.2, "Time per edge by size of the graph")
    edges, middle, low, high = _columns(rows, "edges", "ns per edge", "lowest", "highest")
    axis.fill_between(edges, low, high, color=OURS, alpha=0.2, linewidth=0)
    axis.plot(edges, middle, "o-", color=OURS, linewidth=2.4)
    axis.set(xscale="log", xlabel="edges", ylabel="ns per edge and epoch")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    return figure


@matplotlib.rc_context(STYLE)
def shares_of_one(bars: Mapping[str, Mapping[str, float]]) -> Figure:
    """Stacked bar for every name; parts of less than 6 % have no label."""
    title = "Where a training step spends its time"
    figure, axis = one_axis(8.6, 1.6 + 0.6 * len(bars), title)
    parts = dict.fromkeys(part for bar in bars.values() for part in bar)
    left = dict.fromkeys(bars, 0.0)
    for part, colour in zip(parts, (COLOURS[1], COLOURS[0], COLOURS[2], NAIVE), strict=False):
        values = [100 * bar[part] for bar in bars.values()]
        drawn = axis.barh(
            list(bars), values, left=list(left.values()), color=colour, height=0.62, label=part
        )
        texts = [f"{value:.0f} %" if value >= 6 else "" for value in values]
        axis.bar_label(drawn, texts, label_type="center", color="white", fontweight="bold")
        left = {name: left[name] + 100 * bars[name][part] for name in bars}
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of the time of a training step")
    axis.tick_params(axis="y", length=0)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(parts))
    return figure


@matplotlib.rc_context(STYLE)
def cost_bars(panels: Mapping[str, Mapping[str, float]]) -> Figure:
    """Bars on a logarithmic axis, one panel per graph, in the order of costs in the first panel."""
    first = next(iter(panels.values()))
    names = sorted(first, key=lambda name: first[name])
    figure = Figure(figsize=(9.6, 1.4 + 0.24 * len(names)), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (graph, costs) in zip(axes, panels.items(), strict=True):
        values = [costs[name] for name in names]
        colours = [OURS if name.startswith("GREAD") else "#999999" for name in names]
        axis.barh(names, values, color=colours, height=0.7)
        over_the_line = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        where: dict[str, Any] = {"textcoords": "offset points", "va": "center"}
        for place, value in enumerate(values):
            axis.annotate(f"{value:.1f}", (value, place), (4, 0), bbox=over_the_line, **where)
        axis.set_xscale("log")
        axis.set_xlim(0.7 * min(values), 3 * max(values))
        axis.axvline(1, color="#444444", linewidth=0.8, linestyle=":")
        axis.margins(y=0.01)
        axis.set_title(graph.capitalize(), loc="left")
        axis.set_xlabel("cost of an epoch (GCN epochs)")
        axis.tick_params(axis="y", length=0)
    axes[0].invert_yaxis()
    return figure
