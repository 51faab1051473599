"""Accuracies and rankings: Tables 2, 4, 7 and 8 of the paper, from the same runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean, pstdev

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import (
    Measured,
    accuracies,
    note_on_diverged,
    note_on_failed,
    note_on_fewer,
    title_of,
)
from gread.experiments.protocol import DATASETS, GREAD, PUBLISHED, SEVERAL_SEEDS, STUDIED, runs_of
from gread.models.catalog import MODELS
from gread.report.claims import Claim, listed
from gread.report.statistics import Standing, improves, standings
from gread.report.tables import Cell, TextTable, places
from gread.runs.result import Result
from gread.runs.spec import RunSpec

MAIN = (
    *("Geom-GCN", "H2GCN", "GGCN", "LINKX", "GloGNN", "ACM-GCN", "GCNII"),
    *("CGNN", "GRAND", "BLEND", "Sheaf", "GRAFF"),
)
"""The baselines of the paper's Table 4; Table 8 has all."""

PAPER_ROWS = PUBLISHED["paper"]
"""Mean and deviation by model and dataset, as the paper prints them."""

PAPER = {name: row for name, row in PAPER_ROWS.items() if name != "GRAND++"}
"""The rows of Table 8; GRAND++ is in Table 22."""

CODE = PUBLISHED["code"]
"""Mean by model and dataset, from the authors' published code, run again."""


ALL = tuple(name for name in PAPER if not name.startswith("GREAD"))
BASELINES = {MODELS[name].title: name for name in STUDIED if name not in GREAD}
"""Names of the baselines by title."""

ROWS = (*ALL, *(title for title in BASELINES if title not in PAPER))
"""The baselines of the paper's Table 8, then those that it does not have."""


def specs(baselines: Sequence[str] = ()) -> list[RunSpec]:
    """Runs of seven GREAD models and of ``baselines`` (titles), on nine datasets and ten splits.

    Baselines have one seed on every dataset, as in the papers that the paper takes them from.
    """
    others = [BASELINES[title] for title in baselines]
    return [
        spec
        for dataset in DATASETS
        for model in (*others, *GREAD)
        for spec in runs_of(model, dataset, seeds=(0,) if model in others else None)
    ]


TITLES = tuple(CATALOGUE[name].title for name in DATASETS)
"""Titles of the nine datasets."""

DIVERGED = "diverged"
"""Text of a cell if there are runs, but none has a number."""

Accuracies = Mapping[str, Mapping[str, Sequence[float]]]
"""Mean and deviation by title and dataset."""


