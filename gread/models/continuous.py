"""What networks in continuous time share: an encoder, a right-hand side to follow, a decoder.

    H(0) = e(X),    dH/dt = f(t, H),    ŷ = o(H(T))

A model says what f is, from the graph and H(0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_not_negative, check_positive
from gread.base.errors import InputError
from gread.dynamics.integrate import Solution, VectorField, integrate, steps
from gread.dynamics.reactions import Terms
from gread.dynamics.solve import solve
from gread.dynamics.tableau import SOLVERS
from gread.graph.checks import check_edges, check_features
from gread.graph.operator import Operator


@dataclass(frozen=True)
class Diffusion:
    """f(H) = −α L̃ H + β S, where all but H stays as it is; `gread.dynamics` knows how to follow it.

    Attributes:
        adj: Ã.
        alpha: α, one for all channels or one a channel; of several members with these in front.
        source: S [N, d], or None where there is none.
        beta: β, likewise.
    """

    adj: Operator
    alpha: Tensor
    source: Tensor | None = None
    beta: Tensor | float = 1.0

    def __call__(self, t: float, h: Tensor) -> Tensor:
        """The slope at H."""
        slope = -_for_nodes(self.alpha) * self.adj.laplacian(h)
        return slope if self.source is None else slope + _for_nodes(self.beta) * self.source


def _for_nodes(coefficient: Tensor | float) -> Tensor | float:
    """The same for all nodes, whose axis is the one before the channels."""
    if isinstance(coefficient, Tensor) and coefficient.dim():
        return coefficient.unsqueeze(-2)
    return coefficient


class ContinuousGNN(nn.Module, ABC):
    """Encoder, dynamics, decoder.

    Args:
        in_channels: Number of features.
        encoder: From the features to H(0).
        decoder: From H(T) to logits.
        time: T.
        step_size: τ of a fixed-step solver.
        solver: A name of ``gread.SOLVERS``.
        tolerance: Error allowed to an adaptive solver.
        num_nodes: Number of nodes of the graph, of a model that is of one graph alone.
    """

    def __init__(
        self,
        in_channels: int,
        encoder: nn.Module,
        decoder: nn.Module,
        *,
        time: float,
        step_size: float,
        solver: str,
        tolerance: float = 1e-5,
        num_nodes: int | None = None,
    ):
        super().__init__()
        if num_nodes is not None:
            check_count("num_nodes", num_nodes)
        check_not_negative("time", time)
        check_positive("step_size", step_size)
        check_positive("tolerance", tolerance)
        SOLVERS[solver]  # an unknown name fails here, not at the first call
        self.in_channels = in_channels
        self.num_nodes = num_nodes
        self.encoder = encoder
        self.decoder = decoder
        self.integrate = partial(
            integrate, time=time, step_size=step_size, solver=solver, tolerance=tolerance
        )

    @abstractmethod
    def field(self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> VectorField:
        """f, the right-hand side, on a graph and from H(0) = ``h0``."""

    @property
    def time(self) -> float:
        """T."""
        time: float = self.integrate.keywords["time"]
        return time

    def reset_parameters(self) -> None:
        """Draws every parameter anew."""
        for part in self.children():
            reset(part)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        return self.decode(self.evolve(x, edge_index, edge_weight).final, edge_index, edge_weight)

    def decode(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from a state: at T, or on the way what it would say there."""
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
        return self.solved(
            lambda h0: self.field(h0, edge_index, edge_weight), self.encoder(x), save_at
        )

    def solved(
        self, field: Callable[[Tensor], VectorField], h0: Tensor, save_at: Sequence[float]
    ) -> Solution:
        """From H(0) on; in full precision under autocast as well, since errors of steps add up."""
        kind = h0.device.type
        if torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                return self.solved(field, h0.float(), save_at)
        return self.follow(field(h0), h0, save_at)

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """H(0), and the state behind every step of the solver: its layers."""
        times = [0.0, *(end for _, end in steps(self.time, self.integrate.keywords["step_size"]))]
        return list(self.evolve(x, edge_index, edge_weight, save_at=times).saved)

    def check(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> None:
        """Requires a graph with the features the model was built for."""
        check_features("x", x, self.in_channels)
        check_edges(edge_index, edge_weight, x)
        if self.num_nodes not in (None, x.size(0)):
            raise InputError(
                f"x must have {self.num_nodes} rows, one for each node of the graph that the model "
                f"is of, got {x.size(0)}"
            )

    def follow(self, f: VectorField, h0: Tensor, save_at: Sequence[float]) -> Solution:
        """From H(0) to H(T) along f, by the fastest way there is."""
        if isinstance(f, Diffusion) and not save_at:
            terms = Terms() if f.source is None else Terms(source=1)
            source = h0 if f.source is None else f.source
            solver = self.integrate.keywords
            known = solve(f.adj, h0, source, f.alpha, f.beta, terms=terms, **solver)
            if known is not None:
                return known
        return self.integrate(f, h0, save_at=save_at)
