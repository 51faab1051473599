"""Datasets as table rows: measured counts and those of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gread.data.catalog import DATASETS
from gread.data.files import DataError
from gread.data.statistics import Statistics


@dataclass(frozen=True)
class DatasetRow:
    """A dataset in a table.

    Attributes:
        name: Name of the dataset.
        title, licence, citation, note, paper: As in `gread.data.DatasetEntry`.
        statistics: Counts of the dataset; None if it is not on this machine.
        missing: Reason why there are no statistics; otherwise empty.
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
        """The same columns from the paper; ``≠`` marks values that differ from the data."""
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
    """Row of a dataset; if not ``named``, a large one is not downloaded and may lack counts."""
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
    about = entry.title, entry.licence, entry.citation, entry.note
    return DatasetRow(name, *about, statistics, missing, entry.paper)


def dataset_rows(
    names: Iterable[str] | None = None, on_row: Callable[[DatasetRow], None] | None = None
) -> list[DatasetRow]:
    """Describe datasets, which are downloaded if they are not on this machine.

    Args:
        names: Names of ``gread.DATASETS``; by default all. Then large datasets are not downloaded,
            and unavailable datasets have no counts.
        on_row: Function that is called with every row, for progress.

    Example:
        >>> from gread.data import dataset_rows
        >>> dataset_rows(["csbm"])[0].statistics.nodes
        100
    """
    chosen = list(DATASETS if names is None else names)
    for name in chosen:
        DATASETS[name]  # a misspelt name fails before any download
    rows = []
    for name in chosen:
        rows.append(dataset_row(name, named=names is not None))
        if on_row is not None:
            on_row(rows[-1])
    return rows
