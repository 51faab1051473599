"""Makes the files behind the honest comparison from the stores of `studies.search_honest`.

    python -m studies.report_honest STORE [STORE ...]

from the repository's root. Writes gread/runs/archives/honest.jsonl.xz (the runs of the tables),
studies/honest-trials.jsonl.xz (those of the search) and gread/experiments/honest.csv (numbers that
need the probabilities of all seeds: ensembles, and accuracies where the metric is another one).
Runs that were committed before stay.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

import gread
from gread.experiments.honest import (
    BUDGET,
    GRAPHS,
    NINE,
    ablation_specs,
    budget_of,
    runs_of_setting,
    selected,
)
from gread.runs.archive import ARCHIVES, ENDING, read_results, write_results
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.metrics import METRICS, Predictions
from studies.search_honest import TRIALS, with_record

ROOT = Path(__file__).parents[1]
RUNS = ARCHIVES / f"honest{ENDING}"
NUMBERS = ROOT / "gread/experiments/honest.csv"


def main(*folders: str) -> None:
    """All of it."""
    stored = {result.spec: result for folder in folders for result in ResultStore(folder)}
    shown = [*table_specs(), *ablation_specs()]
    finals = {
        spec: plain(stored[with_record(spec)]) for spec in shown if with_record(spec) in stored
    }
    finals |= {spec: stored[spec] for spec in shown if spec in stored}
    trials = {spec: result for spec, result in stored.items() if spec.seed == 0}
    for path, found in ((RUNS, finals), (TRIALS, trials)):
        before = {one.spec: one for one in read_results(path)} if path.exists() else {}
        write_results(path, sorted((before | found).values(), key=lambda one: one.spec.to_json()))
    rows = {
        (r["model"], r["dataset"], int(r["split"])): r for r in [*known_rows(), *rows_of(stored)]
    }
    with open(NUMBERS, "w", newline="") as file:
        writer = csv.DictWriter(file, ("model", "dataset", "split", "ensemble", "accuracy"))
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def table_specs() -> list[RunSpec]:
    """The runs of both tables."""
    return [
        spec
        for dataset in (*GRAPHS, *NINE)
        for model in BUDGET["models"]
        if (preset := selected(model, dataset)) is not None
        for spec in runs_of_setting(model, dataset, preset)
    ]


def plain(result: Result) -> Result:
    """As the run of a preset, small enough to commit."""
    return replace(result, spec=replace(result.spec, record=()), records={})


def known_rows() -> Iterator[dict[str, str]]:
    """Those that were written before."""
    if NUMBERS.exists():
        with open(NUMBERS, newline="") as file:
            yield from csv.DictReader(file)


def rows_of(stored: dict[RunSpec, Result]) -> Iterator[dict[str, str]]:
    """One for every model, graph and split whose seeds all have probabilities."""
    groups: dict[tuple[str, str, int], list[Result]] = {}
    for spec in table_specs():
        if (result := stored.get(with_record(spec))) is not None and result.records:
            groups.setdefault((spec.model, spec.dataset, spec.split), []).append(result)
    for (model, dataset, split), results in groups.items():
        if len(results) < len(budget_of(dataset).seeds):
            continue
        data = gread.load(dataset)
        test, metric = data.test_mask[:, split], BUDGET["metric"].get(dataset, "accuracy")
        each = [torch.tensor(r.records["probabilities"], dtype=torch.float64) for r in results]
        yield {
            "model": model,
            "dataset": dataset,
            "split": str(split),
            "ensemble": f"{score(metric, torch.stack(each).mean(0)[test], data.y[test]):.6f}",
            "accuracy": f"{fmean(score('accuracy', p[test], data.y[test]) for p in each):.6f}",
        }


def score(metric: str, probabilities: Tensor, y: Tensor) -> float:
    """The metric of probabilities, on all of these nodes."""
    everyone = torch.ones(1, len(y), dtype=torch.float64)
    predictions = Predictions(probabilities.clamp(min=1e-9).log(), y, everyone, everyone.sum(-1))
    return METRICS[metric].of(predictions).item()


if __name__ == "__main__":
    main(*sys.argv[1:])
