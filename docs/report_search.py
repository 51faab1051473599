"""What the searches of docs/measure_search.py found, once all its stages are over.

    python docs/report_search.py STORE

from the repository's root. Prints the tables of docs/reproducibility.md; writes the tuned presets,
results/settings.jsonl, results/trials.csv and the pictures of validation against test.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev

import torch

import gread
from docs.measure_search import (
    BEST_OF_ALL,
    LARGER,
    OTHER_DATA,
    WEBKB,
    Contest,
    Study,
    candidates,
    compared,
    contests,
    final_specs,
    record_of,
    runs,
    second_specs,
    selected,
    trials_in,
)
from gread.figures import selection
from gread.models import MODELS
from gread.runs import Result, ResultStore
from gread.runs.store import write_results
from gread.search.report import merge_preset
from gread.search.study import study_name

ROOT = Path(__file__).parents[1]


def shown(values: Sequence[float]) -> str:
    """Mean and deviation in percent."""
    return f"{100 * fmean(values):.2f} ± {100 * pstdev(values):.2f}"


def finals(contest: Contest, way: str, settings: Mapping, store: ResultStore) -> list[Result]:
    """The runs whose test accuracy is reported."""
    specs = runs(contest, settings, contest.final, record=record_of(contest, way))
    return [result for result in map(store.get, specs) if result is not None]


def rows(
    contest: Contest, found: Mapping[str, Mapping], store: ResultStore
) -> Iterator[tuple[str, list[float]]]:
    """What each way to select gives on test, and the ensembles of the last."""
    for way, settings in found.items():
        results = finals(contest, way, settings, store)
        yield way, [result.test or 0.0 for result in results]
        if record_of(contest, way):
            both = (("three seeds", "at_the_end", True), ("time", "over_time", False))
            for over, record, seeds in both:
                of = ensembles(contest, results, record, seeds=seeds)
                yield f"{way}, an ensemble over {over}", of


def ensembles(contest: Contest, results: list[Result], kind: str, *, seeds: bool) -> list[float]:
    """Test accuracies of mean probabilities, over the seeds of a split or over time alone."""
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


def preset(contest: Contest, settings: Mapping, store: ResultStore, val: Mapping) -> str:
    """The settings as a table of TOML, with where they come from."""
    kind = next(kind for kind, of in candidates(contest, store) if of == settings)
    trials = sum(study.trials for study in contest.studies)
    seen = [val[spec.key] or 0.0 for spec in compared(contest, settings)]
    tests = [result.test or 0.0 for result in finals(contest, BEST_OF_ALL, settings, store)]
    source = {"published": "the published setting", "near": "near a known one"}.get(kind, kind)
    facts = [
        f"the best by validation of {trials} trials in {len(contest.studies)} studies: {source}",
        f"mean validation accuracy {100 * fmean(seen):.2f} over {len(seen)} runs; test accuracy "
        f"{shown(tests)} over {len(tests)} others",
        "docs/reproducibility.md says how it was selected",
    ]
    lines = [f"[{contest.dataset}]", *(f"# {fact}" for fact in facts)]
    lines += [
        f"{name} = {json.dumps(value)}" for name, value in settings.items() if value is not None
    ]
    return "\n".join(lines) + "\n"


def points_of(study: Study, contest: Contest, store: ResultStore, test: Mapping) -> dict:
    """Validation and test accuracy of every complete trial, in percent."""
    complete = [trial for trial in trials_in(study, store) if trial.complete]
    keys = {
        trial.number: [
            spec.key for spec in runs(contest, trial.settings, study.seeds, study.splits)
        ]
        for trial in complete
    }
    return {
        trial.number: (100 * trial.mean, 100 * fmean(test[k] or 0.0 for k in keys[trial.number]))
        for trial in complete
    }


def main(folder: str) -> None:
    """Prints and writes everything."""
    store = ResultStore(folder)
    for stage in (second_specs, final_specs):
        missing = store.missing(stage(store))
        if missing:
            sys.exit(f"{len(missing)} runs of {stage.__name__} are missing")
    val, test = store.numbers("val"), store.numbers("test")
    table: dict[tuple[str, str], dict[str, str]] = {}
    kept: list[Result] = []
    with open(ROOT / "results" / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["study", "trial", "runs", "validation", "test"])
        for contest in contests():
            found = selected(contest, store, val)
            for study in contest.studies:
                points = points_of(study, contest, store, test)
                size = len(study.seeds) * len(study.splits)
                for number, point in points.items():
                    writer.writerow([study.name, number, size, *(f"{p:.2f}" for p in point)])
                if study.kind == "wide":
                    numbers = {str(t.settings): t.number for t in trials_in(study, store)}
                    title = f"GREAD-BS on {study.dataset.title()}: {len(points)} settings"
                    picture = selection(points, numbers[str(found["wide"])], title=title)
                    picture.savefig(ROOT / "docs/images" / f"luck-{study.dataset}.png", dpi=150)
            for way, values in rows(contest, found, store):
                table.setdefault((contest.model, way), {})[contest.dataset] = shown(values)
            settings = found[BEST_OF_ALL]
            path = ROOT / "gread/presets/tuned" / f"{study_name('', contest.model)[1:]}.toml"
            path.parent.mkdir(exist_ok=True)
            text = preset(contest, settings, store, val)
            merge_preset(path, text, MODELS[contest.model].title)
            kept += map(_plain, finals(contest, BEST_OF_ALL, settings, store))
    write_results(ROOT / "results" / "settings.jsonl", kept)
    print(f"| | {' | '.join(LISTED)} |")
    for (model, way), row in table.items():
        print(f"| {model} {way} | " + " | ".join(row.get(d, "") for d in LISTED) + " |")


def _plain(result: Result) -> Result:
    """Without what was recorded for ensembles: the run of the preset, small enough to commit."""
    return replace(result, spec=replace(result.spec, record=()), records={})


LISTED = (*WEBKB, *sorted(LARGER), *OTHER_DATA)

if __name__ == "__main__":
    main(*sys.argv[1:])
