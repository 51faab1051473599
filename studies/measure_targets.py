"""Targets other than balanced classes, on generated graphs: docs/own-graph.md.

    python studies/measure_targets.py [NAME ...] [--model auto]

from the repository's root. Prints the scores on test nodes of each of `GRAPHS`.
"""

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

NODES, DEGREE, FEATURES = 20_000, 8, 16


def joined(nodes: int, alike: Tensor, share: float, random: np.random.Generator) -> Tensor:
    """Random edges, of which a share joins nodes with close values of ``alike``, [2, E]."""
    source = random.integers(nodes, size=nodes * DEGREE // 2)
    target = random.integers(nodes, size=len(source))
    order = np.argsort(alike.numpy() + 1e-6 * random.random(nodes))
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    near = random.random(len(source)) < share
    window = max(2, nodes // 200)
    moved = np.clip(place[source] + random.integers(-window, window + 1, len(source)), 0, nodes - 1)
    target = np.where(near, order[moved], target)
    return to_undirected(torch.from_numpy(np.stack([source, target])), num_nodes=nodes)


def imbalanced(nodes: int = NODES, ratio: int = 200, seed: int = 0) -> Data:
    """Two classes, one in ``ratio`` nodes of class 1; features and neighbours tell some of it."""
    random = np.random.default_rng(seed)
    y = torch.zeros(nodes, dtype=torch.int64)
    y[torch.from_numpy(random.permutation(nodes)[: nodes // ratio])] = 1
    x = torch.from_numpy(random.normal(size=(nodes, FEATURES))).float()
    x[y == 1] += 0.6
    rare = (y == 1).nonzero().squeeze(1).numpy()
    pairs = random.choice(rare, size=(2, len(rare) * DEGREE // 4))
    between = joined(nodes, torch.zeros(nodes), 0.0, random)
    among = to_undirected(torch.from_numpy(pairs), num_nodes=nodes)
    edges = torch.cat([between, among], 1)
    return Data(x=x, edge_index=edges[:, edges[0] != edges[1]], y=y)
