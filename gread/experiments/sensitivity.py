"""How accuracy depends on the time T and the step size τ: Figures 3, 4, 7 and 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gread.data import DATASETS as CATALOGUE
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import accuracies, curve, title_of
from gread.experiments.protocol import DATASETS, GREAD, PROTOCOL, runs_of
from gread.models import MODELS
from gread.report.charts import Axis, Chart, Panel, empty_without
from gread.runs import Result, RunSpec
from gread.runs.spec import Value


@dataclass(frozen=True)
class Sweep:
    """A hyperparameter that is varied.

    Attributes:
        name: Of the hyperparameter.
        label: What it is called on the axis.
        fixed: What else differs from the presets.
    """

    name: str
    label: str
    fixed: dict[str, Value]


TIME = Sweep("time", "integration time T", {})
STEP = Sweep("step_size", "step size τ", {"solver": "rk4"})


def specs(sweep: Sweep, datasets: Sequence[str]) -> list[RunSpec]:
    """Every reaction at every value, with the rest of its preset."""
    return [
        spec
        for dataset in datasets
        for model in GREAD
        for value in PROTOCOL["sensitivity"][sweep.name]
        for spec in runs_of(model, dataset, change={sweep.name: value, **sweep.fixed}, seeds=(0,))
    ]


def render(title: str, sweep: Sweep, datasets: Sequence[str], results: Sequence[Result]) -> Chart:
    """A panel for every dataset, a line for every reaction."""
    found = accuracies(
        ((r.spec.dataset, title_of(r), float(r.spec.hyper[sweep.name])), r)  # type: ignore[arg-type]
        for r in results
    )
    panels = []
    for dataset in datasets:
        lines: dict[str, dict[float, list[float]]] = {MODELS[model].title: {} for model in GREAD}
        for (name, title_here, value), values in found.items():
            if name == dataset:
                lines[title_here][value] = values
        series = tuple(curve(name, samples) for name, samples in lines.items())
        panels.append(
            Panel(
                CATALOGUE[dataset].title,
                series,
                x=Axis(sweep.label),
                y=Axis("test accuracy (%)"),
                remark=empty_without(series),
            )
        )
    failed = sum(result.test is None for result in results)
    note = "Mean over the splits in a band of one deviation."
    if failed:
        note += f" {failed} of {len(results)} runs diverged in their first epoch and are not shown."
    return Chart(title, tuple(panels), columns=min(3, len(panels)), note=note)


for _name, _title, _sweep, _datasets in (
    ("figure-3", "Figure 3: sensitivity to T", TIME, ("chameleon", "cora")),
    ("figure-4", "Figure 4: sensitivity to the step size", STEP, ("chameleon", "cora")),
    ("figure-7", "Figure 7: sensitivity to T", TIME, DATASETS),
    ("figure-8", "Figure 8: sensitivity to the step size", STEP, DATASETS),
):
    ARTEFACTS.add(
        _name,
        Artefact(
            partial(specs, _sweep, _datasets),
            partial(render, _title, _sweep, _datasets),
            Quick(epochs=10),
        ),
    )
