"""GraphCON: nodes as oscillators that are coupled by a layer of a GNN."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import elu

from gread.base.checks import check_count, check_not_negative, check_positive
from gread.base.registry import Registry
from gread.graph.adjacency import OriginalAdjacency
from gread.models.base import LayeredGNN
from gread.models.convolutional import Mix, gather, hidden_layer
from gread.models.gat import Attention, Neighbourhoods
from gread.models.layers import Dropout, FeatureMap


class GraphCON(LayeredGNN):
    """Graph-coupled oscillators, x'' = σ(F(x)) − γ x − α x', by the symplectic Euler method.

        Y ← Y + τ (σ(F(X)) − α Y − γ X),    X ← X + τ Y

    with initial X = Y = ReLU(W Dropout(X_in)) and the same F in every step.

    Args:
        coupling: Constructor of the module σ ∘ F from the width. The module is called with
            ``(x, edge_index, edge_weight)``.
        in_channels, hidden_channels, out_channels, input_dropout: As in `LayeredGNN`.
        dropout: Dropout on X and Y initially and after every step.
        num_layers: Number of steps.
        damping: α.
        frequency: γ.
        step_size: τ.
    """

    def __init__(
        self,
        coupling: Callable[[int], nn.Module],
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        input_dropout: float = 0.3,
        dropout: float = 0.3,
        num_layers: int = 2,
        damping: float = 0.0,
        frequency: float = 0.0,
        step_size: float = 1.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_layers", num_layers)
        check_not_negative("damping", damping)
        check_not_negative("frequency", frequency)
        check_positive("step_size", step_size)
        self.num_layers = num_layers
        self.damping = damping
        self.frequency = frequency
        self.step_size = step_size
        self.encoder = FeatureMap(in_channels, hidden_channels, input_dropout)
        self.coupling = coupling(hidden_channels)
        self.dropout = Dropout(dropout)
        self.decoder = nn.Linear(hidden_channels, out_channels)

    def operator(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the graph unchanged, because the coupling has its own operator."""
        return edge_index, edge_weight

    def states(self, x: Tensor, adj: tuple[Tensor, Tensor | None]) -> list[Tensor]:
        """Initial positions and positions after every step."""
        h = self.encoder(x).relu()
        place, speed = self.dropout(h), self.dropout(h)
        states = [place]
        for _ in range(self.num_layers):
            place, speed = self.step(place, speed, *adj)
            place, speed = self.dropout(place), self.dropout(speed)
            states.append(place)
        return states

    def step(
        self, place: Tensor, speed: Tensor, edge_index: Tensor, edge_weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute X and Y after one step; X uses the new Y."""
        force = self.coupling(place, edge_index, edge_weight)
        force = force - self.damping * speed - self.frequency * place
        speed = speed + self.step_size * force
        return place + self.step_size * speed, speed


RESIDUALS: Registry[Callable[[nn.Linear, Tensor, Tensor], Tensor]] = Registry(
    "residual", {"mapped": lambda own, x, y: -own(y), "added": lambda own, x, y: own(x) - y}
)
"""Residual terms of a GCN layer, from a linear map W_r, X and Y = X W."""


class ConvolutionCoupling(nn.Module):
    """ReLU(S̃ X W + b + residual), with S̃ = D^-½ (A + I) D^-½.

    Args:
        channels: Width of the state.
        residual: ``"mapped"`` is −W_r (X W), ``"added"`` is W_r X − X W, each with a bias.
    """

    def __init__(self, channels: int, residual: str):
        super().__init__()
        self.layer = hidden_layer(channels, channels, Mix(gather), 0.0)
        self.own = nn.Linear(channels, channels)
        self.residual = RESIDUALS[residual]
        self.adjacency = OriginalAdjacency()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Map X [N, d] to [N, d]."""
        adj = self.adjacency(x, edge_index, edge_weight)
        y = self.layer.linear(x)
        return (adj @ y + self.layer.bias + self.residual(self.own, x, y)).relu()


class AttentionCoupling(nn.Module):
    """The mean over heads of ELU(GAT(X) + W_r X).

    The authors' code is meant to compute the same, but averages neighbouring channels of one head.

    Args:
        channels: Width of the state.
        heads: Number of heads.
    """

    def __init__(self, channels: int, heads: int):
        super().__init__()
        check_count("heads", heads)
        self.heads = heads
        self.neighbourhoods = Neighbourhoods()
        attention = Attention(channels, heads, 0.0, mean=False)
        self.layer = hidden_layer(channels, channels, Mix(attention, heads, heads), 0.0)
        self.own = nn.Linear(channels, heads * channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Map X [N, d] to [N, d]."""
        adj = self.neighbourhoods(x, edge_index, edge_weight)
        y = elu(self.layer(x, adj) + self.own(x))
        return y.unflatten(-1, (self.heads, -1)).mean(-2)


def gcon_gcn(
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    *,
    residual: str = "mapped",
    num_layers: int = 2,
    damping: float = 0.0,
    frequency: float = 0.0,
    step_size: float = 1.0,
    input_dropout: float = 0.3,
    dropout: float = 0.3,
) -> GraphCON:
    """`GraphCON` coupled by a GCN, with ``residual`` as in `ConvolutionCoupling`."""
    return GraphCON(
        partial(ConvolutionCoupling, residual=residual),
        *(in_channels, hidden_channels, out_channels, input_dropout, dropout),
        *(num_layers, damping, frequency, step_size),
    )


def gcon_gat(
    in_channels: int,
    hidden_channels: int,
    out_channels: int,
    *,
    heads: int = 4,
    num_layers: int = 2,
    damping: float = 0.0,
    frequency: float = 0.0,
    step_size: float = 1.0,
    input_dropout: float = 0.3,
    dropout: float = 0.3,
) -> GraphCON:
    """`GraphCON` coupled by a GAT with ``heads`` heads."""
    return GraphCON(
        partial(AttentionCoupling, heads=heads),
        *(in_channels, hidden_channels, out_channels, input_dropout, dropout),
        *(num_layers, damping, frequency, step_size),
    )
