"""Tables of what is registered, for the command line and the documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gread.base.registry import Registry
from gread.data.catalog import DATASETS
from gread.data.files import DataError
from gread.data.statistics import Statistics
from gread.dynamics.reactions import REACTIONS
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.models.catalog import MODELS

Row = dict[str, Any]
LISTINGS: Registry[Callable[[], list[Row]]] = Registry("list")


@LISTINGS.register("reactions")
def reactions() -> list[Row]:
    """The reaction terms r(H): the first lines of their docstrings."""
    rows = []
    for name, reaction in REACTIONS.items():
        equation, _, rest = (inspect.getdoc(reaction) or "").partition("\n")
        about = " ".join(rest.split()).partition(". ")[0]
        rows.append({"name": name, "equation": equation.rstrip("."), "about": about.rstrip(".")})
    return rows


@LISTINGS.register("solvers")
def solvers() -> list[Row]:
    """The solvers, their order, and what a step costs."""
    return [
        {
            "name": name,
            "title": solver.title,
            "order": solver.order,
            "evaluations a step": solver.stages if isinstance(solver, Tableau) else "adaptive",
        }
        for name, solver in SOLVERS.items()
    ]


@LISTINGS.register("models")
def models() -> list[Row]:
    """The models, and the hyperparameters each takes with their defaults."""
    return [
        {
            "name": name,
            "title": entry.title,
            "group": entry.group,
            "reference": entry.reference,
            "year": entry.year or "",
            "continuous": "yes" if entry.continuous else "no",
            "reaction": "yes" if entry.reaction else "no",
            "hyperparameters": entry.hyperparameters,
        }
        for name, entry in MODELS.items()
    ]


@LISTINGS.register("datasets")
def datasets() -> list[Row]:
    """The datasets; ``gread datasets`` shows their statistics."""
    return [
        {
            "name": name,
            "title": entry.title,
            "citation": entry.citation,
            "licence": entry.licence,
        }
        for name, entry in DATASETS.items()
    ]


@dataclass(frozen=True)
class DatasetRow:
    """A dataset in a table.

    Attributes:
        name: Of the dataset.
        title: What a person calls it.
        licence: Of the data.
        citation: Whom to cite.
        note: What to know before using it.
        statistics: Its counts; None where it is not on this machine.
        missing: Why it is not.
        paper: Its row in the paper's table; empty where it has none.
    """

    name: str
    title: str
    licence: str
    citation: str
    note: str
    statistics: Statistics | None
    missing: str
    paper: Mapping[str, float]

    @property
    def source(self) -> str:
        """Citation and licence in one line."""
        return f"{self.citation}. Licence: {self.licence}."

    def counts(self) -> list[str]:
        """Nodes, edges, edges with loops, features, classes, both homophilies, splits."""
        s = self.statistics
        if s is None:
            return ["–"] * 8
        homophilies = (s.node_homophily, s.edge_homophily)
        whole = (s.nodes, s.edges, s.edges_with_loops, s.features, s.classes)
        return [
            *("–" if count is None else str(count) for count in whole),
            *("–" if share is None else f"{share:.3f}" for share in homophilies),
            str(s.splits),
        ]

    def paper_counts(self) -> list[str]:
        """The same columns from the paper, ``≠`` where it is wrong about the data."""
        s = self.statistics
        with_loops = s is not None and self.paper["edges"] == s.edges_with_loops != s.edges
        ours: dict[str, float | None] = {}
        if s is not None:
            ours = {
                "nodes": s.nodes,
                "edges": s.edges_with_loops if with_loops else s.edges,
                "features": s.features,
                "classes": s.classes,
                "homophily": round(s.edge_homophily or 0, 2),
            }
        text = {
            column: f"{value} ≠" if ours.get(column, value) != value else str(value)
            for column, value in self.paper.items()
        }
        edges = ("", text["edges"]) if with_loops else (text["edges"], "")
        return [text["nodes"], *edges, text["features"], text["classes"], "", text["homophily"]]


def dataset_row(name: str, *, named: bool) -> DatasetRow:
    """The row of a dataset. One that is ``named`` is downloaded or fails; others may be missing."""
    entry = DATASETS[name]
    statistics, missing = None, ""
    try:
        statistics = entry.statistics(build=named or not entry.large)
        if statistics is None:
            missing = "large, downloaded when named: gread datasets NAME"
    except DataError as error:
        if named:
            raise
        missing = str(error)
    return DatasetRow(
        name=name,
        title=entry.title,
        licence=entry.licence,
        citation=entry.citation,
        note=entry.note,
        statistics=statistics,
        missing=missing,
        paper=entry.paper,
    )


def grouped(rows: list[DatasetRow], words: Callable[[DatasetRow], str]) -> dict[str, list[str]]:
    """Names by what is said of them, for a list that says each thing once."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if words(row):
            groups.setdefault(words(row), []).append(row.name)
    return groups
