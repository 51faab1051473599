"""Geom-GCN: separate convolutions by the position of a neighbour in a plane."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn
from torch_geometric.utils import scatter

from gread.base.errors import InputError
from gread.graph.adjacency import ones_for
from gread.graph.operator import Adjacency
from gread.graph.structure.relations import NUM_RELATIONS, computed_relations
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.pattern import Pattern, remember
from gread.models.base import LayeredGNN
from gread.models.convolutional import Layer, Mix, feature_layer
from gread.models.layers import Dropout


class Operators(NamedTuple):
    """The nine normalized adjacencies S_r as one matrix, for concatenated and for summed results.

    Each column is a pair of a node and a relation, ordered by node.
    """

    apart: Adjacency
    """One row for every node and relation, for concatenated results."""
    together: Adjacency
    """One row for every node, for the sum of the results."""


def side_by_side(y: Tensor, adj: Operators) -> Tensor:
    """Concatenate S_r Y_r of all nine relations r, [N, 9 · channels] to the same shape."""
    return (adj.apart @ _by_relation(y)).view(y.size(0), -1)


def mean(y: Tensor, adj: Operators) -> Tensor:
    """Compute the mean of S_r Y_r over r, [N, 9 · channels] to [N, channels]."""
    return adj.together @ _by_relation(y) / NUM_RELATIONS


def _by_relation(y: Tensor) -> Tensor:
    """Reshape to one row for every node and relation."""
    return y.view(-1, y.size(1) // NUM_RELATIONS)


class GeomGCN(LayeredGNN):
    """Two layers: nine concatenated convolutions S_r H W_r and a ReLU, then the mean of nine.

    S_r[i, j] = 1 / √(d_i d_j) for the pairs j → i of relation r, where d counts the pairs into a
    node over all relations. The relations are those of `gread.graph.structure.relations`.

    Args:
        in_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        hidden_channels: Width of each convolution of the first layer.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        width = NUM_RELATIONS * hidden_channels
        apart = Mix(side_by_side, taken=NUM_RELATIONS, given=NUM_RELATIONS, bias=False)
        self.first = feature_layer(in_channels, hidden_channels, apart, input_dropout)
        self.dropout = Dropout(dropout)
        states = nn.Linear(width, NUM_RELATIONS * out_channels, bias=False)
        self.second = Layer(width, out_channels, Mix(mean, bias=False), states)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        relation_index: Tensor | None = None,
        relation_type: Tensor | None = None,
    ) -> Tensor:
        """Logits [N, classes] from features [N, F]; ``edge_weight`` must be ones.

        ``relation_index`` [2, P] are pairs (source, target), including self loops, and
        ``relation_type`` [P] is the relation of each, 0 to 8.
        """
        self.check(x, edge_index, edge_weight)
        relations = relation_index, relation_type
        return self.decode(self.states(x, self.operator(x, edge_index, edge_weight, *relations)))

    def operator(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        pairs: Tensor | None = None,
        kind: Tensor | None = None,
    ) -> Operators:
        """Compute S_r from pairs and their relations; by default from the graph."""
        if edge_weight is not None and values_can_be_read() and not (edge_weight == 1).all():
            raise InputError(
                "edge_weight must be one everywhere: Geom-GCN does not support edge weights"
            )
        n = x.size(0)
        if pairs is None or kind is None:
            key = ("relations", n)
            pairs, kind = remember(edge_index, key, lambda: computed_relations(edge_index, n))
        known = pairs, kind
        return remember(pairs, ("geom-gcn", x.dtype, n), lambda: _operators(*known, x))

    def states(self, x: Tensor, adj: Operators) -> list[Tensor]:
        """Return X, the state between the layers and the logits."""
        h = self.first(x, adj).relu()
        return [x, h, self.second(self.dropout(h), adj)]


def _operators(pairs: Tensor, kind: Tensor, x: Tensor) -> Operators:
    n = x.size(0)
    source, target = pairs
    root = scatter(ones_for(x, target.numel()), target, dim_size=n).rsqrt()
    weight = root[source] * root[target]
    row, column = target * NUM_RELATIONS + kind, source * NUM_RELATIONS + kind
    many = n * NUM_RELATIONS
    apart, order = Pattern.from_entries(row, column, (many, many))
    together, other_order = Pattern.from_entries(target, column, (n, many))
    return Operators(Adjacency(apart, weight[order]), Adjacency(together, weight[other_order]))
