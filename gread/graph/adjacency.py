"""The operator Ã: normalized adjacency (original, OA) or attention over edges (soft, SA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import scatter

from gread.base.checks import check_count, check_not_negative
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.graph.checks import check_edges
from gread.graph.operator import Edges, EdgeSource, Operator, entries_of
from gread.kernels.operators import attention
from gread.kernels.pattern import remember

Normalization = Callable[[Tensor, Tensor, Tensor], Tensor]
NORMALIZATIONS: Registry[Normalization] = Registry("normalization")


@NORMALIZATIONS.register("symmetric")
def symmetric(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """Symmetric normalization D^-½ A D^-½, as in the paper."""
    return weight * _power(row_sum, -0.5) * _power(column_sum, -0.5)


@NORMALIZATIONS.register("row")
def row(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """Row normalization D^-1 A: the mean over neighbours."""
    return weight * _power(row_sum, -1.0)


@NORMALIZATIONS.register("column")
def column(weight: Tensor, row_sum: Tensor, column_sum: Tensor) -> Tensor:
    """Column normalization A D^-1, which the published code uses on Squirrel."""
    return weight * _power(column_sum, -1.0)


class OriginalAdjacency(nn.Module):
    """Normalized adjacency of the graph (OA).

    Args:
        normalization: ``"symmetric"``, ``"row"`` or ``"column"``.
        self_loops: Weight of the self loop that is added to every node without one, before
            normalization; 0 adds none.
        own_loops: Whether a self loop of the graph keeps its weight; otherwise its weight
            is ``self_loops``.

    Example:
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> adjacency = OriginalAdjacency(normalization="row", self_loops=0.0)
        >>> h = torch.tensor([[0.0], [1.0], [4.0]])
        >>> (adjacency(h, edges) @ h).flatten().tolist()
        [1.0, 2.0, 1.0]
    """

    def __init__(
        self, *, normalization: str = "symmetric", self_loops: float = 1.0, own_loops: bool = True
    ):
        super().__init__()
        check_not_negative("self_loops", self_loops)
        self.normalize = NORMALIZATIONS[normalization]
        self.self_loops = self_loops
        self.own_loops = own_loops
        self.explained = ExplainedEdges()

    def forward(
        self, h0: Tensor, edge_index: Tensor | EdgeSource, edge_weight: Tensor | None = None
    ) -> Operator:
        """Compute Ã of the graph; only the size and type of ``h0`` are used."""
        edges = edges_of(edge_index, edge_weight, h0, self.self_loops)
        fixed = edge_weight is None and not self.explained.explain
        key = (self.normalize, self.self_loops, self.own_loops, h0.dtype, h0.size(-2))
        return remember(
            edge_index if isinstance(edge_index, Tensor) else edge_index.edge_index,
            key,
            lambda: edges.operator(self._normalized(edges), find_symmetry=fixed),
            when=fixed,
        )

    def _normalized(self, edges: Edges) -> Tensor:
        """The entries of Ã, [E]."""
        rows, weight = edges.pattern.rows, edges.weight
        target, source = rows.numbers(), rows.column
        if not self.own_loops:
            weight = torch.where(target == source, self.self_loops, weight)
        row_sum = scatter(weight, target, dim_size=edges.num_nodes).index_select(0, target)
        column_sum = scatter(weight, source.long(), dim_size=edges.pattern.num_columns)
        column_sum = edges.reach(edges.collect(column_sum))
        weight = self.normalize(weight, row_sum, column_sum.index_select(0, source))
        return self.explained(weight, edges)


class Queries(nn.Module):
    """Queries and keys of every head, linear in the state.

    Args:
        channels: Width of the state.
        heads: Number of heads.
        attention_channels: Total width of the queries of all heads; d_k is this divided by
            ``heads``.
    """

    def __init__(self, channels: int, heads: int, attention_channels: int):
        super().__init__()
        check_count("heads", heads)
        check_count("attention_channels", attention_channels)
        if attention_channels % heads:
            wanted = f"attention_channels must be a multiple of heads ({heads})"
            raise InputError(f"{wanted}, got {attention_channels}")
        self.heads = heads
        self.query = nn.Linear(channels, attention_channels)
        self.key = nn.Linear(channels, attention_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize with nearly equal scores, so that Ã is the average over neighbours."""
        for linear in (self.query, self.key):
            linear.reset_parameters()
            nn.init.constant_(linear.weight, 1e-5)

    def queries_and_keys(
        self, h: Tensor, reach: Callable[[Tensor], Tensor] = lambda keys: keys
    ) -> tuple[Tensor, Tensor]:
        """Queries [N, heads, d_k], and keys of the nodes that `Edges.reach` returns."""
        q, k = self.query(h), reach(self.key(h))
        return q.unflatten(-1, (self.heads, -1)), k.unflatten(-1, (self.heads, -1))


