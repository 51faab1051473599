"""Sensitivity of accuracy to the time T and the step size τ: Figures 3, 4, 7 and 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import (
    Measured,
    accuracies,
    curve,
    means_of,
    note_on_failed,
    splits_of,
    title_of,
)
from gread.experiments.protocol import DATASETS, GREAD, PROTOCOL, runs_of
from gread.models.catalog import MODELS
from gread.report.charts import Axis, Chart, Panel
from gread.report.claims import Claim
from gread.report.statistics import compare
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value


@dataclass(frozen=True)
class Sweep:
    """A varied hyperparameter, its axis label, and other settings that differ from the preset."""

    name: str
    label: str
    fixed: dict[str, Value]


ABOUT = PROTOCOL["sensitivity"]
TIME = Sweep("time", "integration time T", {})
STEP = Sweep("step_size", "step size τ", {"solver": "rk4"})


def specs(sweep: Sweep, datasets: Sequence[str]) -> list[RunSpec]:
    """Runs of every reaction at every value, otherwise with its preset and ``sweep.fixed``."""
    return [
        spec
        for dataset in datasets
        for model in GREAD
        for value in ABOUT[sweep.name]
        for spec in runs_of(
            model,
            dataset,
            change={sweep.name: value, **sweep.fixed},
            splits=ABOUT["splits"].get(dataset, 10),
            seeds=(0,),
        )
    ]


Found = Mapping[tuple[str, str, float], Measured]
"""Accuracies by dataset, title and varied value, in the order of seeds and splits."""

MakeClaims = Callable[[Found], list[Claim]]


def render(
    title: str,
    sweep: Sweep,
    claims: Sequence[MakeClaims],
    datasets: Sequence[str],
    results: Sequence[Result],
) -> Chart:
    """A panel for every dataset, a line for every reaction."""
    found = accuracies(
        ((r.spec.dataset, title_of(r), float(r.spec.hyper[sweep.name])), r)  # type: ignore[arg-type]
        for r in sorted(results, key=lambda r: (r.spec.seed, r.spec.split))
    )
    axes = Axis(sweep.label), Axis("test accuracy (%)")
    panels = []
    for dataset in datasets:
        series = []
        for name in (MODELS[model].title for model in GREAD):
            own = {x: found[d, t, x] for d, t, x in found if (d, t) == (dataset, name)}
            series.append(curve(name, own))
        panels.append(Panel.of(CATALOGUE[dataset].title, series, *axes))
    note = f"Mean over {splits_of(results)} with a band of one standard deviation."
    note += note_on_failed(results)
    if not all(found.values()):
        note += " If all runs of a point did, the line has a gap or ends."
    return Chart(
        title,
        tuple(panels),
        columns=2 if len(panels) == 4 else min(3, len(panels)),
        note=note,
        claims=tuple(claim for make in claims for claim in make(found)),
    )


def best_time(found: Found) -> list[Claim]:
    """Claim of Section 5.2 about Figure 3."""
    means = _over(TIME, found, "chameleon")
    if not means:
        return []
    best = max(means, key=means.__getitem__)
    says = "on Chameleon GREAD-BS has its highest mean accuracy at T = 1.9"
    here = f"of the times shown it is highest at T = {best:g}, with {means[best]:.2f}"
    return [Claim(says, here, 1.5 <= best <= 2.0)]


def _over(sweep: Sweep, found: Found, dataset: str) -> dict[float, float]:
    """Means of GREAD-BS by varied value; empty if one is missing."""
    own = {x: values for (d, t, x), values in found.items() if (d, t) == (dataset, "GREAD-BS")}
    means = means_of(own)
    return means if len(means) == len(ABOUT[sweep.name]) else {}


STABLE = 2.0
"""Largest range of accuracies, in points, of a curve that counts as stable."""


def stable_on_chameleon(found: Found) -> list[Claim]:
    """Claim of Section 5.2 about Figure 4."""
    means = _over(STEP, found, "chameleon")
    if not means:
        return []
    low, high = min(means.values()), max(means.values())
    says = "on Chameleon GREAD-BS has a stable accuracy at all step sizes"
    return [Claim(says, f"it is between {low:.2f} and {high:.2f}", high - low <= STABLE)]


def rising_on_cora(found: Found) -> list[Claim]:
    """Claim of Section 5.2 about Figure 4."""
    means = _over(STEP, found, "cora")
    if not means:
        return []
    steps = sorted(means)
    half = len(steps) // 2
    short, long = (fmean(means[step] for step in part) for part in (steps[:half], steps[-half:]))
    here = f"it is {short:.2f} over the {half} smallest and {long:.2f} over the {half} largest"
    by_split = (
        [
            fmean(values)
            for values in zip(*(found["cora", "GREAD-BS", s] for s in part), strict=True)
        ]
        for part in (steps[-half:], steps[:half])
    )
    here += f", p = {compare(*by_split).t_test:.2f} by a paired t-test over splits"
    return [Claim("on Cora GREAD-BS tends to be better with larger steps", here, long > short)]


STEADY = 5.0
"""Largest loss of accuracy, in points, that counts as maintained."""


def steady(found: Found) -> list[Claim]:
    """Claim of the appendix about Figure 7."""
    lost = {}
    for dataset in DATASETS:
        means = _over(TIME, found, dataset)
        if means:
            lost[dataset] = max(means.values()) - means[max(means)]
    if not lost:
        return []
    most = max(lost, key=lost.__getitem__)
    here = f"from its best T to the largest it loses at most {lost[most]:.1f} points, on "
    says = "GREAD-BS maintains its performance even when T is increased"
    return [Claim(says, here + CATALOGUE[most].title, lost[most] <= STEADY)]


def weak(found: Found) -> list[Claim]:
    """Claim of the appendix about Figure 7, on datasets where GREAD-Z has an accuracy."""
    points, means = {}, means_of(found)
    for dataset in ("texas", "cornell", "film"):
        apart = []
        for value in ABOUT["time"]:
            there = {t: mean for (d, t, x), mean in means.items() if (d, x) == (dataset, value)}
            own = there.pop("GREAD-Z", None)
            if own is not None and there:
                apart.append(own - fmean(there.values()))
        if apart:
            points[CATALOGUE[dataset].title] = fmean(apart)
    if not points:
        return []
    words = ", ".join(f"{value:+.1f} on {name}" for name, value in points.items())
    here = f"against the mean of the other reactions it has {words} points".replace("-", "−")
    says = "GREAD-Z tends to low performance on Texas, Cornell and Film"
    return [Claim(says, here, max(points.values()) < 0)]


for _name, _title, _sweep, _datasets, _claims in (
    ("figure-3", "Figure 3: sensitivity to T", TIME, ("chameleon", "cora"), (best_time,)),
    (
        "figure-4",
        "Figure 4: sensitivity to the step size",
        STEP,
        ("chameleon", "cora"),
        (stable_on_chameleon, rising_on_cora),
    ),
    ("figure-7", "Figure 7: sensitivity to T", TIME, DATASETS, (steady, weak)),
    ("figure-8", "Figure 8: sensitivity to the step size", STEP, DATASETS, ()),
):
    _specs = partial(specs, _sweep, _datasets)
    _render = partial(render, _title, _sweep, _claims, _datasets)
    ARTEFACTS.add(_name, Artefact(_specs, _render, Quick(epochs=5)))
