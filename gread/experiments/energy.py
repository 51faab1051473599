"""Oversmoothing: what is left of the differences between nodes behind every layer.

Figures 5 and 11, and beyond the paper the same for every model, with the effective rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import median_curve, title_of
from gread.experiments.protocol import GREAD, PROTOCOL
from gread.models import MODELS
from gread.report.charts import COLOURS, Axis, Chart, Panel, Series, empty_without
from gread.runs import Result, RunSpec
from gread.training import TrainConfig

ENERGY = PROTOCOL["energy"]
DEPTH = PROTOCOL["depth"]

LAYER = Axis("layer", limits=(0, 40))
Rows = Mapping[str, Sequence[Sequence[float]]]
"""Title to what was recorded over depth, a row for every seed."""


def specs(betas: Sequence[str], *, baselines: bool = False) -> list[RunSpec]:
    """GREAD with forty steps in the setting of Table 10, by its β; and baselines as deep."""
    hypers: list[tuple[str, Mapping[str, Any]]] = [
        (model, {**ENERGY["continuous"], **ENERGY["gread"], "beta": beta})
        for model in GREAD
        for beta in betas
    ]
    if baselines:
        hypers += [("grand", ENERGY["continuous"]), *ENERGY["baselines"].items()]
    return _runs(ENERGY, hypers, ("layer_energy",))


def depth_specs() -> list[RunSpec]:
    """Every model that can be made forty layers deep."""
    hypers = []
    for model, entry in MODELS.items():
        if entry.continuous:
            own = DEPTH["gread"] if entry.group == "GREAD" else {}
            hypers.append((model, {**DEPTH["common"], **DEPTH["continuous"], **own}))
        elif model in DEPTH["layered"]:
            hypers.append((model, {**DEPTH["common"], **DEPTH["layered"][model]}))
    return _runs(DEPTH, hypers, ("layer_energy", "layer_rank"))


def _runs(
    about: Mapping[str, Any],
    hypers: Sequence[tuple[str, Mapping[str, Any]]],
    record: tuple[str, ...],
) -> list[RunSpec]:
    return [
        RunSpec(
            dataset="csbm",
            model=model,
            seed=seed,
            hyper=hyper,
            train=TrainConfig(**about["train"]),
            options=about["options"],
            record=record,
        )
        for model, hyper in hypers
        for seed in range(about["seeds"])
    ]


def render_models(results: Sequence[Result]) -> Chart:
    """Figure 5: GREAD and the baselines in one panel."""
    rows = _recorded("layer_energy", results)
    lines = tuple(median_curve(title, seeds) for title, seeds in rows.items())
    y = Axis("Dirichlet energy (Eq. 18)", log=True, limits=_limits(rows))
    panel = Panel(series=lines, x=LAYER, y=y, remark=empty_without(lines))
    note = f"{_setting(results)} {_claim(rows)}"
    return Chart("Figure 5: Dirichlet energy over forty layers", (panel,), note=note)


def render_beta(results: Sequence[Result]) -> Chart:
    """Figure 11: a panel for every reaction, SC against VC, and the area between them."""
    rows = {
        short: _recorded("layer_energy", [r for r in results if r.spec.hyper["beta"] == beta])
        for beta, short in (("vector", "VC"), ("scalar", "SC"))
    }
    panels = []
    for title in (MODELS[model].title for model in GREAD):
        lines = [
            replace(
                median_curve(title, rows[short][title]), label=short, colour=colour, dashed=dashed
            )
            for short, colour, dashed in (("VC", COLOURS[0], False), ("SC", COLOURS[1], True))
            if title in rows[short]
        ]
        series = [replace(line, low=(), high=()) for line in lines]
        if len(series) == 2:
            series.append(_between(*series))
        y = Axis("Dirichlet energy", log=True)
        panels.append(Panel(title, tuple(series), x=LAYER, y=y, remark=empty_without(series)))
    return Chart(
        "Figure 11: Dirichlet energy with a scalar and a vector β",
        tuple(panels),
        columns=4,
        note=_setting(results),
    )


def _between(first: Series, second: Series) -> Series:
    """The area between two lines."""
    ends = list(zip(first.y, second.y, strict=True))
    return Series(
        "difference",
        first.x,
        first.y,
        tuple(map(min, ends)),
        tuple(map(max, ends)),
        colour="#555555",
        width=0,
    )


def render_depth(results: Sequence[Result]) -> Chart:
    """Energy and effective rank beside each other, a row for every family of models."""
    energies, ranks = (_recorded(name, results) for name in ("layer_energy", "layer_rank"))
    groups: dict[str, dict[str, None]] = {}
    for result in results:
        groups.setdefault(MODELS[result.spec.model].group, {})[title_of(result)] = None
    shown = (
        (energies, Axis("Dirichlet energy", log=True, limits=_limits(energies))),
        (ranks, Axis("effective rank")),
    )
    panels = []
    for group, titles in groups.items():
        for rows, y in shown:
            known = [title for title in titles if title in rows]
            lines = tuple(replace(median_curve(t, rows[t]), low=(), high=()) for t in known)
            panels.append(Panel(group, lines, x=LAYER, y=y, remark=empty_without(lines)))
    return Chart(
        "Every model over forty layers: energy, and effective rank",
        tuple(panels) or (Panel(remark="no runs yet"),) * 2,
        columns=2,
        note=_setting(results),
    )


def _recorded(name: str, results: Sequence[Result]) -> dict[str, list[list[float]]]:
    rows: dict[str, list[list[float]]] = {}
    for result in results:
        if name in result.records:
            rows.setdefault(title_of(result), []).append(result.records[name])
    return rows


def _limits(rows: Rows) -> tuple[float, float]:
    """From where float32 has nothing left, up to the highest line."""
    highest = max((value for seeds in rows.values() for row in seeds for value in row), default=1.0)
    return 1e-16, 10 * min(highest, 1e20)


def _setting(results: Sequence[Result]) -> str:
    """How the lines came about, and who has none."""
    failed: dict[str, int] = {}
    for result in results:
        if not result.records:
            failed[title_of(result)] = failed.get(title_of(result), 0) + 1
    seeds = len({result.spec.seed for result in results})
    note = f"cSBM of 100 nodes, Table 10, features a tenth as large; median of {seeds} seeds"
    note += ", bands from the lowest to the highest." if seeds > 1 else "."
    if failed:
        counts = ", ".join(f"{title} {count}" for title, count in failed.items())
        note += f" Runs that left float32 in their first epoch and are not shown: {counts}."
    return note


def _claim(rows: Rows) -> str:
    """By how many orders of magnitude each falls from its first layer to its last."""
    falls = {}
    for title, seeds in rows.items():
        ratio = median(row[-1] / row[0] for row in seeds)
        falls[title] = -math.log10(ratio) if ratio > 0 else math.inf
    if not falls:
        return ""
    words = ", ".join(
        f"{title} to zero" if math.isinf(fall) else f"{title} {fall:.1f}"
        for title, fall in falls.items()
    )
    return f"Orders of magnitude by which the energy falls: {words}."


for _name, _specs, _render in (
    ("figure-5", partial(specs, ("vector",), baselines=True), render_models),
    ("figure-11", partial(specs, ("scalar", "vector")), render_beta),
    ("depth", depth_specs, render_depth),
):
    ARTEFACTS.add(_name, Artefact(_specs, _render, Quick(runs=3 if _name != "depth" else 1)))
