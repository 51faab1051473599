"""Report the searches of studies/measure_search.py after the last stage.

    python studies/report_search.py STORE

Run it in the repository's root. It prints the tables of docs/reproducibility.md. It writes the
tuned presets, gread/runs/archives/search.jsonl.xz, results/ensembles.csv and the figures of
validation against test accuracy.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev

import torch

import gread
from gread.experiments.protocol import DATASETS
from gread.experiments.questions import ARTEFACTS
from gread.models.catalog import MODELS
from gread.report.figures import selection
from gread.runs.archive import ARCHIVES, ENDING, write_results
from gread.runs.result import Result
from gread.runs.store import ResultStore
from gread.search.report import merge_preset, preset_table
from gread.search.study import study_name
from studies.measure_search import (
    BEST_OF_ALL,
    OTHER_DATA,
    RESULTS,
    WEBKB,
    Contest,
    final_specs,
    read_selection,
    record_of,
    runs,
)

ROOT = Path(__file__).parents[1]


def shown(values: Sequence[float]) -> str:
    """Mean and deviation in percent."""
    return f"{100 * fmean(values):.2f} ± {100 * pstdev(values):.2f}"


def finals(contest: Contest, way: str, settings: Mapping, store: ResultStore) -> list[Result]:
    """Runs whose test accuracy is reported."""
    specs = runs(contest, settings, contest.final, record=record_of(contest, way))
    return [result for result in map(store.get, specs) if result is not None]


def rows(
    contest: Contest, ways: Mapping[str, Mapping], store: ResultStore
) -> Iterator[tuple[str, list[float]]]:
    """Test results of each selection rule, and ensembles of the last rule."""
    for way, settings in ways.items():
        results = finals(contest, way, settings, store)
        yield way, [result.test or 0.0 for result in results]
        if record_of(contest, way):
            both = (("three seeds", "at_the_end", True), ("time", "over_time", False))
            for over, record, seeds in both:
                of = ensembles(contest, results, record, seeds=seeds)
                yield f"{way}, an ensemble over {over}", of


def ensembles(contest: Contest, results: list[Result], kind: str, *, seeds: bool) -> list[float]:
    """Test accuracies of ensembles over the seeds of a split, or over time."""
    data = gread.load(contest.dataset)
    groups: dict[tuple[int, int], list[torch.Tensor]] = {}
    for result in results:
        key = result.spec.split, 0 if seeds else result.spec.seed
        probabilities = torch.tensor(result.records["ensemble"][kind], dtype=torch.float64)
        groups.setdefault(key, []).append(probabilities)
    found = []
    for (split, _), probabilities in groups.items():
        classes = torch.stack(probabilities).mean(0).argmax(-1)
        right = (classes == data.y)[data.test_mask[:, split]]
        found.append(right.double().mean().item())
    return found


def preset(contest: Contest, found: Mapping, results: Sequence[Result]) -> str:
    """Settings as a TOML table, with their provenance."""
    trials = sum(study.trials for study in contest.studies)
    sources = {"published": "the published setting", "near": "near a known one"}
    seen = len(contest.seeds) * len(contest.splits)
    facts = [
        f"the best by validation of {trials} trials in {len(contest.studies)} studies: "
        f"{sources.get(found['kind'], found['kind'])}",
        f"mean validation accuracy {100 * found['validation']:.2f} over {seen} runs; test accuracy "
        f"{shown([result.test or 0.0 for result in results])} over {len(results)} others",
        "docs/reproducibility.md says how it was selected",
    ]
    return preset_table(contest.dataset, facts, found["ways"][BEST_OF_ALL], {})


def draw_selection() -> None:
    """Draw validation against test accuracy of all trials of the wide studies."""
    with open(RESULTS / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for dataset in WEBKB:
        points = {
            int(row["trial"]): (float(row["validation"]), float(row["test"]))
            for row in rows
            if row["study"] == study_name(dataset, "gread-bs")
        }
        best = max(points, key=lambda number: (points[number][0], -number))
        title = f"GREAD-BS on {dataset.title()}: {len(points)} settings"
        picture = selection(points, best, title=title)
        picture.savefig(ROOT / "docs/images" / f"settings-{dataset}.png", dpi=150)


def main(folder: str) -> None:
    """Print and write everything."""
    store = ResultStore(folder)
    missing = store.missing(final_specs())
    if missing:
        sys.exit(f"{len(missing)} final runs are missing")
    table: dict[str, dict[str, list[float]]] = {}
    for contest, found in read_selection():
        for way, values in rows(contest, found["ways"], store):
            table.setdefault(f"{contest.model}, {way}", {})[contest.dataset] = values
        results = finals(contest, BEST_OF_ALL, found["ways"][BEST_OF_ALL], store)
        path = ROOT / "gread/runs/presets/tuned" / f"{study_name('', contest.model)[1:]}.toml"
        path.parent.mkdir(exist_ok=True)
        merge_preset(path, preset(contest, found, results), MODELS[contest.model].title)
    keep(store)
    draw_selection()
    write_ensembles(table)
    print(f"| | {' | '.join(LISTED)} | average of the nine |")
    for way, row in table.items():
        cells = [shown(row[name]) if name in row else "" for name in LISTED]
        means = [fmean(row[name]) for name in DATASETS if name in row]
        average = f"{100 * fmean(means):.2f}" if len(means) == len(DATASETS) else ""
        print(f"| {way} | {' | '.join(cells)} | {average} |")


def keep(store: ResultStore) -> None:
    """Store the final runs without probabilities.

    ``gread runs export`` writes the runs of the table "settings"; the others are written to a
    separate file.
    """
    finals = [_plain(result) for result in map(store.get, final_specs()) if result is not None]
    store.put(*finals)
    shown = set(ARTEFACTS["settings"].specs())
    others = {result.spec: result for result in finals if result.spec not in shown}
    write_results(ARCHIVES / f"search{ENDING}", others.values())


def write_ensembles(table: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Write test accuracies of ensembles: by split, and over time by seed and split."""
    with open(RESULTS / "ensembles.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["way", "dataset", "place", "test"])
        for way, row in table.items():
            if "ensemble" in way:
                for dataset, values in row.items():
                    for place, value in enumerate(values):
                        writer.writerow([way, dataset, place, f"{100 * value:.2f}"])


def _plain(result: Result) -> Result:
    """Result without records, small enough to commit."""
    return replace(result, spec=replace(result.spec, record=()), records={})


LISTED = (*DATASETS, *OTHER_DATA)

if __name__ == "__main__":
    main(*sys.argv[1:])