class SoftAdjacency(Queries):
    r"""Soft adjacency (SA): scaled dot-product attention over the edges.

    Ã[i, j] = mean over heads of softmax_j( q_i · k_j / √d_k ), with q, k linear in H(0) and j
    among the neighbours of i. With edge weights, Ã[i, j] ∝ w_ij exp(q_i · k_j / √d_k).

    Paper: Eq. (9), Sec. 3.2, with √d_k instead of the printed d_K.

    Args:
        channels, heads, attention_channels: As in `Queries`.
        self_loops: Weight of the self loop that is added to every node without one; 0 adds none.

    Example:
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> h0 = torch.randn(3, 4)
        >>> rows = SoftAdjacency(4)(h0, edges) @ torch.ones(3, 1)
        >>> torch.allclose(rows, torch.ones(3, 1))
        True
    """

    def __init__(
        self, channels: int, *, heads: int = 4, attention_channels: int = 64, self_loops: float = 1
    ):
        super().__init__(channels, heads, attention_channels)
        check_not_negative("self_loops", self_loops)
        self.self_loops = self_loops
        self.explained = ExplainedEdges()

    def forward(
        self, h0: Tensor, edge_index: Tensor | EdgeSource, edge_weight: Tensor | None = None
    ) -> Operator:
        """Compute Ã from the graph and H(0)."""
        edges = edges_of(edge_index, edge_weight, h0, self.self_loops)
        plain = edge_weight is None and self.self_loops in (0, 1) and not edges.weighted
        q, k = self.queries_and_keys(h0, edges.reach)
        weight = attention(edges.pattern, q, k, None if plain else edges.weight)
        return edges.operator(self.explained(weight, edges))


class ExplainedEdges(MessagePassing):
    """Message passing module through which PyG's explainers mask edges.

    Explainers set a mask over the edges of ``edge_index`` on such modules. Without an explainer
    this is the identity.
    """

    def forward(self, weight: Tensor, edges: Edges) -> Tensor:
        """The entries of Ã, multiplied by the mask if there is one."""
        if not self.explain:
            return weight
        mask: Tensor = self._edge_mask.sigmoid() if self._apply_sigmoid else self._edge_mask
        if edges.looped:  # `MessagePassing.explain_message` sees this only if the number changes
            mask = torch.cat([mask[self._loop_mask], mask.new_ones(edges.num_nodes)])
        if len(mask) != len(edges.order):  # the mask is for other edges, such as one hop for two
            raise ValueError(f"the mask must have {len(edges.order)} entries, got {len(mask)}")
        return weight * mask[edges.order]

    def propagate(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error, because explained edges pass no messages.

        For a class without this method, PyG writes a file into the temporary folder in every
        process and does not delete it.
        """
        raise TypeError("explained edges pass no messages")


def edges_of(
    edge_index: Tensor | EdgeSource, edge_weight: Tensor | None, h0: Tensor, self_loops: float
) -> Edges:
    """Edges of a graph or a shard as a matrix.

    Args:
        edge_index: Edges [2, E], or a shard with its own weights.
        edge_weight: Weights of the edges, [E]; by default all are 1.
        h0: A state [N, d], which gives the number of nodes and the number type.
        self_loops: Weight of the self loop that is added to every node without one; 0 adds none.
    """
    check_edges(edge_index, edge_weight, h0)
    if not isinstance(edge_index, Tensor):
        return edge_index.edges(h0, self_loops)
    n = h0.size(-2)

    def found() -> Edges:
        weight = ones_for(h0, edge_index.size(1)) if edge_weight is None else edge_weight
        entries = entries_of(edge_index, weight, (n, n), self_loops)
        return Edges(*entries, looped=bool(self_loops))

    return remember(edge_index, (self_loops, n, h0.dtype), found, when=edge_weight is None)


def ones_for(x: Tensor, count: int) -> Tensor:
    """Ones [count] with the type and device of the features, which may be sparse."""
    return torch.ones(count, dtype=x.dtype, device=x.device)


def _power(degree: Tensor, exponent: float) -> Tensor:
    """degree^exponent for a negative exponent; zero if the degree is zero."""
    return degree.masked_fill(degree == 0, torch.inf).pow(exponent)
