"""GAT: graph attention, learned in each layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, leaky_relu
from torch_geometric.nn.inits import glorot

from gread.base.checks import check_count
from gread.graph.adjacency import ExplainedEdges, edges_of
from gread.graph.operator import Adjacency
from gread.kernels.operators import product, scores, shares
from gread.models.convolutional import ConvStack, Mix
from gread.models.layers import Dropout

SLOPE = 0.2
"""Negative slope of the leaky ReLU."""


class GAT(ConvStack):
    """Graph attention network: layers of `Attention` with ELU between them.

    Args:
        in_channels, out_channels, num_layers, input_dropout: As in `ConvStack`.
        hidden_channels: Width of one head; the heads of a layer are concatenated.
        heads: Number of heads of hidden layers.
        output_heads: Number of heads of the last layer, which are averaged.
        dropout: Dropout on the hidden states, and on the attention.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        heads: int = 8,
        output_heads: int = 1,
        num_layers: int = 2,
        input_dropout: float = 0.6,
        dropout: float = 0.6,
    ):
        check_count("heads", heads)
        check_count("output_heads", output_heads)
        self.heads, self.output_heads, self.rate = heads, output_heads, dropout
        sizes = in_channels, hidden_channels, out_channels
        super().__init__(
            *sizes, num_layers=num_layers, input_dropout=input_dropout, dropout=dropout
        )

    def mix(self, channels: int, last: bool) -> Mix:
        """The attention of all heads."""
        heads = self.output_heads if last else self.heads
        attention = Attention(channels, heads, self.rate, mean=last)
        return Mix(attention, taken=heads, given=1 if last else heads)

    def activate(self, h: Tensor, number: int) -> Tensor:
        """Apply an ELU."""
        return elu(h)

    def normalized(self) -> nn.Module:
        """A + I without normalization."""
        return Neighbourhoods()


class Neighbourhoods(nn.Module):
    """A + I or A without normalization: edges and weights of the attention."""

    def __init__(self, self_loops: float = 1.0) -> None:
        super().__init__()
        self.explained = ExplainedEdges()
        self.self_loops = self_loops

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Return the edges as an adjacency; only the size and type of ``h0`` are used."""
        edges = edges_of(edge_index, edge_weight, h0, self.self_loops)
        return Adjacency(edges.pattern, self.explained(edges.weight, edges))


class Attention(nn.Module):
    """y_i ↦ Σ_j a_ij y_j, with a_ij ∝ w_ij exp(LeakyReLU(s · y_j + t · y_i)), for every head.

    Args:
        channels: Width of a head.
        heads: Number of heads.
        dropout: Dropout on a.
        mean: Whether the heads are averaged instead of concatenated.
    """

    def __init__(self, channels: int, heads: int, dropout: float, *, mean: bool):
        super().__init__()
        self.source = nn.Parameter(torch.empty(1, heads, channels))
        self.target = nn.Parameter(torch.empty(1, heads, channels))
        self.dropout = Dropout(dropout)
        self.mean = mean
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize s and t."""
        glorot(self.source)
        glorot(self.target)

    def forward(self, y: Tensor, adj: Adjacency) -> Tensor:
        """Map [N, heads · channels] to the same shape, or to [N, channels] for the mean."""
        # [heads, N, channels]
        y = y.unflatten(-1, self.source.shape[1:]).transpose(0, 1).contiguous()
        vectors = torch.stack([self.source[0], self.target[0]], -1)  # [heads, channels, 2]
        source, target = (y @ vectors).transpose(0, 1).split(1, -1)  # [N, heads, 1]
        one = torch.ones_like(source)
        # t · y_i + s · y_j is the dot product of (t · y_i, 1) and (1, s · y_j).
        score = scores(adj.pattern, torch.cat([target, one], -1), torch.cat([one, source], -1))
        weight = self.dropout(
            shares(adj.pattern, leaky_relu(score, SLOPE), adj.weight, mean=False)
        )  # [E, heads]
        # The heads are treated as members of one product.
        gathered = product(adj.pattern, weight.T.contiguous(), y)
        return gathered.mean(0) if self.mean else gathered.transpose(0, 1).flatten(1)
