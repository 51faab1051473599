"""Generated graphs: cSBM, grids and preferential attachment."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.base.checks import check_count, check_fraction, check_not_negative, check_number
from gread.base.errors import InputError
from gread.data.splits import with_random_splits


def csbm(
    num_nodes: int = 100,
    num_classes: int = 2,
    *,
    p_within: float = 0.9,
    p_between: float = 0.1,
    homophily: float | None = None,
    degree: float | None = None,
    num_features: int = 2,
    mean: float = 0.5,
    sigma: float = 2.0,
    num_splits: int = 10,
    seed: int = 0,
) -> Data:
    """Generate a contextual stochastic block model, a random graph with classes.

    Edges are random with a probability that depends on the classes of their ends. Features are
    Gaussian around ±mean.

    The defaults are the paper's (Sec. 4.3 and its appendix): 100 nodes, two classes, p = 0.9 within
    a class and 0.1 between, features N(∓0.5, 2²). Time and memory are proportional to the edges,
    not to N².

    Args:
        num_nodes: Number N of nodes, divided evenly among the classes.
        num_classes: Number of classes. With two, the means are −mean and +mean in all features;
            with more, each class draws the signs of its means at random.
        p_within: Probability of an edge between two nodes of one class.
        p_between: Probability of an edge between nodes of two classes.
        homophily: Expected share of edges within a class, instead of the two probabilities.
        degree: Expected number of neighbours, used with ``homophily``; by default the value that
            the two probabilities imply.
        num_features: Number of features.
        mean: Distance of a class mean from zero in every feature.
        sigma: Standard deviation of the features.
        num_splits: Number of random splits, as masks [N, num_splits].
        seed: Seed of all random numbers.

    Example:
        >>> data = csbm(1000, 5, homophily=0.2, degree=10, num_features=32)
        >>> data.train_mask.shape
        torch.Size([1000, 10])
    """
    check_count("num_classes", num_classes)
    check_count("num_nodes", num_nodes, minimum=num_classes)
    check_count("num_features", num_features)
    check_count("seed", seed, minimum=0)
    check_number("mean", mean)
    check_not_negative("sigma", sigma)
    if homophily is not None:
        p_within, p_between = _probabilities(
            num_nodes, num_classes, p_within, p_between, homophily, degree
        )
    elif degree is not None:
        raise InputError("degree must come with homophily, got only degree")
    check_fraction("p_within", p_within)
    check_fraction("p_between", p_between)

    rng = np.random.default_rng(seed)
    y = np.arange(num_nodes) * num_classes // num_nodes
    if num_classes == 2:
        signs = np.array([[-1.0], [1.0]]).repeat(num_features, axis=1)
    else:
        signs = rng.choice([-1.0, 1.0], size=(num_classes, num_features))
    # Features come before edges, so graphs that differ only in homophily share them.
    x = mean * signs[y] + sigma * rng.standard_normal((num_nodes, num_features))
    first = np.searchsorted(y, np.arange(num_classes + 1))  # class c is first[c] to first[c + 1]
    blocks = [
        _edges_within(rng, first[a], first[a + 1], p_within)
        if a == b
        else _edges_between(rng, first[a], first[a + 1], first[b], first[b + 1], p_between)
        for a, b in combinations_with_replacement(range(num_classes), 2)
    ]
    edge_index = torch.from_numpy(np.concatenate(blocks, axis=1))
    data = Data(
        x=torch.from_numpy(x).float(),
        edge_index=to_undirected(edge_index, num_nodes=num_nodes),
        y=torch.from_numpy(y),
    )
    return with_random_splits(data, num_splits, seed=seed)


def grid(height: int = 32, width: int = 32) -> Data:
    """Generate a grid whose nodes are joined to those above, below, left and right.

    Node ``row * width + column`` has the position ``pos`` (column, row). A grid has no features,
    labels or splits; use it to study dynamics.

    Example:
        >>> grid(2, 3).edge_index.size(1)
        14
    """
    check_count("height", height)
    check_count("width", width)
    node = torch.arange(height * width).view(height, width)
    right = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    down = torch.stack([node[:-1].flatten(), node[1:].flatten()])
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return Data(
        edge_index=to_undirected(torch.cat([right, down], dim=1), num_nodes=height * width),
        pos=torch.stack([columns.flatten(), rows.flatten()], dim=1).float(),
        num_nodes=height * width,
    )


def preferential_attachment(
    base: Data,
    homophily: float,
    *,
    num_classes: int = 5,
    num_nodes: int | None = None,
    edges_per_node: int = 2,
    num_splits: int = 10,
    seed: int = 0,
) -> Data:
    """Generate a graph of given homophily with features of another, as in H2GCN's synthetic Cora.

    Nodes are added one by one. Each draws the class of a neighbour: its own with probability
    ``homophily``, otherwise another one on a circle of classes, where each step halves the
    probability. In that class it draws a node in proportion to its degree. Features are copied from
    nodes of ``base``, one class of ``base`` for each class.

    Args:
        base: Graph that provides the features; its largest classes are used.
        homophily: Expected share of edges within a class.
        num_classes: Number of classes.
        num_nodes: Number N of nodes, divided evenly among the classes; by default as many as
            ``base`` provides without repetition.
        edges_per_node: Number of edges that each new node adds.
        num_splits: Number of random splits, as masks [N, num_splits].
        seed: Seed of all random numbers.

    Example:
        >>> base = csbm(300, 6, homophily=0.5, degree=4)
        >>> preferential_attachment(base, 0.2, num_classes=4).num_nodes
        200
    """
    check_fraction("homophily", homophily)
    check_count("num_classes", num_classes)
    check_count("edges_per_node", edges_per_node)
    check_count("seed", seed, minimum=0)
    sizes = base.y.bincount()
    if num_classes > len(sizes):
        raise InputError(f"num_classes must be at most {len(sizes)}, as in base, got {num_classes}")
    largest = sizes.argsort(descending=True, stable=True)[:num_classes]
    if num_nodes is None:
        num_nodes = num_classes * int(sizes[largest[-1]])
    check_count("num_nodes", num_nodes, minimum=2 * num_classes)
    if num_classes == 1 and homophily < 1:
        raise InputError(f"homophily must be 1 with a single class, got {homophily}")

    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(num_nodes) * num_classes // num_nodes)
    x = torch.empty(num_nodes, base.num_features)
    for label, original in enumerate(largest.tolist()):
        members, pool = np.flatnonzero(y == label), np.flatnonzero(base.y.numpy() == original)
        chosen = rng.choice(pool, len(members), replace=len(members) > len(pool))
        x[members] = base.x[chosen].float()
    edges = _attach(rng, y, _compatibility(num_classes, homophily), edges_per_node)
    data = Data(
        x=x,
        edge_index=to_undirected(torch.from_numpy(edges), num_nodes=num_nodes),
        y=torch.from_numpy(y),
    )
    return with_random_splits(data, num_splits, seed=seed)


def _compatibility(num_classes: int, homophily: float) -> np.ndarray:
    """Probability that a neighbour of a node of class i has class j, [C, C]."""
    classes = np.arange(num_classes)
    apart = np.abs(classes[:, None] - classes)
    apart = np.minimum(apart, num_classes - apart)  # on a circle
    others = np.where(apart == 0, 0.0, 0.5**apart)
    others /= np.maximum(others.sum(axis=1, keepdims=True), 1e-300)
    return homophily * np.eye(num_classes) + (1 - homophily) * others


def _attach(
    rng: np.random.Generator, y: np.ndarray, compatibility: np.ndarray, edges_per_node: int
) -> np.ndarray:
    """Edges [2, E] by preferential attachment within the sampled class."""
    num_classes = len(compatibility)
    # Ends of all edges so far by class: a uniform sample is proportional to the degree.
    ends: list[list[int]] = [[] for _ in range(num_classes)]
    # The first nodes of every class exist from the start and add their edges at the end.
    first = [
        node for c in range(num_classes) for node in np.flatnonzero(y == c)[: edges_per_node + 1]
    ]
    for node in first:
        ends[y[node]].append(node)
    edges: list[tuple[int, int]] = []
    for node in [*np.setdiff1d(np.arange(len(y)), first), *first]:
        neighbours: set[int] = {int(node)}
        for other_class in rng.choice(num_classes, edges_per_node, p=compatibility[y[node]]):
            for _ in range(100):  # retries if a neighbour is repeated
                other = ends[other_class][rng.integers(len(ends[other_class]))]
                if other not in neighbours:
                    neighbours.add(other)
                    edges.append((int(node), other))
                    ends[other_class].append(other)
                    ends[y[node]].append(int(node))
                    break
    return np.array(edges, dtype=np.int64).T.reshape(2, -1)


def _probabilities(
    num_nodes: int,
    num_classes: int,
    p_within: float,
    p_between: float,
    homophily: float,
    degree: float | None,
) -> tuple[float, float]:
    """Edge probabilities within and between classes for a homophily and degree."""
    check_fraction("homophily", homophily)
    same = num_nodes / num_classes - 1  # possible neighbours of the same class
    other = num_nodes - num_nodes / num_classes
    if degree is None:
        degree = p_within * same + p_between * other
    check_not_negative("degree", degree)
    wanted = degree * homophily, degree * (1 - homophily)
    if wanted[0] > same or wanted[1] > other:
        raise InputError(
            f"degree must be lower: at homophily {homophily:g} a node of {num_nodes} has {same:g} "
            f"possible neighbours of its class and {other:g} of others, got degree {degree:g}"
        )
    return wanted[0] / max(same, 1), wanted[1] / max(other, 1)


def _edges_within(rng: np.random.Generator, start: int, end: int, p: float) -> np.ndarray:
    """Pairs i < j of the nodes start..end, each with probability p, [2, E]."""
    n = end - start
    place = _chosen(rng, n * (n - 1) // 2, p)
    # Pairs in the order (0,1), (0,2), (1,2), (0,3), ...: j is the triangular root of the index.
    j = np.floor((1 + np.sqrt(1 + 8 * place.astype(np.float64))) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > place  # corrects rounding of the root
    j += j * (j + 1) // 2 <= place
    return np.stack([start + place - j * (j - 1) // 2, start + j])


def _edges_between(
    rng: np.random.Generator, start: int, end: int, other_start: int, other_end: int, p: float
) -> np.ndarray:
    """Pairs of a node of start..end and one of other_start..other_end, each with probability p."""
    width = other_end - other_start
    i, j = np.divmod(_chosen(rng, (end - start) * width, p), max(width, 1))
    return np.stack([start + i, other_start + j])


def _chosen(rng: np.random.Generator, total: int, p: float) -> np.ndarray:
    """Sample of 0 to total − 1, each with probability p, in time proportional to the sample."""
    if p == 0 or total == 0:
        return np.empty(0, dtype=np.int64)
    last, pieces = -1, []
    while last < total - 1:
        # Gaps between successes are geometric; draw about as many as remain.
        draws = int((total - last) * p * 1.05) + 16
        gaps = np.minimum(rng.geometric(p, draws), total + 1)  # a sum of larger ones overflows
        piece = last + np.cumsum(gaps)
        pieces.append(piece)
        last = int(piece[-1])
    kept = np.concatenate(pieces)
    return kept[kept < total]
