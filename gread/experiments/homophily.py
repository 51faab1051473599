"""Accuracy from heterophily to homophily on synthetic Cora: Figure 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.curves import accuracies, curve, means_of, title_of
from gread.experiments.protocol import GREAD, PROTOCOL, runs_in
from gread.models.catalog import MODELS
from gread.report.charts import Axis, Chart, Panel
from gread.report.claims import Claim
from gread.runs.result import Result
from gread.runs.spec import RunSpec

BASELINES = ("mlp", "gcn", "gat", "grand", "h2gcn")
ABOUT = PROTOCOL["homophily"]

Means = Mapping[tuple[str, float], float]
"""Mean accuracy by title and homophily."""

LOW = (0.0, 0.1, 0.2)
"""Levels that count as low homophily."""

SUDDEN = 5.0
"""A drop by more points from one level to the next counts as sudden."""


def specs() -> list[RunSpec]:
    """Every model on three graphs of every level of homophily."""
    return [
        replace(spec, options={"graph": graph})
        for level in ABOUT["levels"]
        for model in (*BASELINES, *GREAD)
        for spec in runs_in(ABOUT, f"syn-cora-h{level}", model)
        for graph in ABOUT["graphs"]
    ]


def render(results: Sequence[Result]) -> Chart:
    """GREAD-BS against the baselines, and the seven reactions."""
    found = accuracies(
        ((title_of(r), float(r.spec.dataset.removeprefix("syn-cora-h"))), r) for r in results
    )
    axes = Axis("homophily", limits=(0.0, 1.0)), Axis("test accuracy (%)")
    panels = []
    for title, models in (
        ("GREAD-BS and baselines", ("gread-bs", *reversed(BASELINES))),
        ("GREAD", GREAD),
    ):
        lines = []
        for name in (MODELS[model].title for model in models):
            lines.append(curve(name, {x: values for (t, x), values in found.items() if t == name}))
        panels.append(Panel.of(title, lines, *axes))
    means = means_of(found)
    return Chart(
        "Figure 6: accuracy by homophily, synthetic Cora",
        tuple(panels),
        columns=2,
        note="Mean over the graphs of a level, with a band of one standard deviation. "
        f"{_ahead(means)}".strip(),
        claims=(*_poor(means), *_best_overall(means), *_steady(means)),
    )


def _ahead(found: Means) -> str:
    """Advantage of GREAD-BS over GCN at low homophily."""
    ahead = [
        found["GREAD-BS", x] - found["GCN", x]
        for x in LOW
        if ("GREAD-BS", x) in found and ("GCN", x) in found
    ]
    if not ahead:
        return ""
    points = ", ".join(f"{value:+.1f}" for value in ahead).replace("-", "−")
    return f"GREAD-BS minus GCN at homophily 0.0 to 0.2, in points: {points}."


def _poor(found: Means) -> tuple[Claim, ...]:
    """Claim that GCN, GAT and GRAND are worse at low homophily than MLP, which uses no graph."""
    names = ("GCN", "GAT", "GRAND")
    if any((name, x) not in found for name in (*names, "MLP") for x in LOW):
        return ()
    behind = {name: fmean(found["MLP", x] - found[name, x] for x in LOW) for name in names}
    here = "at homophily 0.0 to 0.2 they are below MLP by "
    here += ", ".join(f"{points:.1f} ({name})" for name, points in behind.items()) + " points"
    says = "GCN, GAT and GRAND perform poorly at low homophily"
    return (Claim(says, here.replace("-", "−"), min(behind.values()) > 0),)


def _best_overall(found: Means) -> tuple[Claim, ...]:
    """Claim that all GREAD models are the best, compared by the mean over all levels."""
    levels = {x for _, x in found}
    titles = {title for title, _ in found}
    over = {
        title: fmean(found[title, x] for x in levels)
        for title in sorted(titles)
        if all((title, x) in found for x in levels)
    }
    ours = {title: mean for title, mean in over.items() if title.startswith("GREAD")}
    others = {title: mean for title, mean in over.items() if title not in ours}
    if not ours or not others:
        return ()
    lowest, best = min(ours, key=ours.__getitem__), max(others, key=others.__getitem__)
    highest = max(ours, key=ours.__getitem__)
    here = f"over all levels {best} has {others[best]:.1f} on average, and GREAD "
    here += f"{ours[lowest]:.1f} ({lowest}) to {ours[highest]:.1f} ({highest})"
    return (Claim("all GREAD models have the best trend", here, ours[lowest] >= others[best]),)


def _steady(found: Means) -> tuple[Claim, ...]:
    drops = {}
    for name in (*(MODELS[model].title for model in GREAD), "H2GCN"):
        means = [mean for (title, _), mean in sorted(found.items()) if title == name]
        drops[name] = max([0.0, *(a - b for a, b in pairwise(means))])  # 0 if it only rises
    if not any(title == "GREAD-BS" for title, _ in found):
        return ()
    sudden = [name for name in drops if name != "H2GCN" and drops[name] > SUDDEN]
    here = "the largest drop from a level to the next is " + ", ".join(
        f"{points:.1f} ({name})" for name, points in sorted(drops.items(), key=lambda d: -d[1])
    )
    says = "no GREAD model drops suddenly on the way from heterophily to homophily, and H2GCN does"
    return (Claim(says, f"{here} points", not sudden and drops["H2GCN"] > SUDDEN),)


ARTEFACTS.add("figure-6", Artefact(specs, render))
