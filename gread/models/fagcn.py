"""FA-GCN: attention from −1 to 1, so that neighbours can be told apart as well as blended."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_fraction, check_sizes
from gread.graph.adjacency import Adjacency, OriginalAdjacency
from gread.graph.checks import check_edges, check_features
from gread.kernels.pattern import Pattern
from gread.models.layers import Dropout, FeatureMap

GAIN = 2**0.5
"""With which its authors draw the weights."""


class FAGCN(nn.Module):
    """h_i ↦ ε h_i(0) + Σ_j tanh(g · [h_i ‖ h_j] + c) S_ij h_j, with S = D^-½ A D^-½, no loops.

    H(0) = Dropout(ReLU(W Dropout(X) + b)).

    Args:
        in_channels: Number of features.
        hidden_channels: Width of the state.
        out_channels: Number of classes.
        eps: ε, how much of H(0) every layer takes.
        num_layers: How many, each with a gate (g, c) of its own.
        input_dropout: Dropout on the features.
        dropout: Dropout on H(0), and on the entries of every layer.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        eps: float = 0.3,
        num_layers: int = 2,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__()
        check_fraction("eps", eps)
        check_count("num_layers", num_layers)
        check_sizes(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        self.in_channels = in_channels
        self.encoder = FeatureMap(in_channels, hidden_channels, input_dropout)
        self.adjacency = OriginalAdjacency(self_loops=0.0, own_loops=False)
        self.gates = nn.ModuleList(SignedAttention(hidden_channels) for _ in range(num_layers))
        self.decoder = nn.Linear(hidden_channels, out_channels)
        self.dropout = Dropout(dropout)
        self.eps = eps
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws every parameter anew, weights as its authors do."""
        for part in self.children():
            reset(part)
        for part in (self.encoder, self.decoder):
            nn.init.xavier_normal_(part.weight, gain=GAIN)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        return self.decoder(self.hidden_states(x, edge_index, edge_weight)[-1])

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """H⁰, and the state behind every layer."""
        check_features("x", x, self.in_channels)
        check_edges(edge_index, edge_weight, x)
        adj = self.adjacency(x, edge_index, edge_weight)
        states = [self.dropout(torch.relu(self.encoder(x)))]
        for gate in self.gates:
            h = states[-1]
            signed = Adjacency(adj.pattern, self.dropout(gate(h, adj.pattern) * adj.weight))
            states.append(self.eps * states[0] + signed @ h)
        return states


class SignedAttention(nn.Module):
    """tanh(g · [h_i ‖ h_j] + c) for every entry (i, j) of a matrix, [E]."""

    def __init__(self, channels: int):
        super().__init__()
        self.gate = nn.Linear(2 * channels, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws g and c anew."""
        self.gate.reset_parameters()
        nn.init.xavier_normal_(self.gate.weight, gain=GAIN)

    def forward(self, h: Tensor, pattern: Pattern) -> Tensor:
        """[N, channels] to [E]; g is one map for either end."""
        own, other = linear(h, self.gate.weight.view(2, -1)).unbind(1)
        rows = pattern.rows
        scores = own.index_select(0, rows.numbers()) + other.index_select(0, rows.column)
        return torch.tanh(scores + self.gate.bias)
