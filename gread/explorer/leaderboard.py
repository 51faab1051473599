"""Stored results and the paper's numbers, for a table and plots on the page."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, pstdev
from typing import Any

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import PAPER, ROWS, specs
from gread.experiments.protocol import DATASETS
from gread.models.catalog import MODELS
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.training.metrics import metric_name


def leaderboard(results: Iterable[Result]) -> dict[str, Any]:
    """Models by datasets, with our numbers (mean, deviation, runs) and the paper's, if available.

    Our numbers are from the runs of the paper's protocol. Without any, they are from one group of
    runs with equal settings: the group with the most runs and, among equals, the best mean
    validation accuracy. Test accuracies are not used for the selection. Runs with another metric
    than accuracy are left out, because their numbers are not comparable.
    """
    protocol = {spec.key for spec in specs(ROWS)}
    groups: dict[tuple[str, str], dict[str, list[Result]]] = {}
    for result in results:
        if result.test is not None and metric_name(result.spec.train) == "accuracy":
            settings = "" if result.spec.key in protocol else _settings(result.spec)
            title = MODELS[result.spec.model].title
            by_settings = groups.setdefault((title, result.spec.dataset), {})
            by_settings.setdefault(settings, []).append(result)
    cells: dict[str, dict[str, dict[str, Any]]] = {}
    for title, row in PAPER.items():
        for dataset, printed in row.items():
            _cell(cells, title, dataset)["paper"] = list(printed)
    for (title, dataset), by_settings in groups.items():
        chosen = by_settings.get("") or max(by_settings.values(), key=_standing)
        tests = [100 * result.test for result in chosen if result.test is not None]
        ours = round(fmean(tests), 4), round(pstdev(tests), 4), len(tests)
        _cell(cells, title, dataset)["ours"] = list(ours)
    known = {dataset for row in cells.values() for dataset in row}
    others = sorted(known - set(DATASETS))
    run_here = {title for title, _ in groups}
    family = {entry.title: entry.group for entry in MODELS.values()}
    return {
        "datasets": [
            {"name": name, "title": CATALOGUE[name].title} for name in (*DATASETS, *others)
        ],
        "rows": [
            {"model": title, "group": family.get(title, "others"), "cells": row}
            for title, row in sorted(cells.items(), key=lambda item: item[0] not in run_here)
        ],
        "note": "Ours: mean and standard deviation over splits and seeds. The runs are those of "
        "the paper’s protocol; otherwise the settings with the most runs, then with the best "
        "validation accuracy. Runs with another metric are left out. Models without runs here show "
        "the paper’s numbers and are marked.",
    }


def _cell(cells: dict[str, dict[str, dict[str, Any]]], title: str, dataset: str) -> dict[str, Any]:
    empty = {"ours": None, "paper": None}
    return cells.setdefault(title, {}).setdefault(dataset, empty)


def _settings(spec: RunSpec) -> str:
    """Fields of a spec except split, seed and records."""
    return f"{dict(spec.hyper)} {spec.train} {dict(spec.options)}"


def _standing(results: list[Result]) -> tuple[int, float]:
    return len(results), fmean(result.val or 0.0 for result in results)
