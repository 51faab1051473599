"""A larger search of GREAD-X and the tuned GCN, where GREAD-X misses an aim.

The section ``larger`` of ``protocol.toml`` has the budget. docs/gread-x.md explains it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import measured
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.curves import accuracies, means_of, note_on_failed, note_on_fewer
from gread.experiments.honest import HONEST, SMALLEST, against_reference, ensembles, heading, quick
from gread.experiments.searched import Comparison, by_model_and_graph
from gread.models.catalog import MODELS
from gread.report.claims import listed
from gread.report.tables import Cell, TextTable, places
from gread.runs.result import Result
from gread.runs.spec import RunSpec

LARGER = Comparison("larger")
SEARCHES = {"honest comparison": HONEST, "larger search": LARGER}


def specs() -> list[RunSpec]:
    """Final runs of both searches; equal settings share their runs."""
    found = (c.specs(LARGER.datasets, LARGER.models) for c in SEARCHES.values())
    return list(dict.fromkeys(spec for some in found for spec in some))


def render(results: Sequence[Result]) -> TextTable:
    """Test metrics of both models after both searches, and of the ensembles."""
    datasets = LARGER.datasets
    own = {word: comparison.apart(results)[0] for word, comparison in SEARCHES.items()}
    found = {word: accuracies(by_model_and_graph(some)) for word, some in own.items()}
    means = {(model, word): means_of(found[word]) for model in LARGER.models for word in SEARCHES}
    best = {d: places([of.get((m, d)) for (m, _), of in means.items()]) for d in datasets}
    rows: list[list[str | Cell]] = []
    for place, (model, word) in enumerate(means):
        cells = [Cell(measured(found[word].get((model, d))), best[d][place]) for d in datasets]
        rows.append([f"{MODELS[model].title}, {word}", *cells])
        texts, _ = ensembles(SEARCHES[word], model, datasets)
        if any(texts):
            rows.append(["– ensemble of the seeds", *texts])
    rows.extend(list[str | Cell](row) for row in against_reference(own["larger search"], datasets))
    shown = [result for some in own.values() for result in some]
    return TextTable.of(
        "GREAD-X and the tuned GCN: a larger search",
        ("model and search", *map(heading, datasets)),
        rows,
        "Test metric in percent, mean ± standard deviation over ten splits and "
        f"{len(LARGER.budget_of(datasets[0]).seeds)} seeds that the search has not used. The last "
        f"rows compare the models after the larger search. {_budgets()} Selected by the same "
        "metric on validation. The graphs are those where GREAD-X misses an aim, so they were "
        f"chosen by test metrics.{note_on_failed(shown)}{note_on_fewer(found['larger search'])}",
    )


def _budgets() -> str:
    """Number of runs of both searches, by graph."""
    counts = (
        " and ".join(str(c.budget_of(d).runs(c.splits_of(d))) for c in SEARCHES.values())
        + f" on {CATALOGUE[d].title}"
        for d in LARGER.datasets
    )
    return f"Runs of the two searches of each model: {listed(counts)}."


ARTEFACTS.add("honest-larger", Artefact(specs, render, quick((SMALLEST,))))
