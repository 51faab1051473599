"""Positions of nodes by personalized PageRank."""

from __future__ import annotations

import torch
from torch import Tensor

from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Adjacency
from gread.kernels.backend import backend_for
from gread.kernels.pattern import remember
from gread.kernels.reference import Terms

RETURN = 0.05
"""Teleport probability α of the walk."""

KEPT = 64
"""Number of entries kept of every walk, the largest ones."""

TOGETHER = 64
"""Number of walks that are computed together; they fit into the cache of a CPU."""

STEPS = 48
"""Number of iterations; each multiplies the error by 0.73. The result has single precision."""


def page_rank(edge_index: Tensor, num_nodes: int) -> dict[str, Tensor]:
    """Personalized PageRank P = α (I − (1 − α) S̃)⁻¹ with S̃ = D^-½ (A + I) D^-½.

    Column k is the walk from node k. Its largest entries are kept and normalized to sum 1. Edge
    weights are ignored.

    Returns:
        ``position_index`` [2, entries] (row, column) and ``position_weight``, in row order.
    """
    return remember(edge_index, ("positions", num_nodes), lambda: _page_rank(edge_index, num_nodes))


@torch.no_grad()
def _page_rank(edge_index: Tensor, n: int) -> dict[str, Tensor]:
    adj = OriginalAdjacency()(edge_index.new_empty(n, 1, dtype=torch.float32), edge_index)
    kept = min(KEPT, n)
    places, entries = [], []
    for first in range(0, n, TOGETHER):
        starts = torch.arange(first, min(first + TOGETHER, n), device=edge_index.device)
        entry, row = _walks(adj, starts).topk(kept, dim=0)
        column = starts.expand(kept, -1)
        keep = entry > 0  # a walk does not leave its component
        places.append(torch.stack([row[keep], column[keep]]))
        entries.append((entry / entry.sum(0))[keep])
    place, found = torch.cat(places, 1), torch.cat(entries)
    order = (place[0] * n + place[1]).argsort()
    return {"position_index": place[:, order], "position_weight": found[order]}


def _walks(adj: Adjacency, starts: Tensor) -> Tensor:
    """Columns of P, [N, starts], by Chebyshev iteration for (I − (1 − α) S̃) P = α I."""
    seed = adj.weight.new_zeros(adj.num_nodes, starts.numel())
    seed[starts, torch.arange(starts.numel(), device=starts.device)] = RETURN
    radius = 1 - RETURN  # the spectrum lies within 1 ± radius
    x, before, omega = seed, torch.zeros_like(seed), 2.0
    kernels = backend_for(seed)
    for _ in range(STEPS):
        omega = 1 / (1 - radius**2 * omega / 4)
        coef = seed.new_tensor([[omega * radius], [omega], [1 - omega]]).expand(-1, starts.numel())
        # x ← ω (1 − α) S̃ x + ω seed + (1 − ω) before
        terms = Terms(coef.contiguous(), [seed, before], degree=0)
        x, before = kernels.gather(adj.pattern.rows, adj.weight, x, terms), x
    return x.clamp(min=0)
