"""FA-GCN: signed attention from −1 to 1."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gread.base.checks import check_count, check_fraction
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Adjacency
from gread.kernels.pattern import Pattern
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap

GAIN = 2**0.5
"""Gain of the authors' weight initialization."""


class FAGCN(LayeredGNN):
    """h_i ↦ ε h_i(0) + Σ_j tanh(g · [h_i ‖ h_j] + c) S_ij h_j, with S = D^-½ A D^-½, no loops.

    H(0) = Dropout(ReLU(W Dropout(X) + b)).

    Args:
        in_channels, hidden_channels, out_channels, input_dropout: As in `LayeredGNN`.
        eps: ε, the weight of H(0) in every layer.
        num_layers: Number of layers, each with its own gate (g, c).
        dropout: Dropout on H(0), and on the entries of every layer.
    """

    decoder: nn.Linear

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
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_fraction("eps", eps)
        check_count("num_layers", num_layers)
        self.encoder = FeatureMap(in_channels, hidden_channels, input_dropout)
        self.adjacency = OriginalAdjacency(self_loops=0.0, own_loops=False)
        self.gates = nn.ModuleList(SignedAttention(hidden_channels) for _ in range(num_layers))
        self.decoder = nn.Linear(hidden_channels, out_channels)
        self.dropout = Dropout(dropout)
        self.eps = eps
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, weights as in the authors' code."""
        super().reset_parameters()
        for part in (self.encoder, self.decoder):
            nn.init.xavier_normal_(part.weight, gain=GAIN)

    def states(self, x: Tensor, adj: Adjacency) -> list[Tensor]:
        """H⁰, and the state after every layer."""
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
        """Reinitialize g and c."""
        self.gate.reset_parameters()
        nn.init.xavier_normal_(self.gate.weight, gain=GAIN)

    def forward(self, h: Tensor, pattern: Pattern) -> Tensor:
        """Map [N, channels] to [E]; the two halves of g apply to h_i and h_j."""
        own, other = linear(h, self.gate.weight.view(2, -1)).unbind(1)
        rows = pattern.rows
        scores = own.index_select(0, rows.numbers()) + other.index_select(0, rows.column)
        return torch.tanh(scores + self.gate.bias)
