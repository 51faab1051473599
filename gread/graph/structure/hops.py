"""Shortest path lengths in a graph."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

FAR = -1
"""Distance of nodes that are not connected, or only by longer paths than the limit."""


def adjacency_matrix(edge_index: Tensor, num_nodes: int) -> scipy.sparse.csr_array:
    """Binary adjacency matrix of the undirected graph without self loops."""
    edges, _ = remove_self_loops(edge_index.cpu())
    places = to_undirected(edges, num_nodes=num_nodes).numpy()
    ones = np.ones(places.shape[1], np.float32)
    return scipy.sparse.csr_array((ones, tuple(places)), shape=(num_nodes, num_nodes))


def hops_from(
    adj: scipy.sparse.csr_array, sources: NDArray[np.int64], limit: int | None = None
) -> NDArray[np.int16]:
    """Shortest path length from each source to each node, [sources, N].

    Breadth-first search from all sources together, with one product with A per step.

    Args:
        adj: A, symmetric.
        sources: Start nodes.
        limit: Largest number of steps; nodes farther away get `FAR`.
    """
    n = adj.shape[0]
    hops = np.full((n, len(sources)), FAR, np.int16)
    hops[sources, np.arange(len(sources))] = 0
    front = (hops == 0).astype(np.float32)
    step = 0
    while step != limit:
        step += 1
        reached = (adj @ front > 0) & (hops == FAR)
        if not reached.any():
            break
        hops[reached] = step
        front = reached.astype(np.float32)
    return hops.T
