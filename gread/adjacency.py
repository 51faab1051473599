"""The graph as a linear operator: ``adj @ h`` and ``adj.laplacian(h)``.

Two modules make the operator, from the graph alone (original, OA) or from the graph and
the first state (soft, SA). Nothing else in the library knows how a sparse product is done.

Convention: row i of Ã gathers from the neighbours j of i, so an edge ``j → i`` of
``edge_index`` (source, target) is the entry Ã[i, j].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import add_remaining_self_loops, scatter, softmax

from gread.inputs import InputError, check_count, check_edges, check_not_negative
from gread.kernels import spmm
from gread.registry import Registry


@dataclass(frozen=True)
class Adjacency:
    """Ã, a sparse matrix given by its edges.

    Attributes:
        edge_index: Source and target of every edge, [2, E].
        weight: The entries of Ã, [E].
        num_nodes: N.

    Example:
        >>> path = Adjacency(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), num_nodes=2)
        >>> path @ torch.tensor([[1.0], [5.0]])
        tensor([[5.],
                [1.]])
    """

    edge_index: Tensor
    weight: Tensor
    num_nodes: int

    def __matmul__(self, h: Tensor) -> Tensor:
        """Ã H, for H of shape [N, d]."""
        source, target = self.edge_index
        return spmm(source, target, self.weight, h)

    def laplacian(self, h: Tensor) -> Tensor:
        """L̃ H = H − Ã H."""
        return h - self @ h


Normalization = Callable[[Tensor, Tensor, Tensor], Tensor]
NORMALIZATIONS: Registry[Normalization] = Registry("normalization")


@NORMALIZATIONS.register("symmetric")
def symmetric(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """D^-½ A D^-½, the paper's choice."""
    return weight * _power(row_sum, -0.5) * _power(column_sum, -0.5)


@NORMALIZATIONS.register("row")
def row(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """D^-1 A: every node takes the mean of its neighbours."""
    return weight * _power(row_sum, -1.0)


@NORMALIZATIONS.register("column")
def column(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """A D^-1: every node spreads itself evenly, as the published code does on Squirrel."""
    return weight * _power(column_sum, -1.0)


class OriginalAdjacency(nn.Module):
    """OA: the normalised adjacency of the graph itself.

    Args:
        normalization: ``"symmetric"``, ``"row"`` or ``"column"``.
        self_loops: Weight of the loop that every node without one receives before
            normalising; 0 adds none.
    """

    def __init__(self, *, normalization: str = "symmetric", self_loops: float = 1.0):
        super().__init__()
        check_not_negative("self_loops", self_loops)
        self.normalize = NORMALIZATIONS[normalization]
        self.self_loops = self_loops
        self.explained = ExplainedEdges()

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Ã of the graph; of ``h0`` only the size and type matter."""
        n = h0.size(0)
        edge_index, weight = _with_self_loops(edge_index, edge_weight, h0, self.self_loops)
        source, target = edge_index
        row_sum = scatter(weight, target, dim_size=n).index_select(0, target)
        column_sum = scatter(weight, source, dim_size=n).index_select(0, source)
        weight = self.normalize(weight, row_sum, column_sum)
        return Adjacency(edge_index, self.explained(weight, n), n)


class SoftAdjacency(nn.Module):
    r"""SA: scaled dot-product attention over the edges.

    Ã[i, j] = mean over heads of softmax_j( q_i · k_j / √d_k ), with q, k linear in H(0) and j
    among the neighbours of i. With edge weights, Ã[i, j] ∝ w_ij exp(q_i · k_j / √d_k).

    Paper: Eq. (9), Sec. 3.2, with the root of d_k where the paper prints d_K.

    Args:
        channels: Width d of the state.
        heads: Number of attention heads.
        attention_channels: Width of all queries together; d_k is this over ``heads``.
        self_loops: Weight of the loop that every node without one receives; 0 adds none.
    """

    def __init__(
        self,
        channels: int,
        *,
        heads: int = 4,
        attention_channels: int = 64,
        self_loops: float = 1.0,
    ):
        super().__init__()
        check_count("heads", heads)
        check_count("attention_channels", attention_channels)
        check_not_negative("self_loops", self_loops)
        if attention_channels % heads:
            raise InputError(
                f"attention_channels must be a multiple of heads ({heads}), "
                f"got {attention_channels}"
            )
        self.heads = heads
        self.self_loops = self_loops
        self.query = nn.Linear(channels, attention_channels)
        self.key = nn.Linear(channels, attention_channels)
        self.explained = ExplainedEdges()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts with equal scores, that is, with the average over the neighbours."""
        for linear in (self.query, self.key):
            linear.reset_parameters()
            nn.init.constant_(linear.weight, 1e-5)

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Ã of the graph and its first state."""
        n = h0.size(0)
        edge_index, weight = _with_self_loops(edge_index, edge_weight, h0, self.self_loops)
        source, target = edge_index
        q = self.query(h0).view(n, self.heads, -1)  # [N, heads, d_k]
        k = self.key(h0).view(n, self.heads, -1)
        scores = (q.index_select(0, target) * k.index_select(0, source)).sum(-1)  # [E, heads]
        attention = softmax(scores / math.sqrt(q.size(-1)), target, num_nodes=n)
        if edge_weight is not None or self.self_loops not in (0, 1):
            weighted = attention * weight.unsqueeze(-1)
            row_sum = scatter(weighted, target, dim_size=n).index_select(0, target)
            attention = weighted * _power(row_sum, -1.0)
        return Adjacency(edge_index, self.explained(attention.mean(-1), n), n)


class ExplainedEdges(MessagePassing):
    """The door through which PyG's explainers reach our edges.

    They look for message passing modules and give them a mask over the edges of
    ``edge_index``; without an explainer this is the identity.
    """

    def forward(self, weight: Tensor, num_nodes: int) -> Tensor:
        """The entries of Ã, times the mask where there is one."""
        if not self.explain:
            return weight
        return self.explain_message(weight.unsqueeze(-1), num_nodes).squeeze(-1)


def build_adjacency(
    kind: str,
    channels: int,
    *,
    normalization: str,
    self_loops: float,
    heads: int,
    attention_channels: int,
) -> nn.Module:
    """The module for ``kind``, ``"original"`` (OA) or ``"soft"`` (SA); each takes what it needs."""
    kinds: Registry[Callable[[], nn.Module]] = Registry(
        "adjacency",
        {
            "original": lambda: OriginalAdjacency(
                normalization=normalization, self_loops=self_loops
            ),
            "soft": lambda: SoftAdjacency(
                channels, heads=heads, attention_channels=attention_channels, self_loops=self_loops
            ),
        },
    )
    return kinds[kind]()


def _with_self_loops(
    edge_index: Tensor, edge_weight: Tensor | None, h0: Tensor, self_loops: float
) -> tuple[Tensor, Tensor]:
    """Edges and raw weights, every node with a loop if ``self_loops`` is not zero."""
    check_edges(edge_index, edge_weight, h0.size(0))
    if edge_weight is None:
        edge_weight = h0.new_ones(edge_index.size(1))
    if self_loops:
        # Loops come last: explainers count on it.
        return add_remaining_self_loops(edge_index, edge_weight, self_loops, h0.size(0))
    return edge_index, edge_weight


def _power(degree: Tensor, exponent: float) -> Tensor:
    """degree^exponent for a negative exponent, zero where the degree is zero."""
    return degree.masked_fill(degree == 0, torch.inf).pow(exponent)
