"""ACMP: attraction and repulsion of neighbours with an Allen-Cahn term."""

from __future__ import annotations

from torch import Tensor

from gread.base.checks import check_not_negative
from gread.dynamics.integrate import VectorField
from gread.dynamics.tableau import Integration
from gread.graph.adjacency import edges_of
from gread.graph.operator import Adjacency
from gread.kernels.operators import product
from gread.models.attention import EdgeAttention
from gread.models.continuous import ContinuousGNN
from gread.models.layers import Gate, Signed, build_decoder, build_encoder


class ACMP(ContinuousGNN):
    """Allen-Cahn message passing.

        dH_i/dt = σ(α) Σ_j (Ā_ij − β w_ij) (H_j − H_i) + σ(δ) H_i (1 − H_i²) + s H_i(0)

    Ā is attention computed from H(0), and w_ij is the weight of an edge. Neighbours with an entry
    below β w_ij repel each other. α and δ have one value per channel. s is initialized to 0, and
    its H(0) is detached. The factor of −H_i is 1 − β Σ_j w_ij also if the columns of Ā are
    normalized instead of its rows, as in GRAND.

    Args:
        in_channels, hidden_channels, out_channels, time, step_size, solver, tolerance: As in
            `gread.GREAD`.
        input_dropout, dropout: As in `gread.GREAD`.
        repulsion: β. The state grows with β times the degree, so graphs with hubs need a small one.
        relative: Whether messages are H_j − H_i, as in the paper; otherwise the repulsive part
            uses H_j without H_i, as in the authors' code.
        source: Whether to use the term s H(0).
        attention, normalizer, normalization, heads, attention_channels: Settings of Ā, as in
            `gread.models.attention.EdgeAttention`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        repulsion: float = 0.05,
        relative: bool = True,
        source: bool = True,
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
        check_not_negative("repulsion", repulsion)
        self.attention = EdgeAttention(
            [hidden_channels], attention, normalizer, normalization, heads, attention_channels
        )
        self.alpha = Gate(hidden_channels)
        self.delta = Gate(hidden_channels, start=-10.0)  # initially almost no double well
        self.strength = Signed() if source else None
        self.repulsion = repulsion
        self.relative = relative

    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f(H) = σ(α) (M H − m H) + σ(δ) H (1 − H²) + s H(0), with M = Ā − β A."""
        attention = self.attention(h0, edge_index, edge_weight)
        edges = edges_of(edge_index, edge_weight, h0, 1.0)  # in the pattern of Ā
        messages = Adjacency(edges.pattern, attention.weight - self.repulsion * edges.weight)
        own: Tensor | float = 1.0  # m, the factor of −H_i
        if self.relative:
            degree = product(edges.pattern, edges.weight, h0.new_ones(h0.size(0), 1))
            own = 1 - self.repulsion * degree
        alpha, delta = self.alpha(), self.delta()
        source = None if self.strength is None else self.strength() * h0.detach()

        def f(t: float, h: Tensor) -> Tensor:
            slope = alpha * (messages @ h - own * h) + delta * h * (1 - h.square())
            return slope if source is None else slope + source

        return f
