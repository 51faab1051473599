"""Continuous-time networks: encoder, integrated right-hand side, decoder.

    H(0) = e(X),    dH/dt = f(t, H),    ŷ = o(H(T))

A model defines f from the graph and H(0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gread.dynamics.integrate import Solution, VectorField
from gread.dynamics.solve import solve, solve_together
from gread.dynamics.tableau import Integration
from gread.models.base import GraphModel
from gread.models.stacking import CannotStack, Stacked, part_by_part, unstack


def solve_from(
    field: Callable[[Tensor], VectorField],
    h0: Tensor,
    integration: Integration,
    save_at: Sequence[float] = (),
) -> Solution:
    """Integrate f = ``field(h0)`` from H(0) to H(T).

    Under autocast this uses full precision, because the errors of the steps add up.
    """
    kind = h0.device.type
    if torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):
            return solve_from(field, h0.float(), integration, save_at)
    return solve(field(h0), h0, integration, save_at=save_at)


class ContinuousGNN(GraphModel, ABC):
    """Encoder, dynamics, decoder.

    Args:
        encoder: Module from the features to H(0).
        decoder: Module from H(T) to logits.
        integration: Integration from 0 to T.
        in_channels, num_nodes: As in `GraphModel`.
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
        super().__init__(in_channels, num_nodes)
        self.encoder = encoder
        self.decoder = decoder
        self.integration = integration

    @abstractmethod
    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """The right-hand side f on a graph, for H(0) = ``h0``."""

    @property
    def time(self) -> float:
        """End time T."""
        return self.integration.time

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        return self.decode(self.evolve(x, edge_index, edge_weight).final, edge_index, edge_weight)

    def encode(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Compute H(0) from features [N, F]."""
        return self.encoder(x)

    def decode(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Compute logits [N, classes] from a state at any time."""
        return self.decoder(h)

    def evolve(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[float] = (),
        **known: Tensor | None,
    ) -> Solution:
        """Compute H(T), and H at the times of ``save_at``.

        ``known`` are further arguments of the `field` of a model.
        """
        self.check(x, edge_index, edge_weight)
        return solve_from(
            lambda h0: self.field(h0, edge_index, edge_weight, **known),
            self.encode(x, edge_index, edge_weight),
            self.integration,
            save_at,
        )

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """Compute H(0) and the state after every step of length ``step_size``."""
        times = [0.0, *(end for _, end in self.integration.steps())]
        return list(self.evolve(x, edge_index, edge_weight, save_at=times).saved)


class ContinuousGNNs(Stacked):
    """Several models of one form, each with its own T and τ.

    Attributes:
        model: Model with the parts of all members.
        integrations: Integration of each member.
    """

    each = ("integrations",)

    def __init__(self, models: Sequence[ContinuousGNN]):
        super().__init__()
        if models[0].integration.tableau is None:
            raise CannotStack("an adaptive solver chooses different steps for each state")
        self.model = part_by_part(models)
        self.integrations = tuple(model.integration for model in models)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [members, N, classes] from features [N, F]."""
        model = self.model
        model.check(x, edge_index, edge_weight)
        h0 = model.encode(x, edge_index, edge_weight)
        final = solve_together(model.field(h0, edge_index, edge_weight), h0, self.integrations)
        return model.decode(final, edge_index, edge_weight)

    def copy_to(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Copy the parameters of members to their parts."""
        unstack(self.model, models, members)
