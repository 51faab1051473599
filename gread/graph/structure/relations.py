"""Relations of Geom-GCN: pairs that are near in the graph or in a plane, with their direction.

Nodes are embedded in a plane. A pair is related if it is an edge or if its points are near. Its
relation is the kind (edge or near) and the quadrant of the second point around the first.

The authors' relations are used if their files are in the data root. For other graphs, relations are
computed from multidimensional scaling of the shortest path lengths. The authors also use hyperbolic
embeddings and struc2vec.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.graph.structure.hops import FAR, adjacency_matrix, hops_from
from gread.graph.structure.origin import Origin

QUADRANTS = 4
LOOP = 2 * QUADRANTS
NUM_RELATIONS = LOOP + 1
"""Four quadrants of edges that are not near pairs, four of near pairs, and self loops."""

LANDMARKS = 1000
"""Number of landmarks; a graph with at most this many nodes uses classical scaling."""

DIGITS = 6
"""Decimal places of coordinates; rounding makes equal points (two leaves of one node) coincide."""

EMBEDDINGS = {"cora": "MDS", "citeseer": "MDS", "pubmed": "MDS"}
OTHER_EMBEDDING = "poincare"
"""The authors' embedding that is read for other datasets, as in the paper's row."""


def relations(data: Data, origin: Origin | None) -> Mapping[str, Tensor]:
    """Pairs ``relation_index`` [2, P], source and target, and their ``relation_type`` [P]."""
    n = int(data.num_nodes)
    found = None if origin is None else _published(data.edge_index, n, origin)
    index, kind = computed_relations(data.edge_index, n) if found is None else found
    return {"relation_index": index, "relation_type": kind}


def computed_relations(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Pairs and their relations from our own embedding.

    Pairs are near if their distance is between zero and ρ, the largest value that gives no more
    near pairs than edges. An edge that is also a near pair counts as near, as in the authors'
    files.
    """
    check_count("the number of nodes", num_nodes)
    adj = adjacency_matrix(edge_index, num_nodes)
    points = embed(adj)
    edges = np.stack(adj.nonzero()).astype(np.int64)
    near = _near(points, edges.shape[1])
    pairs = np.concatenate([edges, near], axis=1)
    space = np.repeat([0, 1], [edges.shape[1], near.shape[1]])
    source, target = points[pairs[0]], points[pairs[1]]
    right, above = (source > target).T
    return _tensors(pairs, QUADRANTS * space + 2 * above + right, num_nodes, edge_index.device)


def embed(adj: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """Points [N, 2] by landmark multidimensional scaling of distances in the graph.

    The distance of unconnected nodes is the largest finite distance plus one.
    """
    n = adj.shape[0]
    chosen = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).round().astype(np.int64))
    steps = hops_from(adj, chosen).astype(np.float64)
    steps[steps == FAR] = steps.max() + 1
    squares = steps**2  # [landmarks, N]
    own = squares[:, chosen]
    mean = own.mean(axis=1)
    centred = -(own - mean[:, None] - mean[None, :] + mean.mean()) / 2
    count = len(chosen)
    first = [max(count - 2, 0), count - 1]
    values, vectors = scipy.linalg.eigh(centred, subset_by_index=first)
    points = np.zeros((n, 2))
    for axis, (value, vector) in enumerate(zip(values[::-1], vectors.T[::-1], strict=True)):
        if value > 1e-9 * n:
            points[:, axis] = -(vector @ (squares - mean[:, None])) / (2 * value**0.5)
    points *= np.where((points**3).sum(axis=0) < 0, -1, 1)  # fixes the sign of the eigenvectors
    size = np.abs(points).max()
    return (points / size if size > 0 else points).round(DIGITS)


def _near(points: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Pairs [2, P] of near points in both directions: at most ``most``; ties are all in or out.

    Coinciding points form no pair, because they have no quadrant. There are many of them (all
    leaves of a node coincide), so they are counted without being listed.
    """
    places, group, size = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    group, size = group.ravel(), size.astype(np.int64)
    tree, same = cKDTree(places), int((size**2).sum())

    def too_far(radius: float) -> bool:
        return float(tree.count_neighbors(tree, radius, weights=(size, size))) - same > most

    low, high = 0.0, 4.0  # bounds on the distance of scaled points
    while high - low > 10.0 ** -(DIGITS + 3):
        middle = (low + high) / 2
        low, high = (low, middle) if too_far(middle) else (middle, high)
    one, other = tree.query_pairs(low, output_type="ndarray").T.astype(np.int64)
    members, start = np.argsort(group, kind="stable"), np.cumsum(size) - size
    times = size[one] * size[other]  # all pairs of nodes at the two points
    one, other = np.repeat(one, times), np.repeat(other, times)
    number = np.arange(len(one)) - np.repeat(np.cumsum(times) - times, times)
    pairs = np.stack(
        [members[start[one] + number // size[other]], members[start[other] + number % size[other]]]
    )
    return np.concatenate([pairs, pairs[::-1]], axis=1)


def _published(edge_index: Tensor, n: int, origin: Origin) -> tuple[Tensor, Tensor] | None:
    """The authors' relations, if their file exists and its edges are those of the graph."""
    method = EMBEDDINGS.get(origin.dataset, OTHER_EMBEDDING)
    name = f"outf_nodes_space_relation_{origin.dataset}_{method}.txt"
    file = origin.root / "geom_gcn_relations" / name
    try:
        pairs, near, quadrant = _read(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, OverflowError) as error:
        raise InputError(f"{file} must hold two nodes, a space and a quadrant a line") from error
    edges = pairs[:, ~near]
    own = np.stack(adjacency_matrix(edge_index, n).nonzero())
    if not _within(pairs, n) or not np.array_equal(_sorted(edges, n), _sorted(own, n)):
        return None  # another release, or a subgraph
    if not _within(quadrant, QUADRANTS):
        raise InputError(f"{file} must have quadrants 0 to {QUADRANTS - 1}, got another")
    return _tensors(pairs, QUADRANTS * near + quadrant, n, edge_index.device)


def _read(path: Path) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Pairs [2, P], whether they are near pairs instead of edges, and their quadrants."""
    lines = [line.replace(",", "\t").split("\t") for line in path.read_text().splitlines()[1:]]
    columns = np.array(lines).reshape(-1, 4).T
    return columns[:2].astype(np.int64), columns[2] == "latent_space", columns[3].astype(np.int64)


def _within(values: NDArray[np.int64], end: int) -> bool:
    return bool(values.min(initial=0) >= 0 and values.max(initial=0) < end)


def _sorted(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.unique(pairs[0].astype(np.int64) * n + pairs[1])


def _tensors(
    pairs: NDArray[np.int64], kind: NDArray[np.int64], n: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Unique pairs with their last relation, and a self loop at every node."""
    place, last = np.unique((pairs[0] * n + pairs[1])[::-1], return_index=True)
    nodes = np.arange(n)
    index = np.stack([place // n, place % n])
    index = np.concatenate([index, np.stack([nodes, nodes])], axis=1)
    kind = np.concatenate([kind[::-1][last], np.full(n, LOOP)])
    return torch.from_numpy(index).to(device), torch.from_numpy(kind).to(device)
