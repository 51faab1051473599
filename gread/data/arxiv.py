"""Citations of arXiv papers without text features, with the year or the subject as label."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gread.data.cache import cached
from gread.data.files import data_root, parsed, stage
from gread.data.real import undirected
from gread.data.splits import with_parts, with_random_splits
from gread.data.statistics import Statistics, measure
from gread.graph.measures import log_degree

FILE = "real/arxiv.npz"


def arxiv(labels: str, root: str | Path | None = None, *, directed: bool = False) -> Data:
    """The graph of ogbn-arxiv, structure only: x_i = [log(1 + d_in), log(1 + d_out)].

    With directions, an edge goes from the citing to the cited paper, so (Ã H)_i is a sum over the
    papers that cite i. Labels are the subjects, with OGB's split, or quintiles of the year, with
    ten random splits.

    Args:
        labels: ``"year"`` or ``"subject"``.
        root: The data root; by default ``GREAD_DATA`` or the platform's cache folder.
        directed: Whether edges keep their directions; features are the same either way.
    """
    place = data_root(root)
    data = cached(place / parsed(f"arxiv-{labels}"), partial(_build, labels, place))
    return data if directed else undirected(data)


def _build(labels: str, root: Path) -> tuple[Data, Statistics]:
    with tempfile.TemporaryDirectory() as folder:
        stage(FILE, root, Path(folder))
        with np.load(Path(folder, FILE)) as arrays:
            found = {name: torch.from_numpy(arrays[name]).long() for name in arrays.files}
    edges = found["edge_index"]
    incoming, outgoing = (log_degree(edges[end], len(found["year"])) for end in (1, 0))
    data = Data(x=torch.stack([incoming, outgoing], dim=1), edge_index=edges)
    if labels == "subject":
        data.y = found["subject"]
        data = with_parts(data, found["split"].unsqueeze(1))
    else:
        data.y = quintiles(found["year"])
        data = with_random_splits(data, 10, fractions=(0.50, 0.25, 0.25), seed=0)
    return data, measure(data)


def quintiles(values: Tensor) -> Tensor:
    """Number of the quantiles q_20, q_40, q_60, q_80 of ``values`` that each value reaches.

    Lim et al., NeurIPS 2021. Equal values get the same class, so class sizes differ.
    """
    bounds = np.quantile(values.numpy(), [0.2, 0.4, 0.6, 0.8])
    return torch.from_numpy(np.searchsorted(bounds, values.numpy(), side="right"))
