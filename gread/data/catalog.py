"""What is known of a dataset besides its graph, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch_geometric.data import Data

from gread.base.registry import Registry
from gread.base.toml import read_toml
from gread.data.cache import read_statistics
from gread.data.files import data_root
from gread.data.statistics import Statistics, measure


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset by name.

    Attributes:
        make: Gives the graph; its keyword arguments are the dataset's options.
        title: What a person calls it.
        citation: Whom to cite.
        licence: Of the data.
        note: What to know before using it.
        paper: Its row in the paper's dataset table, where it has one.
        size: About how many nodes and edges it has, where it has no such row and is stored.
        stored: Where its parsed form lies below the data root; empty where nothing is stored.
        large: Whether it is downloaded only when asked for by name.
    """

    make: Callable[..., Data]
    title: str
    citation: str
    licence: str
    note: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)
    size: Mapping[str, int] = field(default_factory=dict)
    stored: str = ""
    large: bool = False

    def statistics(
        self, root: str | Path | None = None, *, build: bool = True
    ) -> Statistics | None:
        """Its counts, from the header of the stored form where there is one.

        Args:
            root: The data root.
            build: Whether to load the dataset where it is not stored yet; else None is given.
        """
        if not self.stored:
            return measure(self.make())
        path = data_root(root) / self.stored
        found = read_statistics(path)
        if found is None and build:
            data = self.make(root=root)
            return read_statistics(path) or measure(data)  # where nothing can be stored
        return found


DATASETS: Registry[DatasetEntry] = Registry(
    "dataset", modules=("gread.data.real", "gread.data.ogb", "gread.data.generated")
)


def dataset(
    name: str,
    make: Callable[..., Data],
    *,
    stored: str = "",
    large: bool = False,
    key: str | None = None,
    **words: str,
) -> None:
    """Enters ``make`` as ``name``, with what ``datasets.toml`` says under ``key`` or the name."""
    described = read_toml("data", "datasets.toml")
    assert described is not None
    about = dict(described[key or name])
    about["title"] = about["title"].format(**words)
    DATASETS.add(name, DatasetEntry(make, stored=stored, large=large, **about))
