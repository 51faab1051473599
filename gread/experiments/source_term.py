"""GREAD-ST against GRAND++, which also adds a source term: Tables 22 and 23."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import TITLES, measured, paper_row
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import accuracies, means_of, note_on_failed, note_on_fewer, title_of
from gread.experiments.protocol import DATASETS, PROTOCOL, PUBLISHED, preset_of, runs_of, runs_on
from gread.models.catalog import MODELS
from gread.report.claims import Claim, listed
from gread.report.tables import Cell, TextTable, better
from gread.runs.result import Result
from gread.runs.spec import RunSpec

PAIR = ("grand++", "gread-st")
NAMES = [MODELS[model].title for model in PAIR]
LAYERS = PROTOCOL["layers"]


def depth_specs() -> list[RunSpec]:
    """Runs of both models with increasing depth, with the step size of the preset."""
    dataset = LAYERS["dataset"]
    return [
        spec
        for model in PAIR
        for layers in LAYERS["numbers"]
        for spec in runs_of(
            model, dataset, change={"time": layers * _step(model, dataset)}, seeds=(0,)
        )
    ]


def _step(model: str, dataset: str) -> float:
    return float(preset_of(model, dataset).hyper["step_size"])  # type: ignore[arg-type]


def render(results: Sequence[Result]) -> TextTable:
    """Our accuracies, and those that the paper prints."""
    ours = accuracies(((title_of(r), r.spec.dataset), r) for r in results)
    means = means_of(ours)
    compared = [d for d in DATASETS if all((name, d) in means for name in NAMES)]
    behind = [d for d in compared if means[NAMES[1], d] <= means[NAMES[0], d]]
    claims = []
    if compared:
        found = f"it is ahead on {len(compared) - len(behind)} of {len(compared)}"
        found += f", not on {listed(CATALOGUE[d].title for d in behind)}" if behind else ""
        claims.append(Claim("GREAD-ST is superior in all datasets", found, not behind))
    best = {d: better([means.get((name, d)) for name in NAMES]) for d in DATASETS}
    rows: list[list[str | Cell]] = []
    for row, name in enumerate(NAMES):
        cells = (Cell(measured(ours.get((name, d))), best[d][row]) for d in DATASETS)
        rows += [name, *cells], [*paper_row(PUBLISHED["paper"][name])]
    return TextTable.of(
        "Table 22: GREAD-ST and GRAND++",
        ("model", *TITLES),
        rows,
        "Test accuracy in percent, mean ± standard deviation over splits and seeds; the better "
        "value is bold. Without a published setting, GRAND++ uses one selected by validation."
        + note_on_failed(results)
        + note_on_fewer(ours),
        claims,
    )


def render_depth(results: Sequence[Result]) -> TextTable:
    """Accuracy on Cora by the number of layers."""
    found = accuracies(
        ((title_of(r), round(float(r.spec.hyper["time"]) / float(r.spec.hyper["step_size"]))), r)  # type: ignore[arg-type]
        for r in results
    )
    rows = []
    for name in NAMES:
        rows.append([name, *(measured(found.get((name, n))) for n in LAYERS["numbers"])])
        rows.append(paper_row(PUBLISHED["depth"][name], map(str, LAYERS["numbers"])))
    return TextTable.of(
        "Table 23: GREAD-ST and GRAND++ on Cora by the number of layers",
        ("model", *map(str, LAYERS["numbers"])),
        rows,
        "Test accuracy in percent, mean ± standard deviation over splits. A layer is one step of "
        f"the solver with the step size of the preset.{note_on_failed(results)}"
        + note_on_fewer(found),
        _robust(means_of(found)),
    )


def _robust(means: Mapping[tuple[str, int], float]) -> tuple[Claim, ...]:
    """Claim about accuracy with many layers, if both models have results for all depths."""
    depths = LAYERS["numbers"]
    if not all((name, depth) in means for name in NAMES for depth in depths):
        return ()
    theirs, ours = (
        max(means[name, depth] for depth in depths) - means[name, depths[-1]] for name in NAMES
    )
    here = f"from their best depth to {depths[-1]} layers, the definition of robust used here, "
    here += f"{NAMES[0]} loses {theirs:.2f} points and {NAMES[1]} {ours:.2f}"
    return (Claim("GREAD-ST is more robust to oversmoothing than GRAND++", here, ours < theirs),)


ARTEFACTS.add("table-22", Artefact(partial(runs_on, DATASETS, PAIR), render))
ARTEFACTS.add("table-23", Artefact(depth_specs, render_depth, Quick(epochs=10)))
