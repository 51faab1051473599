"""Artefacts: a table or figure as two pure functions, which list its specs and render results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gread.base.registry import Registry
from gread.data.catalog import DATASETS
from gread.report.charts import Chart
from gread.report.tables import TextTable
from gread.runs.result import Result
from gread.runs.spec import RunSpec

LARGE = ("film", "squirrel", "citeseer", "pubmed")
"""The paper's graphs of more than 3000 nodes."""


@dataclass(frozen=True)
class Quick:
    """The part of an artefact that is run at quick scale.

    Attributes:
        runs: Number of runs per reported number; its runs differ in split, seed or random graph.
        epochs: Largest number of epochs.
        without: Datasets that are omitted.
    """

    runs: int = 1
    epochs: int = 30
    without: tuple[str, ...] = LARGE


@dataclass(frozen=True)
class Artefact:
    """A table or figure to regenerate.

    Attributes:
        specs: Function that returns the completed specs; `list` if there are none.
        render: Function that renders the results, of which some may be missing.
        quick: The part that is run at quick scale.
    """

    specs: Callable[[], Iterable[RunSpec]]
    render: Callable[[Sequence[Result]], TextTable | Chart]
    quick: Quick = Quick()


ARTEFACTS: Registry[Artefact] = Registry("artefact")


class Plan(NamedTuple):
    """The runs of an artefact at one scale, and a note about them."""

    specs: list[RunSpec]
    note: str = ""

    def stored(self, known: Mapping[str, Result]) -> list[Result]:
        """Results of the runs whose key is in ``known``."""
        return [known[spec.key] for spec in self.specs if spec.key in known]


SCALES: Registry[Callable[[Artefact], Plan]] = Registry("scale")


@SCALES.register("full")
def full(artefact: Artefact) -> Plan:
    """Plan of the paper's protocol."""
    return Plan(list(artefact.specs()))


@SCALES.register("quick")
def quick(artefact: Artefact) -> Plan:
    """Plan of fewer and shorter runs, which take minutes on a CPU."""
    rule = artefact.quick
    groups: dict[RunSpec, list[RunSpec]] = {}
    left_out: dict[str, None] = {}
    for spec in artefact.specs():
        if spec.dataset in rule.without:
            left_out[DATASETS[spec.dataset].title] = None
            continue
        epochs = min(rule.epochs, spec.train.epochs)
        short = replace(spec, train=replace(spec.train, epochs=epochs))
        groups.setdefault(_number_of(short), []).append(short)
    if not groups:
        return Plan([])
    note = f"Quick scale: {_count(rule.runs, 'run')} per number, at most {rule.epochs} epochs"
    note += f", without {', '.join(left_out)}." if left_out else "."
    return Plan([spec for group in groups.values() for spec in group[: rule.runs]], note)


def show(artefact: Artefact, plan: Plan, results: Sequence[Result]) -> TextTable | Chart:
    """Render the results of a plan, with its note before that of the artefact.

    A number is shown once all of its runs are stored, because a mean over fewer splits is not
    comparable. Claims are omitted if runs are missing or the plan is not the paper's.
    """
    shown = artefact.render(with_all_runs(plan, results))
    missing = len(plan.specs) - len(results)
    notes = [plan.note]
    if missing:
        notes.append(
            f"Not yet computed: {missing} of {_count(len(plan.specs), 'run')}. Numbers that need "
            "them are not shown."
        )
    claims = () if missing or plan.note else shown.claims
    return replace(shown, note=" ".join(filter(None, [*notes, shown.note])), claims=claims)


def with_all_runs(plan: Plan, results: Sequence[Result]) -> list[Result]:
    """Results of the numbers for which no run is missing."""
    there = {result.spec for result in results}
    waiting = {_number_of(spec) for spec in plan.specs if spec not in there}
    return [r for r in results if not waiting or _number_of(r.spec) not in waiting]


def _number_of(spec: RunSpec) -> RunSpec:
    """Common settings of the runs of one number: all except split, seed and random graph."""
    options = {key: value for key, value in spec.options.items() if key != "graph"}
    return replace(spec, split=0, seed=0, options=options)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
