"""GRAND: diffusion with attention, and GRAND++: the same with a source at trusted nodes.

dH/dt = σ(α) (Ā − I) H + β S
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from gread.base.errors import InputError
from gread.dynamics.integrate import VectorField
from gread.dynamics.tableau import Integration
from gread.models.attention import AttentiveDiffusion, EdgeAttention
from gread.models.continuous import ContinuousGNN, ContinuousGNNs
from gread.models.layers import Signed, build_decoder, build_encoder
from gread.models.stacking import CannotStack

SOURCES = ("none", "initial", "trusted")


class GRAND(ContinuousGNN):
    """Graph neural diffusion: dH/dt = σ(α) (Ā − I) H + S, where Ā is attention.

    The gate σ(α) and the source β H(0), with a detached H(0), are from the authors' code; their
    paper has neither. Paper: Eq. (17).

    Args:
        in_channels, hidden_channels, out_channels, time, step_size, solver, tolerance: As in
            `gread.GREAD`.
        input_dropout, dropout: As in `gread.GREAD`.
        linear: Whether Ā is computed once from H(0) (GRAND-l) instead of from every H(t)
            (GRAND-nl).
        source: ``"initial"`` is β H(0) with β initialized to 0. ``"trusted"``, for GRAND++, is H(0)
            minus its mean at the nodes of ``train_mask``, and zero at all others. It is not
            detached, because its equation does not require that. ``"none"`` is no source.
        attention, normalizer, normalization, heads, attention_channels: Settings of Ā, as in
            `gread.models.attention.EdgeAttention`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        linear: bool = True,
        source: str = "initial",
        attention: str = "scaled-dot",
        normalizer: str = "softmax",
        normalization: str = "row",
        heads: int = 4,
        attention_channels: int = 64,
        time: float = 1.0,
        step_size: float = 1.0,
        solver: str = "rk4",
        tolerance: float = 1e-5,
        input_dropout: float = 0.5,
        dropout: float = 0.0,
    ):
        super().__init__(
            in_channels,
            build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout),
            build_decoder("linear", hidden_channels, out_channels, dropout, True),
            Integration(time, step_size, solver, tolerance),
        )
        if source not in SOURCES:
            raise InputError(f"unknown source {source!r}; choose from: {', '.join(SOURCES)}")
        operator = EdgeAttention(
            [hidden_channels], attention, normalizer, normalization, heads, attention_channels
        )
        self.diffusion = AttentiveDiffusion(operator, linear)
        self.beta = Signed() if source == "initial" else None
        self.trusting = source == "trusted"

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        train_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits [N, classes] from features [N, F].

        Without ``train_mask`` [N] no node is trusted; other sources ignore the mask.
        """
        found = self.evolve(x, edge_index, edge_weight, train_mask=train_mask)
        return self.decoder(found.final)

    def field(
        self,
        h0: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        train_mask: Tensor | None = None,
    ) -> VectorField:
        """f(H) = σ(α) (Ā − I) H + S."""
        if self.beta is not None:
            return self.diffusion(h0, edge_index, edge_weight, h0.detach(), self.beta())
        trusted = train_mask if self.trusting else None
        source = None if trusted is None else centred(h0, trusted)
        return self.diffusion(h0, edge_index, edge_weight, source)

    @classmethod
    def stacked(cls, members: Sequence[GRAND]) -> nn.Module:
        """Stack several members; if Ā changes with the state, all must take the same steps."""
        first = members[0]
        if not first.diffusion.linear and len({one.integration for one in members}) > 1:
            raise CannotStack("the attention changes with the state, and T or τ are not the same")
        if first.trusting:
            raise CannotStack("the source term is at the nodes that are trained on")
        return ContinuousGNNs(members)


def centred(h0: Tensor, trusted: Tensor) -> Tensor:
    """H(0) minus its mean at the trusted nodes, and zero at all others.

    It sums to zero; otherwise the state would drift.
    """
    chosen = trusted.to(h0.dtype).unsqueeze(-1)
    mean = (chosen * h0).sum(0) / chosen.sum().clamp(min=1)
    return chosen * (h0 - mean)
