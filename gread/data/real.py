"""Benchmark graphs, parsed from verified files by PyG's own dataset classes."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
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
from gread.base.lazy import Reference
from gread.data.cache import cached
from gread.data.files import data_root, parsed, stage
from gread.data.splits import MASKS, with_parts, with_random_splits
from gread.data.statistics import Statistics, measure

Transform = Callable[[Data], Data]

undirected: Transform = Compose([ToUndirected(), RemoveSelfLoops()])
"""Every edge in both directions once, no self loops."""

undirected_with_loops: Transform = Compose(
    [undirected, AddRemainingSelfLoops(), RemoveDuplicatedEdges()]
)
"""The same with a self loop at every node, as in the paper's code for Chameleon and Squirrel."""

as_given: Transform = Compose([RemoveSelfLoops(), RemoveDuplicatedEdges()])
"""Every edge as it is in the files, once, no self loops."""


def _filtered(folder: str, file: str) -> Data:
    """Chameleon or Squirrel without the nodes that duplicate others."""
    with np.load(Path(folder, file)) as arrays:
        found = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
    return Data(
        x=found["node_features"].float(),
        y=found["node_labels"].long(),
        edge_index=found["edges"].T.long().contiguous(),
        **{f"{part}_mask": found[f"{part}_masks"].T for part in ("train", "val", "test")},
    )


def _syn_cora(folder: str, file: str) -> Data:
    """A synthetic graph of H2GCN, with our own splits, because the release has none."""
    with np.load(Path(folder, file)) as arrays:
        sources, rows = (_rows_of(arrays[name]) for name in ("adj_indptr", "attr_indptr"))
        edge_index = torch.from_numpy(np.stack([sources, arrays["adj_indices"]]).astype(np.int64))
        x = torch.zeros(*arrays["attr_shape"].tolist())
        values = torch.from_numpy(arrays["attr_data"]).float()
        x[rows, arrays["attr_indices"].astype(np.int64)] = values
        y = torch.from_numpy(arrays["labels"]).long()
    data = Data(x=x, y=y, edge_index=edge_index)
    graph = int(Path(file).stem.rpartition("-r")[2])
    return with_random_splits(data, 10, fractions=(0.25, 0.25, 0.50), seed=graph)


def _real(folder: str, file: str) -> Data:
    """Graph with sparse features, and splits as set numbers."""
    with np.load(Path(folder, file)) as arrays:
        rows, columns = _rows_of(arrays["x_indptr"]), arrays["x_indices"].astype(np.int64)
        x = torch.zeros(len(arrays["y"]), int(arrays["x_columns"]))
        x[rows, columns] = torch.from_numpy(arrays["x_values"]).float()  # [1] or [entries]
        y, edge_index = (torch.from_numpy(arrays[name]).long() for name in ("y", "edge_index"))
        return with_parts(Data(x=x, y=y, edge_index=edge_index), torch.from_numpy(arrays["split"]))


def _rows_of(indptr: np.ndarray) -> np.ndarray:
    """Row of every entry of a sparse matrix."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _pyg(name: str, **options: Any) -> Reference:
    """Reference to a dataset class of PyG; importing the package takes a second."""
    return Reference(f"torch_geometric.datasets:{name}", **options)


PARSERS: dict[str, Callable[[str, str], Any]] = {
    "WebKB": _pyg("WebKB"),
    "WebKB_fixed": _pyg("WebKB"),
    "Actor": lambda folder, _: _pyg("Actor")(folder),
    "WikipediaNetwork": _pyg("WikipediaNetwork", geom_gcn_preprocess=True),
    "Planetoid": _pyg("Planetoid", split="geom-gcn"),
    "HeterophilousGraphDataset": _pyg("HeterophilousGraphDataset"),
    "filtered": _filtered,
    "syn-cora": _syn_cora,
    "real": _real,
}
"""Parsers by the folder of the raw files."""


CLEANED = {"WikipediaNetwork": undirected_with_loops}
"""Transforms by the folder of the raw files, if not the default."""


def benchmark(
    name: str,
    files: str,
    clean: Transform | None,
    root: str | Path | None = None,
    *,
    normalize_features: bool = False,
    standardize_features: bool = False,
    largest_component: bool = False,
    directed: bool = False,
) -> Data:
    """Load a graph with masks [N, splits]; raw files are parsed once.

    Args:
        name: Name of the parsed form.
        files: Prefix of the paths of the raw files: a name in `PARSERS`, then that of the graph.
        clean: Transform before the graph is stored; None for the default of the files.
        root: The data root; by default ``GREAD_DATA`` or the platform's cache folder.
        normalize_features: Whether rows of features are scaled to sum 1, by PyG's
            `NormalizeFeatures`.
        standardize_features: Whether every column of features has mean 0 and deviation 1.
        largest_component: Whether nodes outside the largest component are dropped.
        directed: Whether edges keep their directions.
    """
    place = data_root(root)
    if directed:
        name, clean = f"{name}-directed", as_given
    data = cached(place / parsed(name), partial(_parse, files, clean, place))
    if largest_component:
        data = LargestConnectedComponents()(data)
    if normalize_features:
        data = NormalizeFeatures()(data)
    if standardize_features:
        deviation, mean = torch.std_mean(data.x, dim=0, correction=0)
        data.x = (data.x - mean) / deviation.where(deviation > 0, 1)
    return data


def _parse(files: str, clean: Transform | None, root: Path) -> tuple[Data, Statistics]:
    source, _, name = files.partition("/")
    with tempfile.TemporaryDirectory() as folder:
        stage(files, root, Path(folder))
        with contextlib.redirect_stderr(io.StringIO()):  # PyG prints that it is processing
            found = PARSERS[source](str(Path(folder, source)), name.rstrip("/"))
    data = found if isinstance(found, Data) else found[0]
    for mask in MASKS:
        data[mask] = data[mask].bool()
    clean = clean or CLEANED.get(source, undirected)
    return clean(data.clone()), measure(data)


def syn_cora(
    level: str,
    root: str | Path | None = None,
    *,
    graph: int = 1,
    normalize_features: bool = False,
    largest_component: bool = False,
) -> Data:
    """Load one of the three synthetic Cora graphs with a given homophily."""
    if graph not in (1, 2, 3):
        raise InputError(f"graph must be 1, 2 or 3, got {graph!r}")
    release = f"h{level}-r{graph}"
    return benchmark(
        *(f"syn-cora-{release}", f"syn-cora/{release}.npz", None, root),
        normalize_features=normalize_features,
        largest_component=largest_component,
    )
