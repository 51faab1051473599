"""Benchmark graphs, parsed from verified files by PyG's own dataset classes."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import (
    Actor,
    HeterophilousGraphDataset,
    Planetoid,
    WebKB,
    WikipediaNetwork,
)
from torch_geometric.transforms import (
    AddRemainingSelfLoops,
    Compose,
    LargestConnectedComponents,
    NormalizeFeatures,
    RemoveDuplicatedEdges,
    RemoveSelfLoops,
    ToUndirected,
)

from gread.base.errors import InputError
from gread.data.cache import cached
from gread.data.files import data_root, parsed, stage
from gread.data.splits import with_random_splits
from gread.data.statistics import Statistics, measure

Transform = Callable[[Data], Data]

undirected: Transform = Compose([ToUndirected(), RemoveSelfLoops()])
"""Every edge in both directions once, no self loops."""

undirected_with_loops: Transform = Compose(
    [undirected, AddRemainingSelfLoops(), RemoveDuplicatedEdges()]
)
"""The same, and a self loop at every node: how the paper's code treats Chameleon and Squirrel."""


@dataclass(frozen=True)
class Benchmark:
    """A dataset made of raw files.

    Calling it loads the graph: from its parsed form, or else from the files, downloaded if need be.

    Attributes:
        name: The dataset's name.
        prefix: How the paths of its raw files begin.
        parse: Reads the graph from a folder with those files.
        clean: What happens to the graph before it is stored.
    """

    name: str
    prefix: str
    parse: Callable[[Path], Data]
    clean: Transform = undirected

    @property
    def stored(self) -> str:
        """Where the parsed form lies below the data root."""
        return parsed(self.name)

    def __call__(
        self,
        root: str | Path | None = None,
        *,
        normalize_features: bool = False,
        largest_component: bool = False,
    ) -> Data:
        """The graph with its splits as masks [N, splits].

        Args:
            root: The data root; by default ``GREAD_DATA`` or the platform's cache folder.
            normalize_features: Whether every row of features is divided by its sum.
            largest_component: Whether nodes outside the largest component are dropped.
        """
        place = data_root(root)
        data = cached(place / self.stored, partial(self._build, place))
        if largest_component:
            data = LargestConnectedComponents()(data)
        return NormalizeFeatures()(data) if normalize_features else data

    def _build(self, root: Path) -> tuple[Data, Statistics]:
        with tempfile.TemporaryDirectory() as folder:
            stage(self.prefix, root, Path(folder))
            with contextlib.redirect_stderr(io.StringIO()):  # PyG says that it is processing
                data = self.parse(Path(folder))
        for mask in ("train_mask", "val_mask", "test_mask"):
            data[mask] = data[mask].bool()
        return self.clean(data.clone()), measure(data)


def _planetoid(name: str, folder: Path) -> Data:
    return Planetoid(str(folder / "Planetoid"), name, split="geom-gcn")[0]


def _webkb(release: str, name: str, folder: Path) -> Data:
    return WebKB(str(folder / release), name)[0]


def _wikipedia(name: str, folder: Path) -> Data:
    return WikipediaNetwork(str(folder / "WikipediaNetwork"), name, geom_gcn_preprocess=True)[0]


def _actor(folder: Path) -> Data:
    return Actor(str(folder / "Actor"))[0]


def _heterophilous(name: str, folder: Path) -> Data:
    return HeterophilousGraphDataset(str(folder / "HeterophilousGraphDataset"), name)[0]


def _filtered(name: str, folder: Path) -> Data:
    """Chameleon or Squirrel without the nodes that duplicate others."""
    with np.load(folder / "filtered" / f"{name}_filtered.npz") as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    return Data(
        x=arrays["node_features"].float(),
        y=arrays["node_labels"].long(),
        edge_index=arrays["edges"].T.long().contiguous(),
        train_mask=arrays["train_masks"].T,
        val_mask=arrays["val_masks"].T,
        test_mask=arrays["test_masks"].T,
    )


