"""Propagation along edges: of labels, and of the errors of a network."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch_geometric.data import Data

from gread.estimator.scores import Figures
from gread.estimator.task import Task
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Adjacency
from gread.kernels.backend import backend_for
from gread.kernels.reference import Terms

ALPHA, SMOOTH = 0.9, 0.8
"""Share of the neighbours in propagation and in smoothing."""

REST = 0.005
"""Bound on α²ᵏ for the last term k of `_spread`. Its error in every eigenvector of Ã is then less
than 0.008."""


def _operator(data: Data, like: Tensor) -> Adjacency:
    """D^-½ A D^-½ for states of the size and type of ``like``."""
    adj = OriginalAdjacency(self_loops=0.0)(like, data.edge_index, data.edge_weight)
    assert isinstance(adj, Adjacency)  # the graph is not a shard
    return adj


def _spread(adj: Adjacency, start: Tensor, alpha: float = ALPHA) -> Tensor:
    """S = (1 − α) Σₖ (αÃ)ᵏ S₀, the limit of S ← αÃS + (1 − α)S₀: Zhou et al., NeurIPS 2003.

    The omitted terms are estimated from the last two. In an eigenvector of eigenvalue 1,
    all later terms together are α / (1 − α) times the last one. In one of eigenvalue −1, as on a
    bipartite graph, the mean of a term and α times the term before is zero. This halves the number
    of terms, and S is non-negative if S₀ is.
    """
    shares = start.new_tensor([[alpha], [1 - alpha]]).expand(-1, start.size(1))
    terms, gather = Terms(shares, [start], degree=0), backend_for(start).gather
    older = before = torch.zeros_like(start)
    state = (1 - alpha) * start
    for _ in range(math.ceil(math.log(REST) / math.log(alpha) / 2)):
        older, before = before, state
        state = gather(adj.pattern.rows, adj.weight, state, terms)
    last = (state - before + alpha * (before - older)) / 2
    return state + alpha / (1 - alpha) * last


def propagated(data: Data, known: Tensor, task: Task, y: Tensor) -> Figures:
    """Label propagation: targets of known nodes spread along edges, Zhou et al., NeurIPS 2003.

    Each node gets the mean of known targets, weighted by how much of each reaches it. A node that
    no known node reaches gets the mean over all of them. Ã is normalized with the edge weights;
    PyG's ``LabelPropagation`` normalizes it only if there are none.
    """
    column = known.unsqueeze(1).float()
    start = task.spread(y) * column
    found = _spread(_operator(data, start), torch.cat([start, column], 1))
    total = found[:, -1:]
    everywhere = start[known].mean(0)
    spread = torch.where(total > 0, found[:, :-1] / total.clamp_min(1e-30), everywhere)
    return spread.double().numpy()


def smoothed(data: Data, known: Tensor, task: Task, y: Tensor, predictions: Figures) -> Figures:
    """Correct and smooth: Huang et al., ICLR 2021.

    The residuals of known nodes are spread along edges, scaled to their mean size, and added to the
    predictions. Then the targets of known nodes and the predictions of the others are spread.
    """
    device = data.edge_index.device
    p = torch.from_numpy(predictions).float().to(device)
    truth = task.spread(y).to(device)
    column = known.to(device).unsqueeze(1)
    error = (truth - p) * column
    adj = _operator(data, p)
    spread = _spread(adj, error)
    size = error.abs().sum() / column.sum() / p.size(1)
    scale = (size / spread.abs().mean(1, keepdim=True).clamp_min(1e-12)).clamp(max=1.0)
    corrected = torch.where(column, truth, task.limited(p + scale * spread))
    found = task.smoothed(corrected, partial(_spread, adj, alpha=SMOOTH))
    return found.double().cpu().numpy()
