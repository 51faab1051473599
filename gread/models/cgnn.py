"""CGNN: diffusion with a learned rate per node and a source."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal
from torch.nn.utils.parametrize import register_parametrization

from gread.base.checks import check_positive
from gread.dynamics.integrate import VectorField
from gread.dynamics.tableau import Integration
from gread.graph.adjacency import OriginalAdjacency
from gread.models.continuous import ContinuousGNN
from gread.models.layers import Gate, build_decoder, build_encoder


class CGNN(ContinuousGNN):
    """Continuous GNN: dH/dt = ½ σ(α) (Â − I) H + H (W − I) + H(0), with one α per node.

    The initial state is the encoded features and as many zero channels; the decoder uses the first
    half of the channels.
    Â = D^-½ (A + ωI) D^-½. The source H(0) is detached. Paper: Eq. (16).

    Args:
        hidden_channels: Width of the encoded features, half the width of the state.
        num_nodes: Number of nodes of the graph.
        weights: Whether to use the term H (W − I), W = U diag(d) Uᵀ with U orthogonal and d in
            [0, 1].
        loop_weight: ω.
        alpha: Initial α, before the sigmoid.
        in_channels, out_channels, time, step_size, solver, tolerance, input_dropout, dropout: As in
            `gread.GREAD`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_nodes: int,
        weights: bool = False,
        loop_weight: float = 0.5,
        alpha: float = 0.9,
        time: float = 1.0,
        step_size: float = 1.0,
        solver: str = "rk4",
        tolerance: float = 1e-5,
        input_dropout: float = 0.5,
        dropout: float = 0.0,
    ):
        encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        decoder = build_decoder("linear", hidden_channels, out_channels, dropout, True)
        super().__init__(
            in_channels,
            nn.Sequential(encoder, nn.ConstantPad1d((0, hidden_channels), 0.0)),
            nn.Sequential(nn.ConstantPad1d((0, -hidden_channels), 0.0), decoder),
            Integration(time, step_size, solver, tolerance),
            num_nodes=num_nodes,
        )
        check_positive("loop_weight", loop_weight)
        self.adjacency = OriginalAdjacency(self_loops=loop_weight, own_loops=False)
        self.alpha = Gate(num_nodes, 1, start=alpha)
        self.weight = Contraction(2 * hidden_channels) if weights else None

    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f(H) = ½ σ(α) (Â − I) H + H (W − I) + H(0)."""
        adj = self.adjacency(h0, edge_index, edge_weight)
        alpha, source = self.alpha() / 2, h0.detach()
        weight = None if self.weight is None else self.weight()

        def f(t: float, h: Tensor) -> Tensor:
            slope = source - alpha * adj.laplacian(h)
            return slope if weight is None else slope + h @ weight - h

        return f


class Contraction(nn.Module):
    """W = U diag(d) Uᵀ, with U orthogonal and d in [0, 1]."""

    def __init__(self, channels: int):
        super().__init__()
        self.basis = nn.Linear(channels, channels, bias=False)
        if self.basis.weight.is_meta:  # PyTorch would check the values, and there are none
            register_parametrization(self.basis, "weight", Unvalued(channels))
        else:
            orthogonal(self.basis)
        self.stretch = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialize U randomly and d uniformly in [0, 1]."""
        self.basis.weight = nn.init.orthogonal_(torch.empty_like(self.basis.weight))
        nn.init.uniform_(self.stretch)

    def forward(self) -> Tensor:
        """Compute W."""
        u = self.basis.weight
        return (u * self.stretch.clamp(0, 1)) @ u.T


class Unvalued(nn.Identity):
    """Replacement of PyTorch's orthogonal map for tensors without values."""

    def __init__(self, channels: int):
        super().__init__()
        self.register_buffer("base", torch.empty(channels, channels))

    def right_inverse(self, x: Tensor) -> Tensor:
        """Return the value unchanged."""
        return x
