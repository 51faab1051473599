"""Large graphs of the Open Graph Benchmark, through the package ``ogb`` (an extra)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from gread.data.cache import cached
from gread.data.files import DataError, data_root, parsed
from gread.data.real import undirected
from gread.data.statistics import Statistics, measure


def ogbn(name: str, root: str | Path | None = None) -> Data:
    """Load a graph, made undirected, with the split of the benchmark as masks [N, 1]."""
    place = data_root(root)
    return cached(place / parsed(name), partial(_build, name, place))


def _build(name: str, root: Path) -> tuple[Data, Statistics]:
    try:
        with _silent():
            from ogb.nodeproppred import PygNodePropPredDataset
    except ImportError as error:
        raise DataError(f"{name} needs the package ogb: pip install 'gread[ogb]'") from error
    # ogb unpickles its own cache, so PyTorch must allow PyG's classes. Only classes that PyG has
    # not registered are added, because leaving the block removes them again.
    known = torch.serialization.get_safe_globals()
    unknown = [kind for kind in (DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in known]
    with torch.serialization.safe_globals(unknown):
        try:
            source = PygNodePropPredDataset(name, root=str(root / "ogb"))
        except OSError as error:
            place = root / "ogb"
            raise DataError(
                f"{name} is not in {place} and cannot be downloaded: {error}"
            ) from error
    graph = source[0]
    data = Data(x=graph.x, edge_index=graph.edge_index, y=graph.y.view(-1))
    for mask, part in {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}.items():
        data[mask] = torch.zeros(data.num_nodes, 1, dtype=torch.bool)
        data[mask][source.get_idx_split()[part]] = True
    return undirected(data.clone()), measure(data)


@contextmanager
def _silent() -> Iterator[None]:
    """Hide ``outdated``, which ogb uses to look up its latest release on the network."""
    known = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if known is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = known
