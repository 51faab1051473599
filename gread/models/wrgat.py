"""WRGAT: attention over the graph and over a multigraph of structurally similar nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu
from torch_geometric.utils import scatter, softmax

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.graph.adjacency import ones_for
from gread.graph.structure.multigraph import RINGS, structural_multigraph
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.operators import product
from gread.kernels.pattern import Pattern, remember
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap

SLOPE = 0.2
"""Negative slope of the leaky ReLU."""


HEAVIEST = 1e12
"""Largest edge weight by which both layers can multiply."""


class Relations(NamedTuple):
    """Pairs of nodes with their relations.

    A place is a slot of a node. Each node has one slot per relation, and a last one for itself.
    """

    pattern: Pattern
    """One row per node and one column per place."""
    target: Tensor
    """Place of the target of a pair, [P]."""
    weight: Tensor
    """Weight of the pair, divided by the number of pairs into its place, [P]."""


class WeightedRelationalAttention(nn.Module):
    """out_i = Σ_r 1 / |N_r(i)| Σ_{j ∈ N_r(i)} w_ij α^r_ij W_r h_j + W h_i + b.

    α^r_ij is the softmax over j in N_r(i) of LeakyReLU(a_r · [W_r h_i ‖ W_r h_j]).

    Args:
        linear: H ↦ H [W_0, ..., W_R, W], without bias.
        in_channels: Width of H.
        channels: Width of the result.
        slots: Number of relations plus one.
    """

    def __init__(self, linear: nn.Module, in_channels: int, channels: int, slots: int):
        super().__init__()
        self.linear = linear
        self.in_channels = in_channels
        self.query = nn.Parameter(torch.empty(slots - 1, channels))  # a_r in two parts
        self.key = nn.Parameter(torch.empty(slots - 1, channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Apply Glorot initialization to every matrix, and set the bias to zero."""
        channels = self.bias.numel()
        bound = (6 / (self.in_channels + channels)) ** 0.5
        for parameter in self.linear.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        bound = (6 / (2 * channels + 1)) ** 0.5
        nn.init.uniform_(self.query, -bound, bound)
        nn.init.uniform_(self.key, -bound, bound)
        nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, graphs: Sequence[Relations]) -> Tensor:
        """Compute the result, [N, channels]."""
        slots = self.query.size(0) + 1
        mapped = self.linear(h).unflatten(-1, (slots, -1))  # [N, slots, channels]
        queries, keys = ((mapped[:, :-1] * part).sum(-1) for part in (self.query, self.key))
        places, out = mapped.flatten(0, 1), mapped[:, -1] + self.bias
        for pattern, target, weight in graphs:
            score = _at(queries, target) + _at(keys, pattern.rows.column)
            attention = softmax(leaky_relu(score, SLOPE), target, num_nodes=len(places))
            out = out + product(pattern, weight * attention, places)
        return out


def _at(scores: Tensor, places: Tensor) -> Tensor:
    """Look up scores [N, relations] at places; each node has one slot more than relations."""
    slots = scores.size(1) + 1
    return scores.flatten().index_select(0, places - places // slots)


class WRGAT(LayeredGNN):
    """Two layers of weighted relational attention with ReLU and dropout between them.

    Relation 0 has the edges of the graph, without loops; the other relations are those of
    `gread.graph.structure.multigraph`.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        num_rings: Number of relations of the multigraph to use.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_rings: int = 5,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_rings", num_rings, minimum=0)
        if num_rings > RINGS:
            raise InputError(f"num_rings must be at most {RINGS}, got {num_rings}")
        self.slots = num_rings + 2
        words = FeatureMap(in_channels, self.slots * hidden_channels, input_dropout, bias=False)
        self.first = WeightedRelationalAttention(words, in_channels, hidden_channels, self.slots)
        self.dropout = Dropout(dropout)
        states = nn.Linear(hidden_channels, self.slots * out_channels, bias=False)
        self.second = WeightedRelationalAttention(states, hidden_channels, out_channels, self.slots)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        multigraph_index: Tensor | None = None,
        multigraph_type: Tensor | None = None,
        multigraph_weight: Tensor | None = None,
    ) -> Tensor:
        """Logits [N, classes] from features [N, F].

        ``multigraph_index`` [2, P] are pairs (source, target) of similar nodes. The relation of
        each, from 1, is in ``multigraph_type`` [P], and its w in ``multigraph_weight`` [P].
        """
        self.check(x, edge_index, edge_weight)
        alike = multigraph_index, multigraph_type, multigraph_weight
        return self.decode(self.states(x, self.operator(x, edge_index, edge_weight, *alike)))

    def operator(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, *alike: Tensor | None
    ) -> tuple[Relations, Relations]:
        """Return the edges, and the pairs of similar nodes, which are computed if not given."""
        if edge_weight is not None and values_can_be_read() and (edge_weight > HEAVIEST).any():
            raise InputError(
                f"edge_weight must be {HEAVIEST:g} at most for WRGAT, which multiplies by it in "
                f"both layers, got {edge_weight.max().item():g}"
            )
        n = x.size(0)
        known: Sequence[Tensor] = [tensor for tensor in alike if tensor is not None]
        if len(known) < 3:
            key = ("multigraph", n)
            known = remember(edge_index, key, lambda: structural_multigraph(edge_index, n))
        return self._edges(x, edge_index, edge_weight), self._alike(x, *known)

    def states(self, x: Tensor, adj: tuple[Relations, Relations]) -> list[Tensor]:
        """Return X, the state between the layers and the logits."""
        h = self.dropout(self.first(x, adj).relu())
        return [x, h, self.second(h, adj)]

    def _edges(self, x: Tensor, index: Tensor, weight: Tensor | None) -> Relations:
        def found() -> Relations:
            kept = index[0] != index[1]
            pairs, ones = index[:, kept], ones_for(x, index.size(1))
            weights = (ones if weight is None else weight)[kept]
            return _related(pairs, torch.zeros_like(pairs[0]), weights, x.size(0), self.slots)

        key = ("wrgat", self.slots, x.size(0), x.dtype)
        return remember(index, key, found, when=weight is None)

    def _alike(self, x: Tensor, index: Tensor, kind: Tensor, weight: Tensor) -> Relations:
        def found() -> Relations:
            kept = kind < self.slots - 1
            weights = weight[kept].to(x.dtype)
            return _related(index[:, kept], kind[kept], weights, x.size(0), self.slots)

        return remember(index, ("wrgat", self.slots, x.size(0), x.dtype), found)


def _related(pairs: Tensor, kind: Tensor, weight: Tensor, n: int, slots: int) -> Relations:
    source, target = pairs
    pattern, order = Pattern.from_entries(target, source * slots + kind, (n, n * slots))
    into = (target * slots + kind)[order]
    weight = weight.index_select(0, order)
    count = scatter(torch.ones_like(weight), into, dim_size=n * slots)
    return Relations(pattern, into, weight / count.index_select(0, into))
