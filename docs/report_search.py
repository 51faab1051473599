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
    WEBKB,
    Cell,
    cells,
    published,
    runs,
    second_stage,
    selected,
    trials_in,
    with_ensembles,
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
    return f"{100 * fmean(values):.2f} ± {100 * pstdev(values):.2f}" if values else "–"


def finals(cell: Cell, settings: Mapping, store: ResultStore, **more) -> list[Result]:
    """The runs whose test accuracy is reported."""
    found = (store.get(spec) for spec in runs(cell, settings, cell.final, **more))
    return [result for result in found if result is not None]


def rows(cell: Cell, store: ResultStore, val: dict) -> Iterator[tuple[str, list[float]]]:
    """What each way to select gives on test, and the ensembles of the first."""
    for rule, settings in selected(cell, store, val).items():
        main = with_ensembles(cell, rule)
        results = finals(cell, settings, store, **({"record": ("ensemble",)} if main else {}))
        name = f"{cell.kind}: {rule}" if cell.kind not in ("", "lent") else rule
        yield name, [result.test or 0.0 for result in results]
        if main and results:
            both = (("three seeds", "at_the_end", True), ("time", "over_time", False))
            for over, record, seeds in both:
                yield f"{name}, ensemble over {over}", ensembles(cell, results, record, seeds=seeds)


def ensembles(cell: Cell, results: list[Result], kind: str, *, seeds: bool) -> list[float]:
    """Test accuracies of mean probabilities, over the seeds of a split or over time alone."""
    data = gread.load(cell.dataset)
    groups: dict[tuple[int, int], list[torch.Tensor]] = {}
    for result in results:
        if "ensemble" in result.records:
            key = result.spec.split, 0 if seeds else result.spec.seed
            groups.setdefault(key, []).append(torch.tensor(result.records["ensemble"][kind]))
    found = []
    for (split, _), probabilities in groups.items():
        classes = torch.stack(probabilities).mean(0).argmax(-1)
        right = (classes == data.y)[data.test_mask[:, split]]
        found.append(right.double().mean().item())
    return found


def preset(cell: Cell, settings: Mapping, source: str, store: ResultStore, val: dict) -> str:
    """The settings as a table of TOML, with where they come from."""
    trials = trials_in(cell, store)
    seen = [val[spec.key] or 0.0 for spec in runs(cell, settings, cell.seeds, cell.stage)]
    tests = [r.test or 0.0 for r in finals(cell, settings, store)]
    tests = tests or [r.test or 0.0 for r in finals(cell, settings, store, record=("ensemble",))]
    facts = [
        f"study {cell.study}: {cell.trials} trials, {cell.trials - len(trials)} of them pruned; "
        f"{source}",
        f"mean validation accuracy {100 * fmean(seen):.2f} over {len(seen)} runs of the second "
        f"stage; test accuracy {shown(tests)} over {len(tests)} others",
        "docs/reproducibility.md says how it was selected",
    ]
    lines = [f"[{cell.dataset}]", *(f"# {fact}" for fact in facts)]
    lines += [
        f"{name} = {json.dumps(value)}" for name, value in settings.items() if value is not None
    ]
    return "\n".join(lines) + "\n"


def main(folder: str) -> None:
    """Prints and writes everything."""
    store = ResultStore(folder)
    val, test = store.numbers("val"), store.numbers("test")
    table: dict[tuple[str, str], dict[str, str]] = {}
    kept: dict[tuple[str, str], list[Result]] = {}
    with open(ROOT / "results" / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["study", "trial", "runs", "validation", "test"])
        for cell in cells():
            trials = trials_in(cell, store)
            points = {}
            for trial in [] if cell.lent else trials:
                keys = [s.key for s in runs(cell, trial.settings, cell.drawn, cell.splits)]
                point = 100 * trial.mean, 100 * fmean(test[key] or 0.0 for key in keys)
                points[trial.number] = point
                numbers = f"{point[0]:.2f}", f"{point[1]:.2f}"
                writer.writerow([cell.study, trial.number, len(keys), *numbers])
            stage = [spec for specs in second_stage(cell, trials).values() for spec in specs]
            if not trials or store.missing(stage):
                print(f"{cell.study}: not finished")
                continue
            for name, values in rows(cell, store, val):
                table.setdefault((cell.model, name), {})[cell.dataset] = shown(values)
            if cell.kind not in ("", "refined", "lent"):
                continue
            chosen = selected(cell, store, val)
            *_, settings = chosen.values()
            taken = settings == published(cell) and settings != chosen["search"]
            source = "the published setting validates better" if taken else "found by it"
            if cell.lent:
                source = f"the best of {cell.best} for {cell.model}"
            elif cell.kind == "refined" and not taken and settings != chosen["search"]:
                source = "the first study's validates better"
            if cell.dataset in LISTED:
                path = ROOT / "gread/presets/tuned" / f"{study_name('', cell.model)[1:]}.toml"
                path.parent.mkdir(exist_ok=True)
                text = preset(cell, settings, source, store, val)
                merge_preset(path, text, MODELS[cell.model].title)
            found = [
                _plain(result)
                for record in ((), ("ensemble",))
                for result in finals(cell, settings, store, record=record)
            ]
            kept[cell.model, cell.dataset] = list({r.spec.key: r for r in found}.values())
            if cell.dataset in WEBKB and cell.model == "gread-bs" and not cell.kind:
                number = min(
                    trial.number for trial in trials if dict(trial.settings) == chosen["search"]
                )
                title = f"GREAD-BS on {cell.dataset.title()}: {len(points)} settings"
                picture = selection(points, number, title=title)
                picture.savefig(ROOT / "docs/images" / f"luck-{cell.dataset}.png", dpi=150)
    write_results(
        ROOT / "results" / "settings.jsonl", [r for results in kept.values() for r in results]
    )
    for (model, name), row in table.items():
        print(f"| {model} {name} | " + " | ".join(row.get(d, "") for d in LISTED + MORE) + " |")


def _plain(result: Result) -> Result:
    """Without what was recorded for ensembles: the run of the preset, small enough to commit."""
    return replace(result, spec=replace(result.spec, record=()), records={})


LISTED = (*WEBKB, "film", "squirrel", "chameleon", "cora", "citeseer", "pubmed")
MORE = ("cornell-fixed", "squirrel-filtered", "chameleon-filtered")

if __name__ == "__main__":
    main(*sys.argv[1:])
