"""Accuracy from heterophily to homophily on synthetic Cora: Figure 6."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.curves import accuracies, curve, title_of
from gread.experiments.protocol import GREAD, PROTOCOL
from gread.models import MODELS
from gread.report.charts import Axis, Chart, Panel, empty_without
from gread.runs import Result, RunSpec
from gread.training import TrainConfig

BASELINES = ("mlp", "gcn", "gat", "grand", "h2gcn")
ABOUT = PROTOCOL["homophily"]


def specs() -> list[RunSpec]:
    """Every model on three graphs of every level of homophily."""
    return [
        RunSpec(
            dataset=f"syn-cora-h{level}",
            model=model,
            hyper={
                **ABOUT["common"],
                **(ABOUT["continuous"] if MODELS[model].continuous else {}),
                **(ABOUT["gread"] if model in GREAD else {}),
            },
            train=TrainConfig(**ABOUT["train"]),
            options={"graph": graph},
        )
        for level in ABOUT["levels"]
        for model in (*BASELINES, *GREAD)
        for graph in ABOUT["graphs"]
    ]


def render(results: Sequence[Result]) -> Chart:
    """GREAD-BS against the baselines, and the seven reactions."""
    found = accuracies(((title_of(r), _level(r.spec)), r) for r in results)
    panels = []
    for title, models in (
        ("GREAD-BS and baselines", ("gread-bs", *reversed(BASELINES))),
        ("GREAD", GREAD),
    ):
        lines = []
        for name in (MODELS[model].title for model in models):
            lines.append(curve(name, {x: values for (t, x), values in found.items() if t == name}))
        panels.append(
            Panel(
                title,
                tuple(lines),
                x=Axis("homophily", limits=(0.0, 1.0)),
                y=Axis("test accuracy (%)"),
                remark=empty_without(lines),
            )
        )
    return Chart(
        "Figure 6: accuracy by homophily, synthetic Cora",
        tuple(panels),
        columns=2,
        note=f"Mean over the graphs of a level in a band of one deviation. {_claim(found)}",
    )


def _level(spec: RunSpec) -> float:
    return float(spec.dataset.removeprefix("syn-cora-h"))


def _claim(found: dict[tuple[str, float], list[float]]) -> str:
    """How far GREAD-BS is above GCN where few neighbours share a class."""
    ahead = [
        fmean(found["GREAD-BS", x]) - fmean(found["GCN", x])
        for x in (0.0, 0.1, 0.2)
        if ("GREAD-BS", x) in found and ("GCN", x) in found
    ]
    if not ahead:
        return ""
    points = ", ".join(f"{value:+.1f}" for value in ahead).replace("-", "−")
    return f"GREAD-BS less GCN at homophily 0.0 to 0.2, in points: {points}."


ARTEFACTS.add("figure-6", Artefact(specs, render))
