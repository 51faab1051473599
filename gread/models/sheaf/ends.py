"""The ends of edges, where the maps of a sheaf stand."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from gread.kernels.operators import product
from gread.kernels.pattern import Pattern, remember


class Ends(NamedTuple):
    """The ends of all edges, those at node 0 first; of an edge between u and v they are two."""

    pattern: Pattern
    """The end at u has the place (u, v), [N, N]."""
    at: Pattern
    """Which ends a node has, [N, E]."""
    pairs: Pattern
    """Of every end the columns u and N + v, [E, 2N]."""
    weight: Tensor
    """Of the edge, [E]."""
    ones: Tensor
    """As many as ``pairs`` has entries, [2E]."""

    @staticmethod
    def of(edge_index: Tensor, weight: Tensor, num_nodes: int) -> Ends:
        """Of the undirected graph without its loops, where a map would meet itself."""
        edge_index, weight = remove_self_loops(edge_index, weight)
        edge_index, weight = to_undirected(edge_index, weight, num_nodes, reduce="mean")
        (u, v), count = edge_index, edge_index.size(1)
        end = torch.arange(count, device=u.device)
        pattern, order = Pattern.from_entries(u, v, (num_nodes, num_nodes))
        at, _ = Pattern.from_entries(u[order], end, (num_nodes, count))
        both = torch.cat([u[order], v[order] + num_nodes])
        pairs, _ = Pattern.from_entries(end.repeat(2), both, (count, 2 * num_nodes))
        return Ends(pattern, at, pairs, weight[order], weight.new_ones(2 * count))

    def sum(self, values: Tensor) -> Tensor:
        """The weighted sum over the ends of every node, [..., E] to [N, ...]."""
        found = product(self.at, self.weight, values.flatten(0, -2).T.contiguous())
        return found.unflatten(1, values.shape[:-1])

    def across(self, values: Tensor) -> Tensor:
        """What stands at the other end of the same edge, [..., E].

        In a symmetric pattern, column after column is the other end after the other end.
        """
        return _Exchanged.apply(values, self.pattern.order)


class _Exchanged(torch.autograd.Function):
    """values[..., order] for an order that is its own inverse: no sum is needed to go back."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return values.flatten(0, -2).index_select(1, order).view_as(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Exchanged.apply(grad, *ctx.saved_tensors), None


def ends_of(edge_index: Tensor, edge_weight: Tensor | None, x: Tensor) -> Ends:
    """Of the edges of the graph, found once where they have no weights."""
    n = x.size(0)
    if edge_weight is not None:
        return Ends.of(edge_index, edge_weight, n)
    ones = partial(x.new_ones, edge_index.size(1))
    key = "sheaf", n, x.dtype
    return remember(edge_index, key, lambda: Ends.of(edge_index, ones(), n))
