"""Running time of an epoch: Figure 9."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.curves import style_of, title_of
from gread.experiments.protocol import GREAD, PROTOCOL, runs_in
from gread.models.catalog import MODELS
from gread.report.charts import Axis, Chart, Panel, Series
from gread.report.claims import Claim
from gread.runs.result import Result
from gread.runs.spec import RunSpec

ABOUT = PROTOCOL["runtime"]
MODELS_SHOWN = (*ABOUT["baselines"], *GREAD)


def specs() -> list[RunSpec]:
    """Runs of every model with both solvers: one epoch, since the record times its own epochs."""
    return [
        spec
        for solver in ABOUT["solvers"]
        for model in MODELS_SHOWN
        for spec in runs_in(ABOUT, "cora", model, ("epoch_seconds",), solver=solver)
    ]


def render(results: Sequence[Result]) -> Chart:
    """A panel for every solver, a bar for every model."""
    ticks = tuple((float(n), MODELS[model].title) for n, model in enumerate(MODELS_SHOWN))
    axes = Axis(ticks=ticks, limits=(-0.7, len(ticks) - 0.3)), Axis("ms per epoch")
    panels = []
    for solver in ABOUT["solvers"]:
        bars = []
        for place, model in enumerate(MODELS_SHOWN):
            title = MODELS[model].title
            times = [
                1000 * seconds
                for r in results
                if (r.spec.hyper["solver"], title_of(r)) == (solver, title) and r.records
                for seconds in r.records["epoch_seconds"]
            ]
            if times:
                bars.append(_bar(place, title, times, model in GREAD))
        panels.append(Panel.of({"euler": "Euler", "rk4": "RK4"}[solver], bars, *axes))
    devices = sorted({result.device for result in results})
    note = "Cora, T = 3, τ = 1, SC and OA, width 64: a training step with its evaluation. Bars are "
    note += "medians, whiskers quartiles over epochs. The paper names no baselines."
    if devices:
        note += f" Measured on {' and '.join(devices)}."
    if any(device.startswith("cuda") for device in devices):
        note += " There, several epochs are launched together, and each counts as their mean."
    failed = sorted({title_of(result) for result in results if not result.records})
    if failed:
        note += f" Diverged before they could be timed: {', '.join(failed)}."
    return Chart(
        "Figure 9: running time of an epoch on Cora",
        tuple(panels),
        columns=2,
        note=note,
        claims=_claims(results),
    )


def _claims(results: Sequence[Result]) -> tuple[Claim, ...]:
    times: dict[bool, list[float]] = {True: [], False: []}
    for result in results:
        times[result.spec.model in GREAD] += result.records.get("epoch_seconds", [])
    if not all(times.values()):
        return ()
    ratio = median(times[True]) / median(times[False])
    here = f"over both solvers the median epoch of GREAD takes {ratio:.2f} times that of the others"
    says = "GREAD's training time is a little larger than that of the baselines"
    return (Claim(says, here, 1 <= ratio < 1.5),)


def _bar(place: int, title: str, times: Sequence[float], ours: bool) -> Series:
    ordered = sorted(times)
    quarter = len(ordered) // 4
    low, high = (ordered[quarter],), (ordered[-1 - quarter],)
    colour = style_of(title).colour if ours else "#9A9A9A"
    return Series("", (float(place),), (median(ordered),), low, high, mark="bars", colour=colour)


ARTEFACTS.add("figure-9", Artefact(specs, render))
