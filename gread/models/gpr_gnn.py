"""GPR-GNN: predictions from node features, propagated by a learned polynomial of Ã."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gread.base.checks import check_count, check_fraction, check_rate
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, build_decoder, build_encoder


class GPRGNN(LayeredGNN):
    """Σ_k γ_k Ã^k Z, k = 0 to order, where Z is a perceptron of X and Ã = D^-½ (A + I) D^-½.

    γ is initialized to personalized PageRank, γ_k = α (1 − α)^k and γ_order = (1 − α)^order. It may
    become negative, and has no weight decay.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        order: The highest power of Ã.
        alpha: α; initially, 1 uses only the perceptron, and 0 only the highest power.
        propagation_dropout: Dropout on Z.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        order: int = 10,
        alpha: float = 0.1,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
        propagation_dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("order", order)
        check_fraction("alpha", alpha)
        check_rate("propagation_dropout", propagation_dropout)
        self.encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        self.decoder = build_decoder("linear", hidden_channels, out_channels, dropout, True)
        self.dropout = Dropout(propagation_dropout)
        self.adjacency = OriginalAdjacency()
        self.gamma = nn.Parameter(torch.empty(order + 1))
        self.alpha = alpha
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the perceptron, and reset the filter to PageRank."""
        super().reset_parameters()
        powers = (1 - self.alpha) ** torch.arange(self.gamma.numel())
        with torch.no_grad():
            self.gamma.copy_(self.alpha * powers)
            self.gamma[-1] = powers[-1]

    def parameter_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups; γ has no weight decay."""
        parts = (self.encoder, self.decoder)
        others = [parameter for part in parts for parameter in part.parameters()]
        return [
            {"params": others, "weight_decay": weight_decay},
            {"params": [self.gamma], "weight_decay": 0.0},
        ]

    def decode(self, states: list[Tensor]) -> Tensor:
        """Compute Σ_k γ_k Ã^k Z."""
        total = self.gamma[0] * states[0]
        for gamma, z in zip(self.gamma[1:], states[1:], strict=True):
            total = total + gamma * z
        return total

    def states(self, x: Tensor, adj: Operator) -> list[Tensor]:
        """Compute Z, Ã Z, Ã² Z, ..., one state for each weight γ_k."""
        states = [self.dropout(self.decoder(self.encoder(x)))]
        for _ in self.gamma[1:]:
            states.append(adj @ states[-1])
        return states
