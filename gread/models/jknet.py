"""JKNet: every node chooses from the states of all layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import JumpingKnowledge
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_sizes
from gread.base.errors import InputError
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.checks import check_edges, check_features
from gread.models.convolutional import Mix, feature_layer, gather, hidden_layer
from gread.models.layers import Dropout

JUMPS = ("cat", "max", "lstm")


class JKNet(nn.Module):
    """H_l = ReLU(D^-½ (A + I) D^-½ H_{l−1} W_l + b_l), and a linear map of all of them together.

    Args:
        in_channels: Number of features.
        hidden_channels: Width of every layer.
        out_channels: Number of classes.
        jump: How the layers come together: ``"cat"`` side by side, ``"max"`` the largest by
            element, ``"lstm"`` a weighted sum, with weights from a bidirectional LSTM.
        num_layers: How many.
        input_dropout: Dropout on the features.
        dropout: Dropout on the states.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        jump: str = "cat",
        num_layers: int = 2,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__()
        check_count("num_layers", num_layers)
        check_sizes(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        if jump not in JUMPS:
            raise InputError(f"unknown jump {jump!r}; choose from: {', '.join(JUMPS)}")
        self.in_channels = in_channels
        self.adjacency = OriginalAdjacency()
        self.layers = nn.ModuleList(
            hidden_layer(hidden_channels, hidden_channels, Mix(gather), 0.0)
            if number
            else feature_layer(in_channels, hidden_channels, Mix(gather), input_dropout)
            for number in range(num_layers)
        )
        self.dropout = Dropout(dropout)
        self.jump = JumpingKnowledge(jump, hidden_channels, num_layers)
        width = hidden_channels * (num_layers if jump == "cat" else 1)
        self.decoder = nn.Linear(width, out_channels)

    def reset_parameters(self) -> None:
        """Draws every parameter anew."""
        for part in self.children():
            reset(part)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        return self.decoder(self.jump(self.hidden_states(x, edge_index, edge_weight)[1:]))

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """X, and the state behind every layer."""
        check_features("x", x, self.in_channels)
        check_edges(edge_index, edge_weight, x)
        adj = self.adjacency(x, edge_index, edge_weight)
        states = [x]
        for layer in self.layers:
            states.append(self.dropout(torch.relu(layer(states[-1], adj))))
        return states
