"""Write the files of a comparison from the stores of `studies.search_settings`.

    python -m studies.report_settings COMPARISON STORE [STORE ...]

Run it in the repository's root. It writes gread/runs/archives/COMPARISON.jsonl.xz (the runs of the
tables) and studies/COMPARISON-trials.jsonl.xz (the runs of the search). If the final runs have
records, it also writes gread/experiments/COMPARISON.csv (numbers that need the probabilities of all
seeds: ensembles, and accuracies on graphs with another metric). Previously committed runs are kept.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

import gread
from gread.experiments.honest import ablation_specs
from gread.experiments.searched import Comparison
from gread.runs.archive import read_results, write_results
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.metrics import METRICS, Predictions
from studies.search_settings import finals_of, trials_of, with_record

ROOT = Path(__file__).parents[1]

FURTHER = {"honest": ablation_specs}
"""Functions that return the specs of further tables, by comparison."""


def main(name: str, *folders: str) -> None:
    """Write all files."""
    comparison = Comparison(name)
    stored = {result.spec: result for folder in folders for result in ResultStore(folder)}
    shown = [*comparison.specs(), *(FURTHER[name]() if name in FURTHER else ())]
    recorded = {spec: with_record(comparison, spec) for spec in shown}
    finals = {spec: plain(stored[of]) for spec, of in recorded.items() if of in stored}
    finals |= {spec: stored[spec] for spec in shown if spec in stored}
    trials = {spec: result for spec, result in stored.items() if spec.seed == 0}
    for path, found in ((finals_of(comparison), finals), (trials_of(comparison), trials)):
        before = {one.spec: one for one in read_results(path)} if path.exists() else {}
        write_results(path, sorted((before | found).values(), key=lambda one: one.spec.to_json()))
    if comparison.record:
        write_derived(comparison, ROOT / f"gread/experiments/{name}.csv", stored)


def write_derived(comparison: Comparison, path: Path, stored: Mapping[RunSpec, Result]) -> None:
    """Write numbers that need the probabilities of all seeds; previously written rows are kept."""
    before: list[dict[str, str]] = []
    if path.exists():
        with open(path, newline="") as file:
            before = list(csv.DictReader(file))
    found = [*before, *rows_of(comparison, stored)]
    rows = {(row["model"], row["dataset"], int(row["split"])): row for row in found}
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, ("model", "dataset", "split", "ensemble", "accuracy"))
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def plain(result: Result) -> Result:
    """Result as a run of a preset, small enough to commit."""
    return replace(result, spec=replace(result.spec, record=()), records={})


def rows_of(comparison: Comparison, stored: Mapping[RunSpec, Result]) -> Iterator[dict[str, str]]:
    """One row for every model, graph and split with probabilities of all seeds."""
    groups: dict[tuple[str, str, int], list[Result]] = {}
    for spec in comparison.specs():
        result = stored.get(with_record(comparison, spec))
        if result is not None and result.records:
            groups.setdefault((spec.model, spec.dataset, spec.split), []).append(result)
    for (model, dataset, split), results in groups.items():
        if len(results) < len(comparison.budget_of(dataset).seeds):
            continue
        data = gread.load(dataset)
        test, metric = data.test_mask[:, split], comparison.metric_of(dataset) or "accuracy"
        each = [torch.tensor(r.records["probabilities"], dtype=torch.float64) for r in results]
        yield {
            "model": model,
            "dataset": dataset,
            "split": str(split),
            "ensemble": f"{score(metric, torch.stack(each).mean(0)[test], data.y[test]):.6f}",
            "accuracy": f"{fmean(score('accuracy', p[test], data.y[test]) for p in each):.6f}",
        }


def score(metric: str, probabilities: Tensor, y: Tensor) -> float:
    """Metric of the probabilities over all given nodes."""
    everyone = torch.ones(1, len(y), dtype=torch.float64)
    predictions = Predictions(probabilities.clamp(min=1e-9).log(), y, everyone, everyone.sum(-1))
    return METRICS[metric].of(predictions).item()


if __name__ == "__main__":
    main(*sys.argv[1:])
