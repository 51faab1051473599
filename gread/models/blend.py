"""BLEND: joint diffusion of features and positions (Beltrami flow)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gread.base.checks import check_count
from gread.dynamics.integrate import Solution, VectorField
from gread.dynamics.tableau import Integration
from gread.graph.operator import Adjacency
from gread.graph.structure.positions import page_rank
from gread.kernels.pattern import Pattern, remember
from gread.models.attention import AttentiveDiffusion, EdgeAttention
from gread.models.continuous import ContinuousGNN, solve_from
from gread.models.layers import RowMap, Signed, build_decoder, build_encoder


class BLEND(ContinuousGNN):
    """GRAND on features and positions: dZ/dt = σ(α) (Ā − I) Z + β Z(0), Z(0) = [X W ‖ P V].

    P is personalized PageRank, and V has one row for each node. Ā is attention between whole
    states. The exponential kernel is the product of one kernel for features and one for positions.

    Args:
        hidden_channels: Width of the part of Z that encodes the features.
        num_nodes: Number of nodes of the graph.
        position_channels: Width of the part of Z that encodes the positions.
        linear: Whether Ā is computed once from Z(0) instead of from every Z(t).
        source: Whether to use the term β Z(0).
        attention, normalizer, normalization, heads, attention_channels: Settings of Ā, as in
            `gread.models.attention.EdgeAttention`.
        in_channels, out_channels, time, step_size, solver, tolerance, dropout: As in `gread.GREAD`.
        input_dropout: Dropout on the features and on P.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_nodes: int,
        position_channels: int = 16,
        linear: bool = True,
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
        encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        check_count("position_channels", position_channels)
        widths = [hidden_channels, position_channels]
        super().__init__(
            in_channels,
            encoder,
            build_decoder("linear", sum(widths), out_channels, dropout, True),
            Integration(time, step_size, solver, tolerance),
            num_nodes=num_nodes,
        )
        self.place = RowMap(num_nodes, position_channels, input_dropout)
        operator = EdgeAttention(
            widths, attention, normalizer, normalization, heads, attention_channels
        )
        self.diffusion = AttentiveDiffusion(operator, linear)
        self.beta = Signed() if source else None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        position_index: Tensor | None = None,
        position_weight: Tensor | None = None,
    ) -> Tensor:
        """Logits [N, classes] from features [N, F] and the indices and entries of P."""
        graph = x, edge_index, edge_weight
        found = self.evolve(*graph, position_index=position_index, position_weight=position_weight)
        return self.decoder(found.final)

    def evolve(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[float] = (),
        **known: Tensor | None,
    ) -> Solution:
        """Compute Z(T), and Z at the times of ``save_at``; P is computed if not ``known``."""
        self.check(x, edge_index, edge_weight)
        index, weight = known.get("position_index"), known.get("position_weight")
        if index is None or weight is None:
            found = page_rank(edge_index, x.size(0))
            index, weight = found["position_index"], found["position_weight"]
        (row, column), shape = index, (x.size(0), x.size(0))
        pattern, order = remember(index, shape, lambda: Pattern.from_entries(row, column, shape))
        places = Adjacency(pattern, weight.to(x.dtype).index_select(0, order))
        h0 = torch.cat([self.encoder(x), self.place(places)], -1)
        return solve_from(
            lambda h0: self.field(h0, edge_index, edge_weight), h0, self.integration, save_at
        )

    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f(Z) = σ(α) (Ā − I) Z + β Z(0)."""
        if self.beta is None:
            return self.diffusion(h0, edge_index, edge_weight, None)
        return self.diffusion(h0, edge_index, edge_weight, h0.detach(), self.beta())
