"""LINKX: separate MLPs for features and adjacency."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm

from gread.base.checks import check_count
from gread.graph.adjacency import edges_of
from gread.graph.operator import Adjacency
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap, RowMap


class LINKX(LayeredGNN):
    """ŷ = MLP_f(ReLU(W [a ‖ b] + a + b)), a = MLP_A(A), b = MLP_X(X).

    Row i of A, which lists the neighbours of node i, is a feature vector, as is row i of X.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout: As in `LayeredGNN`.
        num_nodes: Length of a row of A.
        num_edge_layers: Linear maps in MLP_A.
        num_node_layers: Linear maps in MLP_X.
        num_layers: Linear maps in MLP_f.
        dropout: Dropout in MLP_f; the other two have none.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_nodes: int,
        num_edge_layers: int = 1,
        num_node_layers: int = 1,
        num_layers: int = 2,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
    ):
        super().__init__(
            in_channels, hidden_channels, out_channels, input_dropout, dropout, num_nodes
        )
        check_count("num_edge_layers", num_edge_layers)
        check_count("num_node_layers", num_node_layers)
        check_count("num_layers", num_layers)
        width = hidden_channels
        self.edge_map = RowMap(num_nodes, width, 0.0)
        self.edge_mlp = _rest([width] * num_edge_layers)
        self.node_map = FeatureMap(in_channels, width, input_dropout)
        self.node_mlp = _rest([width] * num_node_layers)
        self.mix = nn.Linear(2 * width, width)
        first = nn.Linear(width, width if num_layers > 1 else out_channels)
        self.final_mlp = nn.Sequential(
            first, *_rest([width] * (num_layers - 1) + [out_channels], dropout)
        )

    def operator(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Adjacency:
        """Return A, with one entry per edge and zeros for self loops."""
        edges = edges_of(edge_index, edge_weight, x, 0.0)
        rows = edges.pattern.rows
        return Adjacency(edges.pattern, edges.weight * (rows.numbers() != rows.column))

    def states(self, x: Tensor, adj: Adjacency) -> list[Tensor]:
        """Return X, the hidden state and the logits."""
        a = self.edge_mlp(self.edge_map(adj))
        b = self.node_mlp(self.node_map(x))
        h = (self.mix(torch.cat([a, b], dim=-1)) + a + b).relu()
        return [x, h, self.final_mlp(h)]


def _rest(widths: list[int], dropout: float = 0.0) -> nn.Sequential:
    """ReLU, batch norm, dropout and a linear map, for every width after the first."""
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        norm = BatchNorm(before, allow_single_element=True)
        parts += [nn.ReLU(), norm, Dropout(dropout), nn.Linear(before, after)]
    return nn.Sequential(*parts)
