"""MixHop: layers with several powers of the adjacency."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gread.graph.operator import Operator
from gread.models.convolutional import ConvStack, Mix

POWERS = 3
"""Number of powers of Ã, from power 0."""


class MixHop(ConvStack):
    """H ↦ ReLU(BatchNorm([H W₀ ‖ Ã H W₁ ‖ Ã² H W₂])), where Ã = D^-½ (A + I) D^-½.

    The last layer is Σ_p a_p Ã^p H W_p, with a the softmax of three learned numbers. Features are
    scaled to length one after their dropout. All of this follows the authors' code.

    Args:
        in_channels, out_channels, num_layers, input_dropout, dropout: As in `ConvStack`.
        hidden_channels: Width of each of the three parts of a layer.
    """

    unit_rows = True

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
        sizes = in_channels, hidden_channels, out_channels
        super().__init__(
            *sizes, num_layers=num_layers, input_dropout=input_dropout, dropout=dropout
        )
        width = POWERS * hidden_channels
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(num_layers - 1))
        self.scores = nn.Parameter(torch.empty(POWERS))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters; all powers start with the same weight."""
        super().reset_parameters()
        nn.init.zeros_(self.scores)

    def decode(self, states: list[Tensor]) -> Tensor:
        """Compute the weighted mean of the powers."""
        last = states[-1].unflatten(-1, (POWERS, -1))
        return (self.scores.softmax(0).unsqueeze(-1) * last).sum(1)

    def mix(self, channels: int, last: bool) -> Mix:
        """Three powers of Ã."""
        return Mix(hops, taken=POWERS, given=POWERS, bias=False)

    def activate(self, h: Tensor, number: int) -> Tensor:
        """Apply the norm and a ReLU."""
        return self.norms[number](h).relu()


def hops(y: Tensor, adj: Operator) -> Tensor:
    """[Y₀ ‖ Ã Y₁ ‖ Ã² Y₂], with two products: Ã [Y₁ ‖ Ã Y₂]."""
    own, near, far = y.chunk(POWERS, dim=-1)
    return torch.cat([own, adj @ torch.cat([near, adj @ far.contiguous()], dim=-1)], dim=-1)
