"""Settings from three sources: the paper's appendix, the published code, our search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gread.base.errors import InputError
from gread.experiments.accuracy import PAPER, QUICK, TITLES, average, number, summary
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.protocol import DATASETS, GREAD, SEVERAL_SEEDS, runs_of
from gread.models.catalog import MODELS
from gread.report.tables import TextTable
from gread.runs.presets import find_preset
from gread.runs.result import Result
from gread.runs.spec import RunSpec

SOURCES = ("paper", "published", "tuned")


def specs_of(source: str) -> Iterator[RunSpec]:
    """Yield runs of GREAD on ten splits of every dataset for which the source has settings.

    The search used seeds 0 to 2, so the settings that it found are reported with other seeds.
    """
    for dataset in DATASETS:
        for model in GREAD:
            try:
                preset = find_preset(model, dataset, source)
            except InputError:
                continue
            several = model == "gread-bs" or dataset in SEVERAL_SEEDS
            seeds = range(3, 6 if several else 4) if source == "tuned" else None
            yield from runs_of(model, dataset, preset=preset, seeds=seeds)


def specs() -> list[RunSpec]:
    """Runs with the settings of all sources; equal runs are listed once."""
    return list(dict.fromkeys(spec for source in SOURCES for spec in specs_of(source)))


def render(results: Sequence[Result]) -> TextTable:
    """Accuracies of every model: the paper's, and ours with each source of settings."""
    known = {result.spec.key: result for result in results}
    rows: list[list[str]] = []
    for model in GREAD:
        title = MODELS[model].title
        shown = {"the paper prints": PAPER[title]}
        for source in SOURCES:
            own = [spec.key for spec in specs_of(source) if spec.model == model]
            found = summary(known[key] for key in own if key in known)
            if own:
                shown[f"{source} settings"] = found.get(title, {})
        rows.append([title, *[""] * (len(DATASETS) + 1)])
        for name, row in shown.items():
            numbers = [number(row[d]) if d in row else "" for d in DATASETS]
            rows.append([f"– {name}", *numbers, average(row)])
    return TextTable.of(
        "GREAD by the source of its settings",
        ("model", *TITLES, "average"),
        rows,
        note="Test accuracy in percent, mean ± standard deviation over ten splits and the seeds in "
        "docs/reproducibility.md. Tuned settings come from the search described there, "
        "selected only by validation.",
    )


ARTEFACTS.add("settings", Artefact(specs, render, QUICK))
