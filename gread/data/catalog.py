"""Registry of datasets, with titles, references and statistics.

Datasets are listed without PyTorch; the function of a dataset is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gread.base.lazy import Reference
from gread.base.registry import Registry
from gread.base.toml import read_toml
from gread.data.files import PYTHON_AST, data_root, parsed

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gread.data.statistics import Statistics


@dataclass(frozen=True)
class DatasetEntry:
    """Entry of a dataset in the registry.

    Attributes:
        make: Function that returns the graph; its keyword arguments are the options.
        title: Display name.
        citation: Reference to cite.
        licence: Licence of the data.
        note: Remarks for users.
        paper: Its row in the paper's dataset table, if it has one.
        size: Approximate numbers of nodes and edges, for stored datasets without such a row.
        files: Common prefix of the paths of its raw files below the data root, if it has any.
        stored: Path of its parsed form below the data root; empty if nothing is stored.
        large: Whether it is downloaded only if requested by name.
        directed: Whether its edges have directions (``load(name, directed=True)`` keeps them).
    """

    make: Callable[..., Data]
    title: str
    citation: str
    licence: str
    note: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)
    size: Mapping[str, int] = field(default_factory=dict)
    files: str = ""
    stored: str = ""
    large: bool = False
    directed: bool = False

    def statistics(
        self, root: str | Path | None = None, *, build: bool = True
    ) -> Statistics | None:
        """Counts of the graph, from the header of its cached file if there is one.

        Args:
            root: The data root.
            build: Whether to load a dataset that is not stored yet; otherwise the result is None.
        """
        from gread.data.cache import read_statistics
        from gread.data.statistics import measure

        if not self.stored:
            return measure(self.make())
        path = data_root(root) / self.stored
        found = read_statistics(path)
        if found is None and build:
            data = self.make(root=root)
            return read_statistics(path) or measure(data)  # the cache is not writable
        return found


DATASETS: Registry[DatasetEntry] = Registry("dataset")
"""Datasets by name; `gread.load` loads one."""
DESCRIBED: Mapping[str, Any] = read_toml("data", "datasets.toml") or {}


def dataset(
    name: str,
    make: Callable[..., Data],
    *,
    stored: str = "",
    large: bool = False,
    key: str | None = None,
    **words: str,
) -> None:
    """Register ``make`` as ``name``, with the entry ``key`` of ``datasets.toml``."""
    about = dict(DESCRIBED[key or name])
    about["title"] = about["title"].format(**words)
    DATASETS.add(name, DatasetEntry(make, stored=stored, large=large, **about))


LEVELS = tuple(f"{level:.2f}" for level in (*(tenth / 10 for tenth in range(10)), 0.99, 1.0))
"""Edge homophilies of the synthetic Cora graphs."""

for _name, _about in DESCRIBED.items():
    if "files" in _about:
        _make = partial(Reference("gread.data.real:benchmark"), _name, _about["files"], None)
        dataset(_name, _make, stored=parsed(_name))
for _level in LEVELS:
    dataset(
        f"syn-cora-h{_level}",
        partial(Reference("gread.data.real:syn_cora"), _level),
        stored=parsed(f"syn-cora-h{_level}-r1"),
        key="syn-cora",
        level=_level,
    )
for _name in ("ogbn-arxiv", "ogbn-products"):
    _make = partial(Reference("gread.data.ogb:ogbn"), _name)
    dataset(_name, _make, stored=parsed(_name), large=True)
for _labels in ("year", "subject"):
    _make = partial(Reference("gread.data.arxiv:arxiv"), _labels)
    dataset(f"arxiv-{_labels}", _make, stored=parsed(f"arxiv-{_labels}"))
dataset("csbm", Reference("gread.data.synthetic:csbm"))
dataset("grid", Reference("gread.data.synthetic:grid"))
dataset("attachment", partial(Reference("gread.data.generated:from_base"), DATASETS))
dataset("digits", Reference("gread.data.generated:digits"))
dataset("python-ast", Reference("gread.data.generated:python_ast"), stored=parsed(PYTHON_AST))
