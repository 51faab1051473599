"""Statistics of datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Statistics:
    """Counts of a graph from its source, before cleaning.

    Attributes:
        nodes, features, classes: Their numbers.
        edges: Undirected edges between two nodes.
        edges_with_loops: The same, with the self loops.
        node_homophily: See `gread.node_homophily`.
        edge_homophily: See `gread.edge_homophily`, self loops counted.
        splits: Number of train, validation and test splits.
    """

    nodes: int
    edges: int
    edges_with_loops: int
    features: int
    classes: int | None
    node_homophily: float | None
    edge_homophily: float | None
    splits: int


def measure(data: Data) -> Statistics:
    """Measure ``data``; a graph without labels has no classes and no homophily."""
    from gread.graph.measures import edge_homophily, node_homophily

    low, high = data.edge_index.sort(dim=0).values
    pairs = (low * data.num_nodes + high).unique()
    loops = int((pairs % (data.num_nodes + 1) == 0).sum())
    labelled = data.y is not None
    return Statistics(
        nodes=data.num_nodes,
        edges=len(pairs) - loops,
        edges_with_loops=len(pairs),
        features=data.num_features,
        classes=int(data.y.max()) + 1 if labelled else None,
        node_homophily=node_homophily(data.edge_index, data.y) if labelled else None,
        edge_homophily=edge_homophily(data.edge_index, data.y) if labelled else None,
        splits=data.train_mask.size(1) if "train_mask" in data else 0,
    )
