"""Measure the gain in validation from the second half of a search.

    python -m studies.measure_budget COMPARISON

Run it in the repository's root. It reads the committed trials of a comparison. For every model, it
prints the mean over graphs of two differences, in points of the validation metric on the splits
that compare all settings: the best of all settings minus the best of the random ones, and the best
minus the median. A large first number suggests that the model would gain from a larger budget.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from statistics import fmean, median

from gread.experiments.searched import Comparison
from gread.models.catalog import MODELS
from gread.runs.archive import read_results
from gread.search.study import import_optuna
from studies.search_settings import Cell, draw, trials_of


def gains(cell: Cell, known: Mapping[str, float | None]) -> tuple[float, float] | None:
    """Gain of the settings near the best, and of the best over the median; None without trials."""
    wide = cell.with_near(known)
    splits = cell.budget.search
    if any(spec.key not in known for spec in wide.wide()):
        return None
    means = [100 * wide.mean(one, splits, known) for one in wide.settings]
    return max(means) - max(means[: len(cell.settings)]), max(means) - median(means)


def table(comparison: Comparison) -> list[str]:
    """Lines of the table, the largest gain first."""
    trials = list(read_results(trials_of(comparison)))
    known = {result.spec.key: result.val for result in trials}
    searched = {result.spec.dataset for result in trials}
    rows: dict[str, tuple[float, float]] = {}
    for model in comparison.models:
        cells = [Cell(comparison, model, d, draw(comparison, model, d)) for d in sorted(searched)]
        found = [pair for cell in cells if (pair := gains(cell, known)) is not None]
        if found:
            near, spread = zip(*found, strict=True)
            rows[MODELS[model].title] = fmean(near), fmean(spread)
    if not rows:
        return ["no model has all of its trials"]
    rows["median"] = median(a for a, _ in rows.values()), median(b for _, b in rows.values())
    lines = ["| model | second half | best minus median |", "| --- | ---: | ---: |"]
    order = sorted(rows, key=lambda title: -rows[title][0])
    return [*lines, *(f"| {t} | {rows[t][0]:.2f} | {rows[t][1]:.2f} |" for t in order)]


if __name__ == "__main__":
    import_optuna().logging.set_verbosity(30)
    print("\n".join(table(Comparison(sys.argv[1]))))
