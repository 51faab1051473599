"""ACM-GCN: adaptive mixture of a low-pass, a high-pass and an identity channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap

CHANNELS = 3
"""Low-pass, high-pass and identity."""


class AdaptiveMixing(nn.Module):
    """3 (w₁ L + w₂ U + w₃ I), L = ReLU(R̃ H W_L), U = ReLU((I − R̃) H W_U), I = ReLU(H W_I).

    Every node has its own weights: w = softmax(σ([L v_L, U v_U, I v_I]) V / 3).

    Args:
        linear: H ↦ H [W_L, W_U, W_I], without bias.
        channels: Width of L, U and I.
    """

    def __init__(self, linear: nn.Module, channels: int):
        super().__init__()
        self.linear = linear
        self.score = nn.Parameter(torch.empty(CHANNELS, channels))  # v
        self.mix = nn.Parameter(torch.empty(CHANNELS, CHANNELS))  # V
        self.channels = channels
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize uniformly: the maps within 1 / √channels, v within 1, V within 1 / √3."""
        bound = self.channels**-0.5
        for parameter in self.linear.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        nn.init.uniform_(self.score, -1, 1)
        nn.init.uniform_(self.mix, -(CHANNELS**-0.5), CHANNELS**-0.5)

    def forward(self, h: Tensor, adj: Operator) -> Tensor:
        """Compute the mixture [N, channels], where ``adj`` is R̃."""
        low, high, own = self.linear(h).chunk(CHANNELS, dim=-1)
        blurred, sharpened = (adj @ torch.cat([low, high], dim=-1)).chunk(2, dim=-1)
        versions = torch.stack([blurred, high - sharpened, own], dim=1).relu()  # [N, 3, channels]
        scores = (versions * self.score).sum(-1).sigmoid()
        weights = (scores @ self.mix / CHANNELS).softmax(-1)
        return CHANNELS * (weights.unsqueeze(-1) * versions).sum(1)


class ACMGCN(LayeredGNN):
    """Two layers of adaptive channel mixing with dropout between them.

    R̃ = D̃⁻¹(A + I). The output of a layer is not negative, so no activation follows it.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
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
        self.adjacency = OriginalAdjacency(normalization="row")
        words = FeatureMap(in_channels, CHANNELS * hidden_channels, input_dropout, bias=False)
        self.first = AdaptiveMixing(words, hidden_channels)
        self.dropout = Dropout(dropout)
        states = nn.Linear(hidden_channels, CHANNELS * out_channels, bias=False)
        self.second = AdaptiveMixing(states, out_channels)

    def states(self, x: Tensor, adj: Operator) -> list[Tensor]:
        """Return X, the state between the layers and the logits."""
        h = self.dropout(self.first(x, adj))
        return [x, h, self.second(h, adj)]
