"""H2GCN: separate states of a node, its neighbours and its two-hop neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gread.base.checks import check_count
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.graph.structure.two_hop import two_steps_away
from gread.kernels.pattern import remember
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap, StateActivation


class H2GCN(LayeredGNN):
    """R_k = [S R_{k−1} ‖ S₂ R_{k−1}] with R_0 = ReLU(X W), and a linear map of [R_0 ‖ R_1 ‖ ...].

    S = D^-½ A D^-½ without loops. S₂ is the same for the graph that connects nodes exactly two
    steps apart. Edge weights affect S, but not S₂.

    Args:
        in_channels, out_channels, input_dropout: As in `LayeredGNN`.
        hidden_channels: Width of R_0; every round doubles the width.
        rounds: Number of rounds.
        activation: Whether to apply a ReLU to R_0.
        dropout: Dropout before the last map.
    """

    decoder: nn.Linear

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        rounds: int = 1,
        activation: bool = True,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("rounds", rounds)
        self.encoder = FeatureMap(in_channels, hidden_channels, input_dropout, bias=False)
        self.activation = StateActivation(activation)
        self.adjacency = OriginalAdjacency(self_loops=0.0, own_loops=False)
        self.dropout = Dropout(dropout)
        width = (2 ** (rounds + 1) - 1) * hidden_channels
        self.decoder = nn.Linear(width, out_channels, bias=False)
        self.rounds = rounds
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters by Glorot initialization."""
        for part in (self.encoder, self.decoder):
            nn.init.xavier_uniform_(part.weight)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        two_hop: Tensor | None = None,
    ) -> Tensor:
        """Logits [N, classes]; ``two_hop`` [2, E₂] are the pairs two steps apart, if known."""
        self.check(x, edge_index, edge_weight)
        return self.decode(self.states(x, self.operator(x, edge_index, edge_weight, two_hop)))

    def operator(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        two_hop: Tensor | None = None,
    ) -> tuple[Operator, Operator]:
        """Compute S and S₂."""
        if two_hop is None:
            key = ("two hop", x.size(0))
            two_hop = remember(edge_index, key, lambda: two_steps_away(edge_index, x.size(0)))
        return self.adjacency(x, edge_index, edge_weight), self.adjacency(x, two_hop)

    def states(self, x: Tensor, adj: tuple[Operator, Operator]) -> list[Tensor]:
        """Compute R_0, R_1, ..., each twice as wide as the one before."""
        states = [self.activation(self.encoder(x))]
        for _ in range(self.rounds):
            states.append(torch.cat([one @ states[-1] for one in adj], dim=-1))
        return states

    def decode(self, states: list[Tensor]) -> Tensor:
        """Apply the linear map to [R_0 ‖ R_1 ‖ ...]."""
        return self.decoder(self.dropout(torch.cat(states, dim=-1)))
