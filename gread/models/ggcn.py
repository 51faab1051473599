"""GGCN: signed messages, weighted by states and degrees."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, softplus
from torch_geometric.utils import scatter

from gread.base.checks import check_count, check_positive
from gread.graph.adjacency import OriginalAdjacency, edges_of
from gread.kernels.operators import product, scores
from gread.kernels.pattern import Pattern, remember
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap

DECAY_POWER = 3
"""Exponent k of the decay of layer weights."""

TINY = 1e-9
"""A vector shorter than this has no direction: its cosine with any other is zero."""


class Neighbours(NamedTuple):
    """Precomputed tensors of the graph for a layer."""

    pattern: Pattern
    weight: Tensor
    """S̃ = D̃^-½ (A + I) D̃^-½, with zeros for the loops, [E]."""
    ratio: Tensor
    """√(d̃_j / d̃_i) − 1, [E]."""


class SignedMessages(nn.Module):
    """softplus(s) (w₁ P⁺ Z + w₂ P⁻ Z + w₃ Z), where Z is a linear map of H.

    P_ij = S̃_ij softplus(a (√(d̃_j / d̃_i) − 1) + b) cos(z_i, z_j) for neighbours j of i, split
    into its positive part P⁺ and its negative part P⁻; w is a softmax of three numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.degree = nn.Parameter(torch.empty(2))  # a, b
        self.signs = nn.Parameter(torch.empty(3))  # w before the softmax
        self.scale = nn.Parameter(torch.empty(()))  # s
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize as in the authors' code: a = ½, b = 0, equal weights, s = 2."""
        with torch.no_grad():
            self.degree.copy_(torch.tensor([0.5, 0.0]))
        nn.init.zeros_(self.signs)
        nn.init.constant_(self.scale, 2.0)

    def forward(self, z: Tensor, near: Neighbours) -> Tensor:
        """Compute messages of the shape of Z."""
        length = z.norm(dim=-1, keepdim=True)
        unit = z / length.masked_fill(length < TINY, torch.inf)
        one_head = unit.unsqueeze(1)
        cosine = scores(near.pattern, one_head, one_head).squeeze(1)
        slope, shift = self.degree
        positive, negative, own = self.signs.softmax(0)
        strength = near.weight * softplus(slope * near.ratio + shift)
        message = strength * (positive * cosine.clamp(min=0) + negative * cosine.clamp(max=0))
        return softplus(self.scale) * (product(near.pattern, message, z) + own * z)


class GGCN(LayeredGNN):
    """Layers of signed messages on a running sum R, to which every layer adds less.

        Y₁ = messages(X W₁ + b₁),   R₁ = U₁ + ELU(X W + b),   Uᵢ = Dropout(ELU(Yᵢ))
        Yᵢ = messages(Rᵢ₋₁ Wᵢ + bᵢ),   Rᵢ = Rᵢ₋₁ + log(η / (i + 1)³ + 1) Uᵢ

    The last Y is the logits.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        num_layers: Number of layers, at least two.
        decay: η.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        decay: float = 1.0,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_layers", num_layers, minimum=2)
        check_positive("decay", decay)
        self.decay = decay
        widths = [*[hidden_channels] * (num_layers - 2), out_channels]
        self.linears = nn.ModuleList(nn.Linear(hidden_channels, width) for width in widths)
        # Y₁ and R₁ use the same dropout mask.
        self.feature_map = FeatureMap(in_channels, 2 * hidden_channels, input_dropout)
        self.messages = nn.ModuleList(SignedMessages() for _ in range(num_layers))
        self.dropout = Dropout(dropout)
        self.adjacency = OriginalAdjacency()

    def states(self, x: Tensor, adj: Neighbours) -> list[Tensor]:
        """Return ELU(X W + b), the running sum after every hidden layer and the logits."""
        z, sum_so_far = self.feature_map(x).chunk(2, dim=-1)
        states = [sum_so_far := elu(sum_so_far)]
        for i, linear in enumerate(self.linears, start=1):
            u = self.dropout(elu(self.messages[i - 1](z, adj)))
            share = 1.0 if i == 1 else math.log(self.decay / (i + 1) ** DECAY_POWER + 1)
            states.append(sum_so_far := sum_so_far + share * u)
            z = linear(sum_so_far)
        return [*states, self.messages[-1](z, adj)]

    def operator(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Neighbours:
        """Compute S̃ without self loops, and the ratios of degrees."""
        adj = self.adjacency(x, edge_index, edge_weight)

        def found() -> Neighbours:
            edges = edges_of(edge_index, edge_weight, x, self_loops=1.0)
            target, source = edges.pattern.rows.numbers(), edges.pattern.rows.column
            degree = scatter(edges.weight, target, dim_size=x.size(0))
            root = degree.masked_fill(degree == 0, 1).sqrt()
            ratio = root.index_select(0, source) / root.index_select(0, target) - 1
            return Neighbours(adj.pattern, adj.weight * (target != source), ratio)

        key = ("ggcn", x.dtype, x.size(0))
        return remember(edge_index, key, found, when=edge_weight is None)
