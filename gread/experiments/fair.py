"""The fair comparison: Table 8 repeated with one search budget for every model.

The section ``fair`` of ``protocol.toml`` has the budget. docs/baselines.md explains the protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments import accuracy
from gread.experiments.accuracy import measured, note_on_places, summary
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.curves import (
    NO_MEMORY,
    Measured,
    accuracies,
    means_of,
    note_on_diverged,
    note_on_failed,
    note_on_fewer,
)
from gread.experiments.searched import Comparison, average, average_ranks, by_model_and_graph
from gread.models.catalog import MODELS
from gread.report.charts import COLOURS, Axis, Chart, Panel, Series
from gread.report.statistics import (
    Standing,
    cliques,
    critical_difference,
    friedman,
    holm,
    paired_t_test,
    signed_rank_test,
    standings,
)
from gread.report.tables import Cell, TextTable, places
from gread.runs.result import Result
from gread.runs.spec import RunSpec

FAIR = Comparison("fair")
REFERENCE = "gread-bs"
LEVEL = 0.05


def specs() -> list[RunSpec]:
    """Final runs of the comparison, and those of Table 7, whose ranking is quoted."""
    return [*FAIR.specs(), *accuracy.specs(accuracy.ALL)]


def render(results: Sequence[Result]) -> TextTable:
    """Accuracies, ranks, tests against GREAD-BS and the budget, the best rank first."""
    own, repeated = FAIR.apart(results)
    found = accuracies(by_model_and_graph(own))
    means, datasets = means_of(found), FAIR.datasets
    ranks = average_ranks(means, FAIR.models, computed(means))
    order = [*ranks, *(model for model in FAIR.models if model not in ranks)]
    best = {d: places([means.get((m, d)) for m in order]) for d in datasets}
    too_large = _without_memory(own)
    overall, by_graph = compared_over_graphs(means), compared_by_graph(own)
    rows: list[list[str | Cell]] = []
    for place, model in enumerate(order):
        texts = [
            NO_MEMORY if (model, d) in too_large else measured(found.get((model, d)))
            for d in datasets
        ]
        cells = [Cell(text, best[d][place]) for text, d in zip(texts, datasets, strict=True)]
        rows.append(
            [
                MODELS[model].title,
                *cells,
                average(means.get((model, d)) for d in datasets),
                f"{ranks[model]:.2f}" if model in ranks else "",
                f"{overall[model]:.3f}" if model in overall else "",
                _counts(by_graph, model),
                _budget(),
            ]
        )
    columns = (
        "model",
        *(CATALOGUE[d].title for d in datasets),
        "average",
        "average rank",
        "p over graphs",
        "better, worse",
        "budget of the search",
    )
    return TextTable.of(
        "Equal budgets: accuracy", columns, rows, _note(own, repeated, found, ranks)
    )


def computed(means: Mapping[tuple[str, str], float]) -> list[str]:
    """Graphs on which most models have a number: ranks are over these."""
    counts = Counter(dataset for _, dataset in means)
    most = len({model for model, _ in means}) / 2
    return [dataset for dataset in FAIR.datasets if counts[dataset] > most]


def _without_memory(results: Sequence[Result]) -> set[tuple[str, str]]:
    """Cells in which every run is out of memory."""
    fits: dict[tuple[str, str], bool] = {}
    for key, result in by_model_and_graph(results):
        fits[key] = fits.get(key, False) or not result.message.startswith(NO_MEMORY)
    return {key for key, some in fits.items() if not some}


def _budget() -> str:
    """Settings and runs of the search of every model on all graphs."""
    budgets = {d: FAIR.budget_of(d) for d in FAIR.datasets}
    settings = sum(budget.settings for budget in budgets.values())
    runs = sum(budget.runs(FAIR.splits_of(d)) for d, budget in budgets.items())
    return f"{settings} settings, {runs} runs"


def compared_over_graphs(means: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """p-value of every complete model against GREAD-BS: Wilcoxon's test over graphs, with Holm."""
    datasets = computed(means)
    whole = [m for m in FAIR.models if all((m, d) in means for d in datasets)]
    if REFERENCE not in whole or not datasets:
        return {}
    others = [model for model in whole if model != REFERENCE]
    rows = {model: [means[model, d] for d in datasets] for model in whole}
    chances = [signed_rank_test(rows[model], rows[REFERENCE]) for model in others]
    return dict(zip(others, holm(chances), strict=True))


def compared_by_graph(results: Sequence[Result]) -> dict[tuple[str, str], tuple[float, float]]:
    """Difference from GREAD-BS and p-value by model and graph: paired t-test over splits.

    Holm's correction is for all models and graphs together.
    """
    keyed = (((r.spec.model, r.spec.dataset, r.spec.split), r) for r in results)
    means = {key: fmean(values) for key, values in accuracies(keyed).items() if values.whole}
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (model, dataset, split), mean in means.items():
        if model != REFERENCE and (REFERENCE, dataset, split) in means:
            pair = mean, means[REFERENCE, dataset, split]
            pairs.setdefault((model, dataset), []).append(pair)
    tests = {
        key: paired_t_test(*zip(*of, strict=True))
        for key, of in pairs.items()
        if len(of) == FAIR.splits_of(key[1])
    }
    chances = holm([p for _, p in tests.values()])
    return {key: (tests[key][0], p) for key, p in zip(tests, chances, strict=True)}


