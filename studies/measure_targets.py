"""Measure rare classes, labels and numbers on generated graphs (docs/own-graph.md).

    python studies/measure_targets.py [GRAPH ...] [--model NAME] [--seeds 3]

Run it in the repository's root. Prints test scores and the seconds of training.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.estimator.classifier import GraphEstimator

NODES, DEGREE, FEATURES = 20_000, 8, 16


def random_edges(nodes: int, random: np.random.Generator) -> Tensor:
    """Random edges [2, E]."""
    pairs = random.integers(nodes, size=(2, nodes * DEGREE // 2))
    return to_undirected(torch.from_numpy(pairs), num_nodes=nodes)


def edges_among_alike(values: Tensor, random: np.random.Generator) -> Tensor:
    """Edges [2, E] between nodes with similar values."""
    nodes = len(values)
    order = np.argsort(values.numpy())
    place = random.integers(nodes, size=nodes * DEGREE // 4)
    other = np.clip(place + random.integers(1, max(2, nodes // 100), len(place)), 0, nodes - 1)
    pairs = np.stack([order[place], order[other]])
    return to_undirected(torch.from_numpy(pairs), num_nodes=nodes)


def graph(x: Tensor, y: Tensor, *edges: Tensor) -> Data:
    """Graph without self loops."""
    joined = torch.cat(edges, 1)
    return Data(x=x, edge_index=joined[:, joined[0] != joined[1]], y=y)


def imbalanced(nodes: int = NODES, seed: int = 0, ratio: int = 200) -> Data:
    """Two classes, one node in ``ratio`` in class 1; features and neighbours are informative."""
    random = np.random.default_rng(seed)
    y = torch.zeros(nodes, dtype=torch.int64)
    y[torch.from_numpy(random.permutation(nodes)[: nodes // ratio])] = 1
    x = torch.from_numpy(random.normal(size=(nodes, FEATURES))).float()
    x[y == 1] += 0.6
    rare = y.nonzero().squeeze(1).numpy()
    pairs = random.choice(rare, size=(2, len(rare) * DEGREE // 4))
    among = to_undirected(torch.from_numpy(pairs), num_nodes=nodes)
    return graph(x, y, random_edges(nodes, random), among)


def numbers(nodes: int = NODES, seed: int = 0) -> Data:
    """Targets that depend on features, on a third of the edges, and on noise."""
    random = np.random.default_rng(seed)
    x, hidden, noise = (
        torch.from_numpy(random.normal(size=shape)).float()
        for shape in ((nodes, FEATURES), nodes, nodes)
    )
    y = 1000 + 100 * (x[:, :4].sum(1) / 2 + hidden + 0.45 * noise)
    return graph(x, y, random_edges(nodes, random), edges_among_alike(hidden, random))


def labels(nodes: int = NODES, seed: int = 0) -> Data:
    """Five labels of 5 % to 50 % of nodes; features and a third of edges are informative."""
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.normal(size=(nodes, FEATURES))).float()
    hidden = torch.from_numpy(random.normal(size=nodes)).float()
    each = x[:, :5] + x[:, 5:10] + hidden.unsqueeze(1)
    shares = torch.tensor([0.05, 0.1, 0.2, 0.3, 0.5])
    ends = torch.stack([column.quantile(1 - p) for column, p in zip(each.T, shares, strict=True)])
    y = (each > ends).float()
    return graph(x, y, random_edges(nodes, random), edges_among_alike(hidden, random))


GRAPHS: dict[str, Callable[..., Data]] = {
    "imbalanced": imbalanced,
    "numbers": numbers,
    "labels": labels,
}


def main() -> None:
    """Train with the default or given settings and print scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--model", default="gread-bs")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    for name in given.graphs:
        for seed in range(given.seeds):
            start = time.perf_counter()
            estimator = GraphEstimator(given.model, random_state=seed)
            scores = estimator.fit(GRAPHS[name](seed=seed)).scores()
            measures = {key: round(value or 0.0, 4) for key, value in scores.measures().items()}
            seconds = time.perf_counter() - start
            print(name, given.model, seed, measures, f"{seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
