"""Ablations of soft adjacency and vector β: Tables 5, 6, 20 and 21."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import measured, paper_row
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import accuracies, means_of, note_on_failed, note_on_fewer, title_of
from gread.experiments.protocol import DATASETS, GREAD, PUBLISHED, preset_of, runs_of
from gread.models.catalog import MODELS
from gread.report.claims import Claim, listed
from gread.report.tables import Cell, TextTable, better
from gread.runs.result import Result
from gread.runs.spec import RunSpec


@dataclass(frozen=True)
class Ablation:
    """A hyperparameter of GREAD, and the paper's names of its two values."""

    name: str
    values: dict[str, str]


@dataclass(frozen=True)
class PaperClaim:
    """Claim of the paper about the second value compared with the first.

    Attributes:
        text: Wording of the claim, as it follows "that".
        share: Share of pairs in which the second value must be better for the claim to hold.
        without: Datasets that the claim excludes.
    """

    text: str
    share: float
    without: tuple[str, ...] = ()


ADJACENCY = Ablation("adjacency", {"original": "OA", "soft": "SA"})
BETA = Ablation("beta", {"scalar": "SC", "vector": "VC"})


def specs(ablation: Ablation, datasets: Sequence[str]) -> list[RunSpec]:
    """Runs of every reaction with each value; the other settings are those of its preset."""
    return [
        spec
        for dataset in datasets
        for model in GREAD
        for value in ablation.values
        for spec in runs_of(
            model, dataset, change={ablation.name: _form(ablation, value, model, dataset)}
        )
    ]


def _form(ablation: Ablation, value: str, model: str, dataset: str) -> str:
    """Value, in the variant of the preset if there is one: a positive vector is a vector."""
    own = str(preset_of(model, dataset).hyper.get(ablation.name))
    return own if own.endswith(f"-{value}") else value


def render(
    title: str,
    ablation: Ablation,
    claim: PaperClaim | None,
    datasets: Sequence[str],
    results: Sequence[Result],
) -> TextTable:
    """Table of the accuracies with both values, the better one bold, and the paper's numbers."""
    ours = accuracies(((r.spec.dataset, _value(ablation, r.spec), title_of(r)), r) for r in results)
    known = means_of(ours)
    titles = [MODELS[model].title for model in GREAD]
    rows: list[tuple[str | Cell, ...]] = []
    ahead, level, pairs = 0, 0, 0
    for dataset in datasets:
        means = {
            value: [known.get((dataset, value, name)) for name in titles]
            for value in ablation.values
        }
        both = [pair for pair in zip(*means.values(), strict=True) if None not in pair]
        if claim is not None and dataset in claim.without:
            both = []
        ahead += sum(second > first for first, second in both)
        level += sum(second == first for first, second in both)
        pairs += len(both)
        best = [better(pair) for pair in zip(*means.values(), strict=True)]
        for row, (value, short) in enumerate(ablation.values.items()):
            cells = (
                Cell(measured(ours.get((dataset, value, name))), places[row])
                for name, places in zip(titles, best, strict=True)
            )
            rows.append((CATALOGUE[dataset].title, short, *cells))
            if dataset in PUBLISHED[ablation.name]:
                rows.append(("", *paper_row(PUBLISHED[ablation.name][dataset][value], titles)))
    first, second = ablation.values.values()
    note = (
        "Test accuracy in percent, mean ± standard deviation over splits and seeds; bold: better."
    )
    note += note_on_failed(results) + note_on_fewer(ours)
    here = f"{second} is better than {first} in {ahead} of {pairs} pairs"
    here += f" and equal in {level}" if level else ""
    claims = []
    if claim is not None and pairs:
        if claim.without:
            here += f", without {listed(CATALOGUE[name].title for name in claim.without)}"
        claims.append(Claim(claim.text, here, ahead >= claim.share * pairs))
    elif pairs:
        note += f" {here}."
    return TextTable.of(title, ("dataset", ablation.name, *titles), rows, note, claims)


def _value(ablation: Ablation, spec: RunSpec) -> str:
    form = str(spec.hyper[ablation.name])
    return next(v for v in ablation.values if form == v or form.endswith(f"-{v}"))


INCREASES = PaperClaim("SA increases the accuracy in Cornell and Film", 0.9)
ALL_BUT_TWO = PaperClaim(
    "SA outperforms OA in all the datasets except for Texas and Wisconsin",
    0.9,
    ("texas", "wisconsin"),
)
MOST = PaperClaim("VC is effective in most cases", 0.5)
ALMOST_ALL = PaperClaim("VC is better in almost all cases", 0.8)

_all = set(DATASETS)
for _name, _ablation, _claim, _title, _datasets in (
    ("table-5", ADJACENCY, INCREASES, "Table 5: soft adjacency", {"cornell", "film"}),
    ("table-20", ADJACENCY, ALL_BUT_TWO, "Table 20: soft adjacency", _all - {"cornell", "film"}),
    ("table-6", BETA, MOST, "Table 6: scalar and vector β", {"texas", "wisconsin"}),
    ("table-21", BETA, ALMOST_ALL, "Table 21: scalar and vector β", _all - {"texas", "wisconsin"}),
):
    _ordered = [dataset for dataset in DATASETS if dataset in _datasets]
    _specs = partial(specs, _ablation, _ordered)
    _render = partial(render, _title, _ablation, _claim, _ordered)
    ARTEFACTS.add(_name, Artefact(_specs, _render, Quick(epochs=10)))
