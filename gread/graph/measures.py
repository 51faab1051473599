"""Measures of a graph and its states: Dirichlet energy, effective rank and homophily."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import degree, remove_self_loops, scatter, to_undirected


def dirichlet_energy(h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """Dirichlet energy E(H, A) = 1/N Σ_i Σ_{j ∈ N_i} A[i, j] ‖H_i − H_j‖².

    Paper: Eq. (18), Sec. 4.3. It is zero if all neighbours have the same state.

    Example:
        >>> import torch
        >>> edge = torch.tensor([[0, 1], [1, 0]])
        >>> dirichlet_energy(torch.tensor([[0.0], [2.0]]), edge)
        tensor(4.)
    """
    source, target = edge_index
    squared = (h[target] - h[source]).square().sum(-1)
    if edge_weight is not None:
        squared = squared * edge_weight
    return squared.sum() / h.size(0)


def effective_rank(h: Tensor) -> float:
    """Effective rank: exp of the entropy of the normalized singular values of H.

    It lies between 1, if all states are multiples of one vector, and the width of H. It is zero for
    H = 0. Roy and Vetterli, EUSIPCO 2007; not in the paper.

    Example:
        >>> import torch
        >>> round(effective_rank(torch.eye(3)), 4)
        3.0
    """
    values = torch.linalg.svdvals(h.double())
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return float(values.any()) * torch.special.entr(shares).sum().exp().item()


def log_degree(ends: Tensor, num_nodes: int) -> Tensor:
    """log(1 + d_i) for every node i, where d_i is its number of occurrences in ``ends``, [N].

    For targets, d_i is the in-degree; for sources, the out-degree. It is used as the feature of
    graphs that have none.
    """
    return degree(ends, num_nodes).log1p()


def node_homophily(edge_index: Tensor, y: Tensor) -> float:
    """Node homophily: mean over nodes of the share of neighbours with the same label.

    Paper: Eq. (19). It uses the undirected graph without self loops, and only nodes with
    neighbours.

    Returns:
        A number in [0, 1]; NaN if there are no edges.

    Example:
        >>> edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> node_homophily(edges, torch.tensor([0, 0, 1, 1]))
        0.75
    """
    source, target = to_undirected(remove_self_loops(edge_index)[0], num_nodes=y.numel())
    same = (y[source] == y[target]).double()
    share = scatter(same, target, dim_size=y.numel(), reduce="mean")
    return share[target.unique()].mean().item()


def edge_homophily(edge_index: Tensor, y: Tensor) -> float:
    """Edge homophily: share of the edges that join equal labels.

    Every unordered pair of nodes and every self loop counts once. The paper's dataset table has
    these values, although its text defines `node_homophily`.

    Example:
        >>> edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> edge_homophily(edges, torch.tensor([0, 0, 1, 1]))
        0.5
    """
    low, high = edge_index.sort(dim=0).values
    pairs = (low * y.numel() + high).unique()
    a, b = pairs // y.numel(), pairs % y.numel()
    return (y[a] == y[b]).double().mean().item()


def adjusted_homophily(edge_index: Tensor, y: Tensor) -> float:
    """Adjusted homophily (h − Σ_k p_k²) / (1 − Σ_k p_k²), p_k the share of edge ends in class k.

    Platonov et al., NeurIPS 2023. It corrects `edge_homophily` for class sizes: 1 if all neighbours
    share a class, 0 if edges are independent of the class, negative if neighbours tend to differ.
    It uses the undirected graph without self loops.

    Returns:
        A number of at most 1; NaN without edges or with a single class.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> adjusted_homophily(path, torch.tensor([0, 1, 0, 1]))
        -1.0
    """
    source, target = to_undirected(remove_self_loops(edge_index)[0], num_nodes=y.numel())
    same = (y[source] == y[target]).double().mean()
    shares = y[target].bincount().double() / target.numel()
    chance = shares.square().sum()
    return ((same - chance) / (1 - chance)).item()
