"""GDE: a graph convolutional network whose hidden layers form an ordinary differential equation."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import softplus

from gread.base.checks import check_sizes
from gread.dynamics.integrate import VectorField
from gread.dynamics.tableau import Integration
from gread.graph.adjacency import OriginalAdjacency
from gread.models.continuous import ContinuousGNN
from gread.models.convolutional import Mix, feature_layer, gather, hidden_layer


class GDE(ContinuousGNN):
    """Graph neural ordinary differential equation.

        H(0) = ReLU(c(X)),    dH/dt = c₂(Softplus(c₁(H))),    ŷ = c₃(H(T))

    Every c is a layer of a GCN, c(H) = S̃ H W + b with S̃ = D^-½ (A + I) D^-½.

    Args:
        in_channels, hidden_channels, out_channels, time, step_size, solver, tolerance: As in
            `gread.GREAD`.
        input_dropout: As in `gread.GREAD`.
        dropout: Dropout before c₁ and c₂. Every evaluation has a new mask, so adaptive solvers do
            not converge with it.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        time: float = 1.0,
        step_size: float = 1.0,
        solver: str = "rk4",
        tolerance: float = 1e-5,
        input_dropout: float = 0.4,
        dropout: float = 0.5,
    ):
        check_sizes(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        super().__init__(
            in_channels,
            feature_layer(in_channels, hidden_channels, Mix(gather), input_dropout),
            hidden_layer(hidden_channels, out_channels, Mix(gather), 0.0),
            Integration(time, step_size, solver, tolerance),
        )
        self.adjacency = OriginalAdjacency()
        self.layers = nn.ModuleList(
            hidden_layer(hidden_channels, hidden_channels, Mix(gather), dropout) for _ in range(2)
        )

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Compute H(0) from features [N, F] with a GCN layer."""
        h0: Tensor = self.encoder(x, self.adjacency(x, edge_index, edge_weight)).relu()
        return h0

    def decode(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Compute logits [N, classes] from a state with a GCN layer."""
        return self.decoder(h, self.adjacency(h, edge_index, edge_weight))

    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f(H) = c₂(Softplus(c₁(H)))."""
        adj = self.adjacency(h0, edge_index, edge_weight)
        first, second = self.layers
        return lambda t, h: second(softplus(first(h, adj)), adj)
