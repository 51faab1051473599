"""Networks in continuous time: an encoder, a right-hand side that is integrated, a decoder.

    H(0) = e(X),    dH/dt = f(t, H),    ŷ = o(H(T))

A model says what f is, from the graph and H(0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.dynamics.integrate import Solution, VectorField
from gread.dynamics.solve import solve, solve_together
from gread.dynamics.tableau import Integration
from gread.graph.adjacency import Shared
from gread.graph.checks import check_edges, check_features
from gread.models.stacking import CannotStack, Stacked, part_by_part, unstack


def solve_from(
    field: Callable[[Tensor], VectorField],
    h0: Tensor,
    integration: Integration,
    save_at: Sequence[float] = (),
) -> Solution:
    """Follow f = ``field(h0)`` from H(0) to H(T).

    In full precision under autocast as well, since the errors of steps add up.
    """
    kind = h0.device.type
    if torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):
            return solve_from(field, h0.float(), integration, save_at)
    return solve(field(h0), h0, integration, save_at=save_at)


class ContinuousGNN(nn.Module, ABC):
    """Encoder, dynamics, decoder.

    Args:
        in_channels: Number of features.
        encoder: From the features to H(0).
        decoder: From H(T) to logits.
        integration: From 0 to T.
        num_nodes: Number of nodes of the graph, of a model with weights for each node.
    """

    def __init__(
        self,
        in_channels: int,
        encoder: nn.Module,
        decoder: nn.Module,
        integration: Integration,
        *,
        num_nodes: int | None = None,
    ):
        super().__init__()
        if num_nodes is not None:
            check_count("num_nodes", num_nodes)
        self.in_channels = in_channels
        self.num_nodes = num_nodes
        self.encoder = encoder
        self.decoder = decoder
        self.integration = integration

    @abstractmethod
    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f, the right-hand side, on a graph and from H(0) = ``h0``."""

    @property
    def time(self) -> float:
        """T."""
        return self.integration.time

    def reset_parameters(self) -> None:
        """Draw every parameter again."""
        for part in self.children():
            reset(part)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        return self.decode(self.evolve(x, edge_index, edge_weight).final, edge_index, edge_weight)

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """H(0) from features [N, F]."""
        return self.encoder(x)

    def decode(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from a state, at T or before."""
        return self.decoder(h)

    def evolve(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[float] = (),
    ) -> Solution:
        """H(T), and H at the times of ``save_at``: the trajectory of the node states."""
        self.check(x, edge_index, edge_weight)
        return solve_from(
            lambda h0: self.field(h0, edge_index, edge_weight),
            self.encode(x, edge_index, edge_weight),
            self.integration,
            save_at,
        )

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """H(0), and the state after every step of the solver: its layers."""
        times = [0.0, *(end for _, end in self.integration.steps())]
        return list(self.evolve(x, edge_index, edge_weight, save_at=times).saved)

    def check(self, x: Tensor, edge_index: Tensor | Shared, edge_weight: Tensor | None) -> None:
        """Require a graph with the features the model was built for."""
        check_features("x", x, self.in_channels)
        if not isinstance(edge_index, Shared):  # a shard was checked when it was read
            check_edges(edge_index, edge_weight, x)
        if self.num_nodes not in (None, x.size(0)):
            raise InputError(
                f"x must have {self.num_nodes} rows, one for each node of the graph that the model "
                f"is of, got {x.size(0)}"
            )


class ContinuousGNNs(Stacked):
    """Several models of one form, each with its T and τ.

    Attributes:
        model: With the parts of all members.
        integrations: Of every member.
    """

    each = ("integrations",)

    def __init__(self, models: Sequence[ContinuousGNN]):
        super().__init__()
        if models[0].integration.tableau is None:
            raise CannotStack("an adaptive solver chooses its steps for each state by itself")
        self.model = part_by_part(models)
        self.integrations = tuple(model.integration for model in models)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [members, N, classes] from features [N, F]."""
        model = self.model
        model.check(x, edge_index, edge_weight)
        h0 = model.encode(x, edge_index, edge_weight)
        final = solve_together(model.field(h0, edge_index, edge_weight), h0, self.integrations)
        return model.decode(final, edge_index, edge_weight)

    def give(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Give parameters of members to the parts that they are of."""
        unstack(self.model, models, members)
