"""GRAFF: gradient flow of an energy with attractive and repulsive channels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gread.base.registry import Registry
from gread.dynamics.integrate import VectorField
from gread.dynamics.tableau import Integration
from gread.graph.adjacency import OriginalAdjacency
from gread.models.continuous import ContinuousGNN
from gread.models.layers import Signed, SignedVector, build_decoder, build_encoder

WEIGHTS: Registry[Callable[[int], nn.Module]] = Registry("weights")
"""Modules of the symmetric matrix W, built from the number of channels. Called without arguments,
they return the map H ↦ H W."""


@WEIGHTS.register("diagonal")
class DiagonalWeight(nn.Module):
    """W = diag(w), with w initialized uniformly in [−1, 1]."""

    def __init__(self, channels: int):
        super().__init__()
        self.vector = SignedVector(channels)

    def forward(self) -> Callable[[Tensor], Tensor]:
        """Return the map H ↦ H W."""
        w = self.vector()
        return lambda h: h * w


@WEIGHTS.register("diagonally-dominant")
class DominantWeight(nn.Module):
    """W = V + diag(t ⊙ Σ_j |V_ij| + r), with a symmetric V that has a zero diagonal."""

    def __init__(self, channels: int):
        super().__init__()
        self.free = nn.Parameter(torch.empty(channels, channels))
        self.t = SignedVector(channels)
        self.r = SignedVector(channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize V by Glorot initialization, and t and r uniformly in [−1, 1]."""
        nn.init.xavier_uniform_(self.free)
        self.t.reset_parameters()
        self.r.reset_parameters()

    def forward(self) -> Callable[[Tensor], Tensor]:
        """Return the map H ↦ H W. The diagonal of ``free`` is not used."""
        upper = self.free.triu(1)
        lower = self.free.tril(-1)
        v = (upper + upper.T + lower + lower.T) / 2
        w = v + torch.diag(self.t() * v.abs().sum(1) + self.r())
        return lambda h: h @ w


class GRAFF(ContinuousGNN):
    """Gradient flow: dH/dt = S H W − H Ω + β H(0), with S = D^-½ A D^-½ without loops.

    W is symmetric and Ω diagonal, constant in time. Without β this is the gradient flow of
    ½ tr(Hᵀ H Ω) − ½ tr(Hᵀ S H W). β starts at 0, and its H(0) is detached.

    Args:
        weights: W, ``"diagonal"`` or ``"diagonally-dominant"``.
        omega: Whether to use Ω.
        source: Whether to use the term β H(0).
        nonlinear: Whether to apply a ReLU to the right-hand side.
        standardize: Whether to standardize each channel of the right-hand side before the ReLU, as
            the untrained batch norms of the authors' code do.
        in_channels, hidden_channels, out_channels, time, step_size, solver: As in `gread.GREAD`.
        encoder, output_activation, input_dropout, dropout: As in `gread.GREAD`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        weights: str = "diagonal",
        omega: bool = True,
        source: bool = True,
        nonlinear: bool = False,
        standardize: bool = False,
        encoder: str = "linear",
        output_activation: bool = False,
        time: float = 1.0,
        step_size: float = 1.0,
        solver: str = "euler",
        input_dropout: float = 0.5,
        dropout: float = 0.0,
    ):
        super().__init__(
            in_channels,
            build_encoder(encoder, in_channels, hidden_channels, input_dropout, dropout),
            build_decoder("linear", hidden_channels, out_channels, dropout, output_activation),
            Integration(time, step_size, solver),
        )
        self.adjacency = OriginalAdjacency(self_loops=0.0, own_loops=False)
        self.weights = WEIGHTS[weights](hidden_channels)
        self.omega = SignedVector(hidden_channels) if omega else None
        self.beta = Signed() if source else None
        self.nonlinear = nonlinear
        self.standardize = standardize

    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f(H) = S H W − H Ω + β H(0)."""
        adj = self.adjacency(h0, edge_index, edge_weight)
        mixed = self.weights()
        omega = None if self.omega is None else self.omega()
        source = None if self.beta is None else self.beta() * h0.detach()

        def f(t: float, h: Tensor) -> Tensor:
            slope = adj @ mixed(h)
            slope = slope if omega is None else slope - h * omega
            slope = slope if source is None else slope + source
            slope = standardized(slope) if self.standardize else slope
            return slope.relu() if self.nonlinear else slope

        return f


EPSILON = 1e-5
"""Added to the variance, as in batch norm."""


def standardized(h: Tensor) -> Tensor:
    """Standardize every channel to mean 0 and variance 1 over the nodes."""
    centred = h - h.mean(0)
    return centred * (centred.square().mean(0) + EPSILON).rsqrt()
