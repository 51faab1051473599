"""H2GCN: a node, its neighbours and those two steps away, kept apart to the end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gread.base.checks import check_count, check_sizes
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.checks import check_edges, check_features
from gread.graph.structure.two_hop import two_steps_away
from gread.kernels.pattern import remember
from gread.models.layers import Dropout, FeatureMap, StateActivation


class H2GCN(nn.Module):
    """R_k = [S R_{k−1} ‖ S₂ R_{k−1}] with R_0 = ReLU(X W), and a linear map of [R_0 ‖ R_1 ‖ ...].

    S = D^-½ A D^-½ without loops, and S₂ the same of the graph of nodes exactly two steps apart.
    Edge weights are in S; whether two nodes are two steps apart has nothing to do with them.

    Args:
        in_channels: Number of features.
        hidden_channels: Width of R_0; every round is twice as wide as the one before.
        out_channels: Number of classes.
        rounds: How many.
        activation: Whether R_0 passes a ReLU.
        input_dropout: Dropout on the features.
        dropout: Dropout before the last map.
    """

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
        super().__init__()
        check_count("rounds", rounds)
        check_sizes(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        self.in_channels = in_channels
        self.encoder = FeatureMap(in_channels, hidden_channels, input_dropout, bias=False)
        self.activation = StateActivation(activation)
        self.adjacency = OriginalAdjacency(self_loops=0.0, own_loops=False)
        self.dropout = Dropout(dropout)
        width = (2 ** (rounds + 1) - 1) * hidden_channels
        self.decoder = nn.Linear(width, out_channels, bias=False)
        self.rounds = rounds
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws every parameter anew, by Glorot and Bengio's rule."""
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
        """Logits [N, classes] from features [N, F].

        Args:
            x: Features.
            edge_index: Edges.
            edge_weight: Their weights.
            two_hop: Pairs of nodes two steps apart [2, E₂], if they are known.
        """
        states = self.hidden_states(x, edge_index, edge_weight, two_hop=two_hop)
        return self.decoder(self.dropout(torch.cat(states, dim=-1)))

    def hidden_states(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        two_hop: Tensor | None = None,
    ) -> list[Tensor]:
        """R_0 to that of the last round, each twice as wide as the one before."""
        check_features("x", x, self.in_channels)
        check_edges(edge_index, edge_weight, x)
        if two_hop is None:
            key = ("two hop", x.size(0))
            two_hop = remember(edge_index, key, lambda: two_steps_away(edge_index, x.size(0)))
        near = self.adjacency(x, edge_index, edge_weight)
        far = self.adjacency(x, two_hop)
        states = [self.activation(self.encoder(x))]
        for _ in range(self.rounds):
            r = states[-1]
            states.append(torch.cat([near @ r, far @ r], dim=-1))
        return states