def summary(results: Iterable[Result]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and deviation in percent over splits and seeds, by title and dataset.

    Datasets on which a run failed are omitted; the title is kept.
    """
    found: dict[str, dict[str, tuple[float, float]]] = {}
    grouped = accuracies(((title_of(r), r.spec.dataset), r) for r in results)
    for (title, dataset), values in grouped.items():
        own = found.setdefault(title, {})
        if values.whole:
            own[dataset] = fmean(values), pstdev(values)
    return found


def accuracy_table(title: str, baselines: Sequence[str], results: Sequence[Result]) -> TextTable:
    """Our numbers, the paper's and the difference; baselines without runs have the paper's."""
    ours = summary(results)
    found = accuracies(((title_of(r), r.spec.dataset), r) for r in results)
    names = [*baselines, *(MODELS[model].title for model in GREAD)]
    run_here = [n for n in names if n in ours or n.startswith("GREAD") or n not in PAPER]
    shown = {name: ours.get(name, {}) if name in run_here else PAPER[name] for name in names}
    best = {d: places([shown[n][d][0] if d in shown[n] else None for n in names]) for d in DATASETS}
    rows: list[list[str | Cell]] = []
    for place, name in enumerate(names):
        if name in run_here:
            texts = [name, *(measured(found.get((name, d))) for d in DATASETS)]
        else:
            texts = [f"{name} (paper)", *(number(shown[name].get(d)) for d in DATASETS)]
        cells = [Cell(text, best[d][place]) for d, text in zip(DATASETS, texts[1:], strict=True)]
        rows.append([texts[0], *cells, average(shown[name])])
        if name in run_here and name in PAPER:
            paper = PAPER[name]
            rows.append([*paper_row(paper), average(paper)])
            apart = [_difference(shown[name].get(d), paper[d]) for d in DATASETS]
            rows.append(["– difference", *apart, ""])
    note = "Test accuracy in percent, mean ± standard deviation over splits and seeds."
    note += f" Ours: {len(results)} runs.{note_on_diverged(results)}"
    note += note_on_failed(results) + note_on_fewer(found)
    if len(run_here) < len(names):
        note += " Rows marked (paper) are copied from the paper."
    return TextTable.of(title, ("model", *TITLES, "average"), rows, note, _best_in(shown, ours))


def _best_in(shown: Accuracies, ours: Accuracies) -> tuple[Claim, ...]:
    """Datasets on which another model is better than all of GREAD; a tie does not count."""
    ahead = {}
    counted = [d for d in DATASETS if d in ours.get("GREAD-BS", ())]
    for dataset in counted:
        means = {name: round(row[dataset][0], 2) for name, row in shown.items() if dataset in row}
        top = max(mean for name, mean in means.items() if name.startswith("GREAD"))
        best = [name for name, mean in means.items() if mean == max(means.values())]
        if means[best[0]] > top:
            ahead[dataset] = f"{CATALOGUE[dataset].title} ({listed(best)})"
    if not counted:
        return ()
    here = f"others are better on {listed(ahead.values())}"
    if any(name not in ours for name in shown):
        here += ", using the paper's numbers for models without runs here"
    says = "a GREAD model is the best in all datasets except for Squirrel and Citeseer"
    return (Claim(says, here, ahead.keys() <= {"squirrel", "citeseer"}),)


RIVALS = {"GloGNN": "∗", "ACM-GCN": "†"}
"""Marks of Table 2 by the model that is compared."""


def ranking_table(title: str, rows: int, results: Sequence[Result]) -> TextTable:
    """Average ranks and medals, from our runs or, for models without runs, the paper's numbers.

    A model with runs is never ranked by the paper's numbers. It is omitted if it has no number on
    some dataset. Datasets without any run are not compared.
    """
    ours = {name: row for name, row in summary(results).items() if name in PAPER}
    datasets = [d for d in DATASETS if any(d in row for row in ours.values())] or list(DATASETS)
    gaps = [name for name, row in ours.items() if not set(row) >= set(datasets)]
    rated = {name: row for name, row in (PAPER | ours).items() if name not in gaps}
    # Digits that are not printed are noise, and must not decide a rank.
    means = {name: {d: round(row[d][0], 2) for d in datasets} for name, row in rated.items()}
    if rated.keys() <= ours.keys():
        note = "All accuracies are ours. "
    else:
        note = f"Ours: {', '.join(name for name in ours if name not in gaps) or 'none yet'}; "
        note += "the others are the paper's numbers. "
    note += _marked(means)
    if len(datasets) < len(DATASETS):
        names = listed(CATALOGUE[name].title for name in datasets)
        note += f" Only {names} have runs and are compared."
    if gaps:
        note += f" Omitted because some of their cells have no number: {', '.join(gaps)}."
    ordered = standings(means)
    columns = ["model", "average rank", "– paper", "average accuracy", "– paper"]
    columns += ["gold", "silver", "bronze", "– paper"]
    ranked = [_ranked(s, s.model in ours, marks(means, s.model)) for s in ordered[:rows]]
    claims = _ranked_first(ours, datasets) if "GREAD-BS" in ours else ()
    return TextTable.of(title, columns, ranked, note, claims)


def rankings(ours: Accuracies, datasets: Sequence[str] = DATASETS) -> dict[str, list[Standing]]:
    """Rankings of GREAD with three versions of the baselines' numbers, to see their effect.

    Models without a number on some dataset are omitted.
    """
    gread = {name: row for name, row in ours.items() if name.startswith("GREAD")}
    own = {name: ours[name] for name in ALL if name in ours}
    paper = {name: PAPER[name] for name in ALL}
    best = {
        name: {d: max(row[d], own.get(name, row).get(d, row[d]), key=lambda n: n[0]) for d in row}
        for name, row in paper.items()
    }
    baselines = {
        "our runs of the baselines": own,
        "the paper's numbers of the baselines": paper,
        "the better of both numbers of every baseline": best,
    }
    found = {}
    for source, rows in baselines.items():
        means = {
            name: {d: round(row[d][0], 2) for d in datasets}
            for name, row in {**rows, **gread}.items()
            if all(d in row for d in datasets)
        }
        found[source] = standings(means) if means else []
    return found


def place_of(ordered: Sequence[Standing], model: str) -> int | None:
    """Place of a model by average rank, shared by equal ranks; None if it is not ranked."""
    ranks = {standing.model: standing.rank for standing in ordered}
    return 1 + sum(rank < ranks[model] for rank in ranks.values()) if model in ranks else None


def note_on_places(found: Mapping[str, Sequence[Standing]]) -> str:
    """The place of GREAD-BS in each ranking, and the models before it, as part of a sentence."""
    parts = []
    for source, ordered in found.items():
        place = place_of(ordered, "GREAD-BS")
        if place is None:
            continue
        rank = next(standing.rank for standing in ordered if standing.model == "GREAD-BS")
        part = f"with {source} it is in place {place} of {len(ordered)} (average rank {rank:.2f}"
        before = [f"{s.model} {s.rank:.2f}" for s in ordered if s.rank < rank]
        parts.append(part + (f", after {listed(before[:5])}" if 0 < len(before) <= 5 else "") + ")")
    return "; ".join(parts)


def _ranked_first(ours: Accuracies, datasets: Sequence[str]) -> tuple[Claim, ...]:
    """Claim on the top rank; it holds if GREAD-BS is first with every version of the baselines."""
    found = rankings(ours, datasets)
    places_found = [place_of(ordered, "GREAD-BS") for ordered in found.values()]
    if None in places_found:
        return ()
    says = "GREAD-BS is ranked at the top, with an average rank of 1.56"
    return (Claim(says, note_on_places(found), {*places_found} == {1}),)


def marks(means: Mapping[str, Mapping[str, float]], model: str) -> str:
    """Marks of the rivals that a GREAD model beats in Wilcoxon's test over the datasets."""
    if not model.startswith("GREAD"):
        return ""
    return "".join(
        mark
        for rival, mark in RIVALS.items()
        if rival in means and improves(means[model].values(), means[rival].values())
    )


def _marked(means: Mapping[str, Mapping[str, float]]) -> str:
    """Legend of the marks, and differences from the paper's marks."""
    note = "∗ and † mark a better accuracy than GloGNN and ACM-GCN with p < 0.05 in Wilcoxon's "
    note += "signed-rank test over the datasets."
    paper = PUBLISHED["wilcoxon"].items()
    printed = {name: "".join(RIVALS[rival] for rival in rivals) for name, rivals in paper}
    apart = [
        f"{name} {printed.get(name, '') or 'none'}"
        for name in means
        if name.startswith("GREAD") and marks(means, name) != printed.get(name, "")
    ]
    return note + (f" The paper has other marks: {', '.join(apart)}." if apart else "")


def _ranked(standing: Standing, ours: bool, marked: str) -> list[str]:
    name = standing.model if ours else f"{standing.model} (paper)"
    accuracy = f"{standing.accuracy:.2f}{marked}"
    rank, mean, *medals = PUBLISHED["ranking"][standing.model]
    texts = [name, f"{standing.rank:.2f}", f"{rank:.2f}", accuracy, f"{mean:.2f}"]
    return [*texts, *map(str, standing.medals), ", ".join(map(str, medals))]


def number(value: Sequence[float] | None) -> str:
    """Format mean and deviation, or only the mean if the paper prints no deviation."""
    return "missing" if value is None else " ± ".join(f"{part:.2f}" for part in value)


def measured(values: Measured | None) -> str:
    """Format mean and deviation of runs, or state that all diverged or that there are none."""
    if values is None:
        return number(None)
    if not values:
        return DIVERGED
    text = number((fmean(values), pstdev(values)))
    return f"{text} ({len(values)} of {len(values) + values.failed})" if values.failed else text


def paper_row(paper: Mapping[str, Sequence[float]], keys: Iterable[str] = DATASETS) -> list[str]:
    """Row of the paper's numbers, below a row of ours."""
    return ["– paper", *(number(paper[key]) for key in keys)]


def _difference(ours: Sequence[float] | None, paper: Sequence[float]) -> str:
    return "" if ours is None else signed(ours[0] - paper[0])


def signed(difference: float) -> str:
    """Format a difference with its sign."""
    return f"{difference:+.2f}".replace("-", "−")


def average(row: Mapping[str, Sequence[float]]) -> str:
    """Format the mean over all datasets; empty if a dataset has no number."""
    if any(dataset not in row for dataset in DATASETS):
        return ""
    return f"{fmean(row[dataset][0] for dataset in DATASETS):.2f}"


QUICK = Quick(without=tuple(dataset for dataset in DATASETS if dataset not in SEVERAL_SEEDS))
"""Only the three small graphs: all models on more graphs would take an hour."""

for _name, _rows, _render in (
    ("table-4", MAIN, partial(accuracy_table, "Table 4: accuracy", MAIN)),
    ("table-2", ALL, partial(ranking_table, "Table 2: ranking", 10)),
    ("table-7", ALL, partial(ranking_table, "Table 7: full ranking", 99)),
    ("table-8", ROWS, partial(accuracy_table, "Table 8: all accuracies", ROWS)),
):
    ARTEFACTS.add(_name, Artefact(partial(specs, _rows), _render, QUICK))
