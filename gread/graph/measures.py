"""Numbers about a graph and a signal on it: Dirichlet energy, effective rank and homophily."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import degree, remove_self_loops, scatter, to_undirected


def dirichlet_energy(h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """E(H, A) = 1/N Σ_i Σ_{j ∈ N_i} A[i, j] ‖H_i − H_j‖².

    Paper: Eq. (18), Sec. 4.3. It falls to zero when all nodes become alike.

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
    """exp of the entropy of the singular values of H, as shares of their sum.

    Between 1, where all nodes lie on one line through zero, and the width of H. Roy and Vetterli,
    EUSIPCO 2007; not in the paper. Zero for H = 0.

    Example:
        >>> import torch
        >>> round(effective_rank(torch.eye(3)), 4)
        3.0
    """
    values = torch.linalg.svdvals(h.double())
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return float(values.any()) * torch.special.entr(shares).sum().exp().item()


def log_degree(ends: Tensor, num_nodes: int) -> Tensor:
    """log(1 + d_i) of every node i that occurs d_i times among ``ends`` of edges, [N].

    Of targets, d_i counts the incoming edges of i, of sources its outgoing ones. It stands in for
    the features of a graph that has none.
    """
    return degree(ends, num_nodes).log1p()


def node_homophily(edge_index: Tensor, y: Tensor) -> float:
    """Mean over the nodes of the share of neighbours with the node's own label.

    Paper: Eq. (19). Taken on the undirected graph without loops, over the nodes that have
    neighbours; NaN where there are none.

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
    """Share of the edges that join equal labels.

    Every unordered pair of nodes and every loop counts once. This is what the paper's dataset
    table holds, although its text defines `node_homophily`.

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
    """(h − Σ_k p_k²) / (1 − Σ_k p_k²), where p_k is the share of edge ends in class k.

    Platonov et al., NeurIPS 2023. `edge_homophily` less what classes of these sizes would give by
    chance: 1 where all neighbours share a class, 0 where edges do not care, below 0 where they
    avoid it. Taken on the undirected graph without loops; NaN where there are no edges, or one
    class alone.

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
