"""Significance of the difference between GREAD-BS and GRAND: Table 24."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gread.data.catalog import DATASETS as CATALOGUE
from gread.experiments.accuracy import TITLES, measured, paper_row
from gread.experiments.artefact import ARTEFACTS, Artefact, Quick
from gread.experiments.curves import accuracies, note_on_failed, title_of
from gread.experiments.protocol import DATASETS, PROTOCOL, PUBLISHED, runs_on
from gread.models.catalog import MODELS
from gread.report.claims import Claim, listed
from gread.report.statistics import unpaired_t_test
from gread.report.tables import TextTable
from gread.runs.result import Result

PAIR = ("grand", "gread-bs")


def render(results: Sequence[Result]) -> TextTable:
    """Means, and the unpaired t-test between them."""
    found = accuracies(((title_of(r), r.spec.dataset), r) for r in results)
    paper = PUBLISHED["significance"]
    titles = [MODELS[model].title for model in PAIR]
    rows = []
    for title in titles:
        rows.append([title, *(measured(found.get((title, d))) for d in DATASETS)])
        rows.append(paper_row(paper[title]))
    tests = [
        unpaired_t_test(found.get((titles[1], d), ()), found.get((titles[0], d), ()))
        for d in DATASETS
    ]
    statistics = ("" if test is None else f"{test[0]:.2f}".replace("-", "−") for test in tests)
    rows.append(["t-statistic", *statistics])
    rows.append(["– paper", *(f"{paper['t-statistic'][d][0]:.2f}" for d in DATASETS)])
    rows.append(["p-value", *("" if test is None else _chance(test[1]) for test in tests)])
    rows.append(["– paper", *["< 0.05"] * len(DATASETS)])
    return TextTable.of(
        "Table 24: GRAND and GREAD-BS, unpaired t-test",
        ("model", *TITLES),
        rows,
        "Test accuracy in percent, mean ± standard deviation over splits and seeds. The hundred "
        "runs on ten splits are not independent, so p-values look more certain than they are. "
        "Without a published setting, GRAND uses one selected by validation."
        + note_on_failed(results),
        _improves(dict(zip(DATASETS, tests, strict=True))),
    )


def _improves(tests: Mapping[str, tuple[float, float] | None]) -> tuple[Claim, ...]:
    known = {name: test for name, test in tests.items() if test is not None}
    if not known:
        return ()
    clear = [name for name, (statistic, p) in known.items() if statistic > 0 and p < 0.05]
    others = [CATALOGUE[name].title for name in known if name not in clear]
    here = f"it is better with p < 0.05 on {len(clear)} of {len(known)}"
    here += f", not on {listed(others)}" if others else ""
    return (Claim("GREAD-BS clearly improves on GRAND in all datasets", here, not others),)


def _chance(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


# Ten splits with ten seeds each.
_specs = partial(runs_on, DATASETS, PAIR, seeds=range(PROTOCOL["significance"]["seeds"]))
# Few epochs: GRAND on Chameleon computes attention 208 times per forward pass, seconds per epoch.
ARTEFACTS.add("table-24", Artefact(_specs, render, Quick(runs=3, epochs=5)))
