"""GCNII: deep layers with initial residual and identity mapping."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gread.base.checks import check_count, check_fraction, check_not_negative
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, build_decoder, build_encoder


class GCNII(LayeredGNN):
    """H ↦ ReLU((1 − θ_l) P + θ_l P W_l), with P = (1 − α) Ã H + α H(0) and θ_l = log(λ / l + 1).

    H(0) = ReLU(W Dropout(X) + b), and Ã = D^-½ (A + I) D^-½. GCNII*, the variant of the same paper,
    has separate weights for the smoothed and the initial state: θ_l (Ã H W_l + H(0) V_l) instead of
    θ_l P W_l.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout: As in `LayeredGNN`.
        alpha: α, the weight of H(0) in every layer.
        strength: λ, the strength of the weights relative to the identity.
        num_layers: Number of layers.
        variant: Whether to use GCNII*.
        dropout: Dropout on the state before every layer, and before the decoder.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        alpha: float = 0.1,
        strength: float = 0.5,
        num_layers: int = 8,
        variant: bool = False,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_fraction("alpha", alpha)
        check_not_negative("strength", strength)
        check_count("num_layers", num_layers)
        self.encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        self.adjacency = OriginalAdjacency()
        self.weights = nn.ParameterList(
            torch.empty((1 + variant) * hidden_channels, hidden_channels)  # W_l, or [W_l; V_l]
            for _ in range(num_layers)
        )
        self.dropout = Dropout(dropout)
        self.decoder = build_decoder("linear", hidden_channels, out_channels, dropout, False)
        self.alpha = alpha
        self.strength = strength
        self.variant = variant
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters; W and V uniform within 1 / √width, as published."""
        super().reset_parameters()
        for weight in self.weights:
            bound = weight.size(1) ** -0.5
            nn.init.uniform_(weight, -bound, bound)

    def states(self, x: Tensor, adj: Operator) -> list[Tensor]:
        """H⁰, and the state after every layer."""
        states = [torch.relu(self.encoder(x))]
        for number, weight in enumerate(self.weights, start=1):
            theta = math.log(self.strength / number + 1)
            smoothed = adj @ self.dropout(states[-1])
            p = (1 - self.alpha) * smoothed + self.alpha * states[0]
            weighed = torch.cat([smoothed, states[0]], dim=1) if self.variant else p
            states.append(torch.relu(torch.addmm(p, weighed, weight, beta=1 - theta, alpha=theta)))
        return states
