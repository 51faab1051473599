"""ACM-GCN: every node mixes a blurred, a sharpened and an untouched version of its state."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from gread.base.checks import check_sizes
from gread.graph.adjacency import Adjacency, OriginalAdjacency
from gread.graph.checks import check_features
from gread.models.layers import Dropout, FeatureMap

CHANNELS = 3
"""Low-pass, high-pass and identity."""


class AdaptiveMixing(nn.Module):
    """3 (w₁ L + w₂ U + w₃ I), L = ReLU(R̃ H W_L), U = ReLU((I − R̃) H W_U), I = ReLU(H W_I).

    Every node has weights of its own: w = softmax(σ([L v_L, U v_U, I v_I]) V / 3).

    Args:
        linear: H ↦ H [W_L, W_U, W_I], without bias.
        channels: Width of each of the three.
    """

    def __init__(self, linear: nn.Module, channels: int):
        super().__init__()
        self.linear = linear
        self.score = nn.Parameter(torch.empty(CHANNELS, channels))  # v
        self.mix = nn.Parameter(torch.empty(CHANNELS, CHANNELS))  # V
        self.channels = channels
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform: the maps within 1 / √channels, v within 1, V within 1 / √3."""
        bound = self.channels**-0.5
        for parameter in self.linear.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        nn.init.uniform_(self.score, -1, 1)
        nn.init.uniform_(self.mix, -(CHANNELS**-0.5), CHANNELS**-0.5)

    def forward(self, h: Tensor, adj: Adjacency) -> Tensor:
        """[N, channels], where ``adj`` is R̃."""
        low, high, own = self.linear(h).chunk(CHANNELS, dim=-1)
        blurred, sharpened = (adj @ torch.cat([low, high], dim=-1)).chunk(2, dim=-1)
        versions = torch.stack([blurred, high - sharpened, own], dim=1).relu()  # [N, 3, channels]
        scores = (versions * self.score).sum(-1).sigmoid()
        weights = (scores @ self.mix / CHANNELS).softmax(-1)
        return CHANNELS * (weights.unsqueeze(-1) * versions).sum(1)


class ACMGCN(nn.Module):
    """Two layers of adaptive channel mixing with dropout between them.

    R̃ = D̃⁻¹(A + I). What leaves a layer is not negative, so there is no activation between.

    Args:
        in_channels: Number of features.
        hidden_channels: Width between the layers.
        out_channels: Number of classes.
        input_dropout: Dropout on the features.
        dropout: Dropout between the layers.
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
        super().__init__()
        check_sizes(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        self.in_channels = in_channels
        self.normalized = OriginalAdjacency(normalization="row")
        words = FeatureMap(in_channels, CHANNELS * hidden_channels, input_dropout, bias=False)
        self.first = AdaptiveMixing(words, hidden_channels)
        self.dropout = Dropout(dropout)
        states = nn.Linear(hidden_channels, CHANNELS * out_channels, bias=False)
        self.second = AdaptiveMixing(states, out_channels)

    def reset_parameters(self) -> None:
        """Draws every parameter anew."""
        for part in self.children():
            reset(part)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        check_features("x", x, self.in_channels)
        adj = self.normalized(x, edge_index, edge_weight)
        return self.second(self.dropout(self.first(x, adj)), adj)
