"""JKNet: jumping connections from all layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import JumpingKnowledge

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.models.base import LayeredGNN
from gread.models.convolutional import Mix, feature_layer, gather, hidden_layer
from gread.models.layers import Dropout

JUMPS = ("cat", "max", "lstm")


class JKNet(LayeredGNN):
    """H_l = ReLU(D^-½ (A + I) D^-½ H_{l−1} W_l + b_l), and a linear map of all H_l combined.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        jump: How the layers are combined: ``"cat"`` by concatenation, ``"max"`` by the element-wise
            maximum, ``"lstm"`` by a weighted sum, with weights from a bidirectional LSTM.
        num_layers: Number of layers.
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
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_layers", num_layers)
        if jump not in JUMPS:
            raise InputError(f"unknown jump {jump!r}; choose from: {', '.join(JUMPS)}")
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

    def decode(self, states: list[Tensor]) -> Tensor:
        """Apply the linear map to the combined layers."""
        if self.jump.mode != "lstm":
            return self.decoder(self.jump(states[1:]))
        # The cuDNN kernel waits until all its thread blocks run. The kernels of two processes that
        # share a GPU deadlock.
        with torch.backends.cudnn.flags(enabled=False):
            return self.decoder(self.jump(states[1:]))

    def states(self, x: Tensor, adj: Operator) -> list[Tensor]:
        """Return X and the state after every layer."""
        states = [x]
        for layer in self.layers:
            states.append(self.dropout(torch.relu(layer(states[-1], adj))))
        return states
