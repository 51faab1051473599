"""MixHop: a layer sees the neighbours at several distances side by side."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from gread.base.checks import check_count
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.models.base import LayeredGNN
from gread.models.convolutional import Mix, feature_layer, hidden_layer

POWERS = 3
"""Powers of Ã from 0 on."""


class MixHop(LayeredGNN):
    """H ↦ ReLU(BatchNorm([H W₀ ‖ Ã H W₁ ‖ Ã² H W₂])), where Ã = D^-½ (A + I) D^-½.

    The last layer is Σ_p a_p Ã^p H W_p, with a the softmax of three learned numbers; features are
    scaled to length one behind their dropout. All as in the authors' code.

    Args:
        in_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        hidden_channels: Width of each of the three parts of a layer.
        num_layers: How many.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_layers", num_layers)
        self.adjacency = OriginalAdjacency()
        mix = Mix(hops, taken=POWERS, given=POWERS, bias=False)
        widths = [*[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(
            [feature_layer(in_channels, widths[0], mix, input_dropout, unit_rows=True)]
        )
        self.layers.extend(
            hidden_layer(POWERS * before, width, mix, dropout) for before, width in pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(POWERS * width) for width in widths[:-1])
        self.scores = nn.Parameter(torch.empty(POWERS))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws every parameter anew; at first all powers weigh the same."""
        super().reset_parameters()
        nn.init.zeros_(self.scores)

    def decode(self, states: list[Tensor]) -> Tensor:
        """The mean of the powers, weighted."""
        last = states[-1].unflatten(-1, (POWERS, -1))
        return (self.scores.softmax(0).unsqueeze(-1) * last).sum(1)

    def states(self, x: Tensor, adj: Operator) -> list[Tensor]:
        """X, and the state behind every layer."""
        states = [x]
        for layer, norm in zip(self.layers, self.norms, strict=False):
            states.append(torch.relu(norm(layer(states[-1], adj))))
        return [*states, self.layers[-1](states[-1], adj)]


def hops(y: Tensor, adj: Operator) -> Tensor:
    """[Y₀ ‖ Ã Y₁ ‖ Ã² Y₂], with two products: Ã [Y₁ ‖ Ã Y₂]."""
    own, near, far = y.chunk(POWERS, dim=-1)
    return torch.cat([own, adj @ torch.cat([near, adj @ far.contiguous()], dim=-1)], dim=-1)