def _syn_cora(level: str, graph: int, folder: Path) -> Data:
    """One of H2GCN's synthetic graphs, with splits of our own: the release has none."""
    with np.load(folder / "syn-cora" / f"h{level}-r{graph}.npz") as file:
        sources = np.repeat(np.arange(len(file["adj_indptr"]) - 1), np.diff(file["adj_indptr"]))
        edge_index = torch.from_numpy(np.stack([sources, file["adj_indices"]]).astype(np.int64))
        rows = np.repeat(np.arange(len(file["attr_indptr"]) - 1), np.diff(file["attr_indptr"]))
        x = torch.zeros(*file["attr_shape"].tolist())
        x[rows, file["attr_indices"].astype(np.int64)] = torch.from_numpy(file["attr_data"]).float()
        y = torch.from_numpy(file["labels"]).long()
    data = Data(x=x, y=y, edge_index=edge_index)
    return with_random_splits(data, 10, fractions=(0.25, 0.25, 0.50), seed=graph)


def syn_cora(
    level: str,
    root: str | Path | None = None,
    *,
    graph: int = 1,
    normalize_features: bool = False,
    largest_component: bool = False,
) -> Data:
    """Synthetic Cora of a level of homophily: one of three graphs."""
    if graph not in (1, 2, 3):
        raise InputError(f"graph must be 1, 2 or 3, got {graph!r}")
    found = Benchmark(
        f"syn-cora-h{level}-r{graph}",
        f"syn-cora/h{level}-r{graph}.npz",
        partial(_syn_cora, level, graph),
    )
    return found(root, normalize_features=normalize_features, largest_component=largest_component)


BENCHMARKS = (
    Benchmark("texas", "WebKB/texas/", partial(_webkb, "WebKB", "texas")),
    Benchmark("wisconsin", "WebKB/wisconsin/", partial(_webkb, "WebKB", "wisconsin")),
    Benchmark("cornell", "WebKB/cornell/", partial(_webkb, "WebKB", "cornell")),
    Benchmark("film", "Actor/", _actor),
    Benchmark(
        "squirrel",
        "WikipediaNetwork/squirrel/",
        partial(_wikipedia, "squirrel"),
        clean=undirected_with_loops,
    ),
    Benchmark(
        "chameleon",
        "WikipediaNetwork/chameleon/",
        partial(_wikipedia, "chameleon"),
        clean=undirected_with_loops,
    ),
    Benchmark("cora", "Planetoid/Cora/", partial(_planetoid, "Cora")),
    Benchmark("citeseer", "Planetoid/CiteSeer/", partial(_planetoid, "CiteSeer")),
    Benchmark("pubmed", "Planetoid/PubMed/", partial(_planetoid, "PubMed")),
    Benchmark("cornell-fixed", "WebKB_fixed/cornell/", partial(_webkb, "WebKB_fixed", "cornell")),
    Benchmark(
        "chameleon-filtered", "filtered/chameleon_filtered.npz", partial(_filtered, "chameleon")
    ),
    Benchmark(
        "squirrel-filtered", "filtered/squirrel_filtered.npz", partial(_filtered, "squirrel")
    ),
    *(
        Benchmark(
            name,
            f"HeterophilousGraphDataset/{name.replace('-', '_')}/",
            partial(_heterophilous, name.replace("-", "_")),
        )
        for name in ("minesweeper", "tolokers", "roman-empire", "amazon-ratings", "questions")
    ),
)


def benchmark(
    name: str,
    root: str | Path | None = None,
    *,
    normalize_features: bool = False,
    largest_component: bool = False,
) -> Data:
    """The graph of a `Benchmark` by name."""
    found = next(one for one in BENCHMARKS if one.name == name)
    return found(root, normalize_features=normalize_features, largest_component=largest_component)
