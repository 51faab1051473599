"""GREAD-ST against GRAND++, which also adds a source: Tables 22 and 23."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from gread.data import DATASETS as CATALOGUE
from gread.experiments.accuracy import number, summary
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import accuracies, title_of
from gread.experiments.protocol import DATASETS, PROTOCOL, PUBLISHED, preset_of, runs_of
from gread.models import MODELS
from gread.report.claims import Claim, listed
from gread.report.tables import Cell, Table, places
from gread.runs import Result, RunSpec

PAIR = ("grand++", "gread-st")
LAYERS = PROTOCOL["layers"]


def specs() -> list[RunSpec]:
    """Both on all datasets."""
    return [spec for dataset in DATASETS for model in PAIR for spec in runs_of(model, dataset)]


def depth_specs() -> list[RunSpec]:
    """Both with more and more layers: steps of the size that the preset has."""
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


def render(results: Sequence[Result]) -> Table:
    """Ours, and what the paper prints."""
    ours = summary(results)
    titles = [MODELS[model].title for model in PAIR]
    rows = []
    compared = [d for d in DATASETS if all(d in ours.get(name, {}) for name in titles)]
    behind = [d for d in compared if ours[titles[1]][d][0] <= ours[titles[0]][d][0]]
    claims = []
    if compared:
        found = f"it is ahead on {len(compared) - len(behind)} of {len(compared)}"
        found += f", not on {listed(CATALOGUE[d].title for d in behind)}" if behind else ""
        claims.append(Claim("GREAD-ST is superior in all datasets", found, not behind))
    for title in titles:
        cells = []
        for dataset in DATASETS:
            known = [ours.get(name, {}).get(dataset) for name in titles]
            best = places([None if pair is None else pair[0] for pair in known])
            place = best[titles.index(title)] if None not in known else None
            cells.append(Cell(number(known[titles.index(title)]), 1 if place == 1 else None))
        rows.append((Cell(title), *cells))
        paper = PUBLISHED["paper"][title]
        rows.append((Cell("– paper"), *(Cell(number(paper[d])) for d in DATASETS)))
    return Table(
        "Table 22: GREAD-ST and GRAND++",
        ("model", *DATASETS),
        tuple(rows),
        "Test accuracy in percent, mean ± deviation over splits and seeds; the better is bold. "
        "Where GRAND++ has no published setting it has one found by validation.",
        tuple(claims),
    )


def render_depth(results: Sequence[Result]) -> Table:
    """Accuracy on Cora by the number of layers."""
    found = accuracies(
        ((title_of(r), round(float(r.spec.hyper["time"]) / float(r.spec.hyper["step_size"]))), r)  # type: ignore[arg-type]
        for r in results
    )
    rows = []
    for title in (MODELS[model].title for model in PAIR):
        known = [found.get((title, layers)) for layers in LAYERS["numbers"]]
        cells = [number(None if v is None else (fmean(v), pstdev(v))) for v in known]
        rows.append((Cell(title), *map(Cell, cells)))
        paper = PUBLISHED["depth"][title]
        rows.append((Cell("– paper"), *(Cell(number(paper[str(n)])) for n in LAYERS["numbers"])))
    return Table(
        "Table 23: GREAD-ST and GRAND++ on Cora by the number of layers",
        ("model", *map(str, LAYERS["numbers"])),
        tuple(rows),
        "Test accuracy in percent, mean ± deviation over splits. A layer is a step of the solver, "
        "as long as in the preset.",
        _robust(found),
    )


def _robust(found: Mapping[tuple[str, int], Sequence[float]]) -> tuple[Claim, ...]:
    """How far accuracy moves with depth, where there are runs of both at several depths."""
    titles = [MODELS[model].title for model in PAIR]
    depths = [n for n in LAYERS["numbers"] if all((title, n) in found for title in titles)]
    if len(depths) < 2:
        return ()
    spread = []
    for title in titles:
        means = [fmean(found[title, n]) for n in depths]
        spread.append(max(means) - min(means))
    here = f"from {depths[0]} to {depths[-1]} layers the accuracy of {titles[1]} moves by "
    here += f"{spread[1]:.2f} points, that of {titles[0]} by {spread[0]:.2f}"
    says = "GREAD-ST is more robust to oversmoothing than GRAND++"
    return (Claim(says, here, spread[1] < spread[0]),)


ARTEFACTS.add("table-22", Artefact(specs, render))
ARTEFACTS.add("table-23", Artefact(depth_specs, render_depth, Quick(epochs=10)))
