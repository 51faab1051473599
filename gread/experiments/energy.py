"""Oversmoothing: Dirichlet energy of the states after every layer, Figures 5 and 11.

Beyond the paper, energy and effective rank of every model that can be made deep.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import median_curve, title_of
from gread.experiments.protocol import GREAD, PROTOCOL, STUDIED, runs_in
from gread.models.catalog import MODELS
from gread.report.charts import COLOURS, Axis, Chart, Panel, Series
from gread.report.claims import Claim, listed
from gread.runs.result import Result
from gread.runs.spec import RunSpec

ENERGY = PROTOCOL["energy"]
DEPTH = PROTOCOL["depth"]

LAYER = Axis("layer", limits=(0, 40))
TABLE_10 = "the setting of Table 10 with features scaled by 0.1"

SHOWN = (1e-14, 1e6)
"""Range of energies in a chart; below it, float32 does not resolve differences of states."""

Rows = Mapping[str, Sequence[Sequence[float]]]
"""Recorded values by title: one row per seed, one column per layer."""


def specs(betas: Sequence[str], *, baselines: bool = False) -> list[RunSpec]:
    """Runs of GREAD with forty steps in the setting of Table 10, by β, and of deep baselines."""
    runs = partial(runs_in, ENERGY, "csbm", record=("layer_energy",))
    found = [spec for model in GREAD for beta in betas for spec in runs(model, beta=beta)]
    if baselines:
        found += [spec for model in ("grand", *ENERGY["layered"]) for spec in runs(model)]
    return found


def depth_specs() -> list[RunSpec]:
    """Runs of every model that can be made deep: forty layers, and eight rounds of H2GCN."""
    return [
        spec
        for model in STUDIED
        if MODELS[model].continuous or model in DEPTH["layered"]
        for spec in runs_in(DEPTH, "csbm", model, ("layer_energy", "layer_rank"))
    ]


def render_models(results: Sequence[Result]) -> Chart:
    """Figure 5: GREAD and the baselines in one panel."""
    rows = _recorded("layer_energy", results)
    lines = [median_curve(title, seeds) for title, seeds in rows.items()]
    panel = Panel.of("", lines, LAYER, Axis("Dirichlet energy (Eq. 18)", log=True, limits=SHOWN))
    note = f"{_setting(results, band=True)} {_changes(rows)}"
    title = "Figure 5: Dirichlet energy over forty layers"
    return Chart(title, (panel,), note=note, claims=(*_decays(rows), *_stays(rows)))


def render_beta(results: Sequence[Result]) -> Chart:
    """Figure 11: a panel for every reaction, SC against VC, and the area between them."""
    rows = {
        short: _recorded("layer_energy", [r for r in results if r.spec.hyper["beta"] == beta])
        for beta, short in (("vector", "VC"), ("scalar", "SC"))
    }
    panels = []
    for title in (MODELS[model].title for model in GREAD):
        lines = [
            replace(_line(title, rows[short], colour, dashed), label=short)
            for short, colour, dashed in (("VC", COLOURS[0], False), ("SC", COLOURS[1], True))
            if title in rows[short]
        ]
        if len(lines) == 2:
            lines.append(_between(*lines))
        panels.append(Panel.of(title, lines, LAYER, Axis("Dirichlet energy", log=True)))
    return Chart(
        "Figure 11: Dirichlet energy with a scalar and a vector β",
        tuple(panels),
        columns=4,
        note=_setting(results),
        claims=_conserved(rows),
    )


def _between(first: Series, second: Series) -> Series:
    """The area between two lines."""
    low, high = tuple(map(min, first.y, second.y)), tuple(map(max, first.y, second.y))
    return Series("difference", first.x, first.y, low, high, colour="#555555", width=0)


def render_depth(results: Sequence[Result]) -> Chart:
    """Energy and effective rank side by side, one row for every family of models."""
    energies, ranks = (_recorded(name, results) for name in ("layer_energy", "layer_rank"))
    groups: dict[str, dict[str, None]] = {}
    for result in results:
        groups.setdefault(MODELS[result.spec.model].group, {})[title_of(result)] = None
    shown = (
        (energies, Axis("Dirichlet energy", log=True, limits=SHOWN)),
        (ranks, Axis("effective rank")),
    )
    panels = []
    for group, titles in groups.items():
        for rows, y in shown:
            lines = [
                _line(title, rows, COLOURS[place % len(COLOURS)], dashed=place >= len(COLOURS))
                for place, title in enumerate(titles)
                if title in rows
            ]
            panels.append(Panel.of(group, lines, LAYER, y))
    deep = {spec.model for spec in depth_specs()}
    shallow = listed(MODELS[name].title for name in STUDIED if name not in deep)
    return Chart(
        "Every model over depth: energy, and effective rank",
        tuple(panels) or (Panel(remark="no runs yet"),) * 2,
        columns=2,
        note=_setting(results, "sixteen features and channels, Euler steps of size 1 as layers")
        + f" Not shown because they have at most two layers: {shallow}.",
    )


def _line(title: str, rows: Rows, colour: str, dashed: bool) -> Series:
    """Median curve without its band."""
    line = median_curve(title, rows[title])
    return replace(line, low=(), high=(), colour=colour, dashed=dashed)


def _recorded(name: str, results: Sequence[Result]) -> dict[str, list[list[float]]]:
    rows: dict[str, list[list[float]]] = {}
    for result in results:
        if name in result.records:
            rows.setdefault(title_of(result), []).append(result.records[name])
    return rows


def _setting(results: Sequence[Result], setting: str = TABLE_10, *, band: bool = False) -> str:
    """Note on the setting of the runs, and the models without a curve."""
    failed = Counter(title_of(result) for result in results if not result.records)
    seeds = len({result.spec.seed for result in results})
    note = f"cSBM of 100 nodes, {setting}"
    note += f"; median of {seeds} seeds" if seeds > 1 else ""
    note += " with a band from the first to the third quartile." if band and seeds > 1 else "."
    if failed:
        counts = ", ".join(f"{title} {count}" for title, count in failed.items())
        note += f" Not shown because they overflowed float32 in their first epoch: {counts}."
    return note


def _changes(rows: Rows) -> str:
    """Note on the change of the energy from the first layer to the last."""
    if not rows:
        return ""
    words = []
    for title, seeds in rows.items():
        orders = _orders(seeds, -1)
        words.append(f"{title} to zero" if orders == -math.inf else f"{title} {orders:+.1f}")
    text = ", ".join(words).replace(" -", " −")
    return f"Change in orders of magnitude from the first layer to the last: {text}."


VANISHED = 8
"""Orders of magnitude by which an energy falls at least if it counts as vanished."""

BOUNDED = 3
"""Orders of magnitude within which an energy has neither vanished nor exploded."""


def _orders(seeds: Sequence[Sequence[float]], layer: int) -> float:
    """Orders of magnitude by which the energy has risen at a layer, median of the seeds."""
    ratio = median(row[layer] / row[0] for row in seeds)
    return math.log10(ratio) if ratio > 0 else -math.inf


def _fall(orders: float) -> str:
    return "to zero" if orders == -math.inf else f"by {-orders:.1f} orders of magnitude"


def _decays(rows: Rows) -> tuple[Claim, ...]:
    known = [title for title in ("GCN", "GAT") if title in rows and len(rows[title][0]) > 5]
    if len(known) < 2:
        return ()
    here = "; ".join(
        f"that of {title} falls {_fall(_orders(rows[title], 5))} in five layers and "
        f"{_fall(_orders(rows[title], -1))} in all"
        for title in known
    )
    says = "the energy of GCN and GAT decays exponentially to zero in the first five layers"
    return (Claim(says, here, all(_orders(rows[t], 5) <= -VANISHED for t in known)),)


def _stays(rows: Rows) -> tuple[Claim, ...]:
    change = {t: _orders(seeds, -1) for t, seeds in rows.items() if t.startswith("GREAD")}
    if not change:
        return ()
    gone = [title for title, orders in change.items() if orders < -BOUNDED]
    grown = [f"{t} ({n:.0f} orders of magnitude)" for t, n in change.items() if n > BOUNDED]
    here = f"after the last layer it is below a thousandth of the first with {listed(gone)}"
    here += f", and more than a thousand times it with {listed(grown)}"
    says = "the energy of GREAD does not vanish, and can be bounded in time"
    return (Claim(says, here, not gone and not grown),)


def _conserved(rows: Mapping[str, Rows]) -> tuple[Claim, ...]:
    """Models that keep more energy with a vector β, compared with those named by the paper."""
    last = {
        short: {title: median(row[-1] for row in seeds) for title, seeds in known.items()}
        for short, known in rows.items()
    }
    both = [title for title in last["VC"] if title in last["SC"]]
    if not both:
        return ()
    more = [t.removeprefix("GREAD-") for t in both if last["VC"][t] > last["SC"][t]]
    says = "with F, AC, ST and FB a vector β conserves more energy than a scalar"
    return (Claim(says, f"it does with {listed(more)}", {"F", "AC", "ST", "FB"} <= {*more}),)


for _name, _specs, _render, _quick in (
    ("figure-5", partial(specs, ("vector",), baselines=True), render_models, Quick(runs=3)),
    ("figure-11", partial(specs, ("scalar", "vector")), render_beta, Quick(runs=3)),
    ("depth", depth_specs, render_depth, Quick(epochs=5)),
):
    ARTEFACTS.add(_name, Artefact(_specs, _render, _quick))