def _counts(tests: Mapping[tuple[str, str], tuple[float, float]], model: str) -> str:
    """Number of graphs on which a model is significantly better and worse than GREAD-BS."""
    clear = [apart for (name, _), (apart, p) in tests.items() if name == model and p < LEVEL]
    if not any(name == model for name, _ in tests):
        return ""
    return f"{sum(apart > 0 for apart in clear)}, {sum(apart < 0 for apart in clear)}"


def _note(
    own: Sequence[Result],
    repeated: Sequence[Result],
    found: Mapping[tuple[str, str], Measured],
    ranks: Mapping[str, float],
) -> str:
    small, larger = (FAIR.budget_of(d) for d in ("texas", "cora"))
    title = MODELS[REFERENCE].title
    note = (
        "Test accuracy in percent, mean ± standard deviation over ten splits, with "
        f"{len(small.seeds)} seeds on Texas, Wisconsin and Cornell and {len(larger.seeds)} "
        "elsewhere; the search has not used these seeds. Budget of every model on every graph: "
        f"{small.draws} random settings and {small.draws} near the best, selected by validation. "
        f"p over graphs: Wilcoxon's signed-rank test against {title}, with Holm's correction. "
        f"Better, worse: the number of graphs with a significant difference from {title} (paired "
        f"t-test over splits, p < {LEVEL} after Holm's correction over all models and graphs)."
    )
    cells = [(m, d) for m in FAIR.models for d in FAIR.datasets]
    absent = sum(cell not in found for cell in cells)
    if absent:
        note += (
            f" {absent} of {len(cells)} cells are missing: they are not computed yet. Ranks are "
            "over the graphs on which most models have a number, of models that have all of these."
        )
    if own:
        note += note_on_diverged(own) + note_on_failed(own) + note_on_fewer(found)
    return note + _places(summary(repeated), ranks)


def _places(ours: accuracy.Accuracies, ranks: Mapping[str, float]) -> str:
    """Places of GREAD-BS here and in Table 7, the latter with each version of the baselines."""
    found: dict[str, list[Standing]] = {}
    if ranks:
        ordered = [Standing(MODELS[m].title, rank, 0.0, (0, 0, 0)) for m, rank in ranks.items()]
        found["equal budgets"] = ordered
    if "GREAD-BS" in ours:
        known = accuracy.rankings(ours)
        found |= {f"the settings of Table 7 and {source}": of for source, of in known.items()}
    places = note_on_places(found)
    return f" Places of {MODELS[REFERENCE].title}: {places}." if places else ""


def draw(results: Sequence[Result]) -> Chart:
    """Critical-difference diagrams of both protocols."""
    own, repeated = FAIR.apart(results)
    fair = means_of(accuracies(((MODELS[r.spec.model].title, r.spec.dataset), r) for r in own))
    table = {
        (name, dataset): round(values[0], 2)
        for name, row in summary(repeated).items()
        for dataset, values in row.items()
    }
    shown = {"Equal budgets": _ranked(fair), "Settings of Table 7": _ranked(table)}
    note = (
        "Average rank over the graphs, from accuracies as they are printed; lower is better. "
        "The line to the right of a model ends at the last one whose rank is not significantly "
        f"different (Nemenyi's test, p < {LEVEL})."
    )
    for title, means in shown.items():
        note += f" {title}: {_friedman(means)}"
    panels = tuple(_diagram(title, means) for title, means in shown.items())
    return Chart("Ranks and critical differences", panels, columns=1, note=note)


def _ranked(means: Mapping[tuple[str, str], float]) -> dict[str, dict[str, float]]:
    """Model to graph to mean, of the models that have a number on every computed graph."""
    datasets = computed(means)
    names = dict.fromkeys(name for name, _ in means)
    return {
        name: {d: means[name, d] for d in datasets}
        for name in names
        if all((name, d) in means for d in datasets)
    }


def _friedman(means: Mapping[str, Mapping[str, float]]) -> str:
    test = friedman(means) if means else None
    if test is None:
        return "no ranks yet."
    graphs = len(next(iter(means.values())))
    apart = critical_difference(len(means), graphs, LEVEL)
    chance = "p < 0.001" if test[1] < 0.001 else f"p = {test[1]:.3f}"
    return (
        f"{len(means)} models on {graphs} graphs, critical difference {apart:.2f}, "
        f"Friedman's χ² = {test[0]:.1f}, {chance}."
    )


def _diagram(title: str, means: Mapping[str, Mapping[str, float]]) -> Panel:
    """Average ranks as points, in order, and groups without a significant difference as lines."""
    ordered = standings(means) if len(means) > 1 else []
    ranks = [standing.rank for standing in ordered]
    graphs = len(next(iter(means.values()), ()))
    apart = critical_difference(len(ranks), graphs, LEVEL) if ranks else 0.0
    series = []
    for label, ours, colour in (("GREAD", True, COLOURS[0]), ("others", False, COLOURS[1])):
        own = [k for k, s in enumerate(ordered) if s.model.startswith("GREAD") == ours]
        x, y = tuple(map(float, own)), tuple(ranks[k] for k in own)
        if own:
            series.append(Series(label, x, y, mark="points", colour=colour))
    for first, last in cliques(ranks, apart):
        ends, level = (float(first), float(last)), (ranks[first], ranks[first])
        label = "no significant difference"
        series.append(Series(label, ends, level, colour=COLOURS[6], width=0.8))
    ticks = tuple((float(k), standing.model) for k, standing in enumerate(ordered))
    return Panel.of(title, series, Axis(ticks=ticks), Axis("average rank"))


for _name, _render in (("fair", render), ("fair-ranks", draw)):
    ARTEFACTS.add(_name, Artefact(specs, _render, accuracy.QUICK))
