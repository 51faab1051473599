"""GREAD-X: reaction-diffusion with matrix coefficients, one set per step.

    H_0     = φ(e(X))
    H_{k+1} = φ(Norm(H_k R_k + (Ã H_k) P_k + r(H_k) Q_k)),   k = 0, ..., K − 1
    ŷ       = o(H_K),  or o([H_0, ..., H_K]) with jumping connections

In a system of several species the diffusion coefficient is a matrix: the flux of one species
depends on the gradients of all (cross-diffusion). So the coefficients R, P, Q are d × d:

- H R is local: what a node keeps of itself, the ego term of heterophilous networks;
- (Ã H) P is the diffusion;
- r(H) Q is the reaction, any of `gread.dynamics.reactions`; BS gives Ã L̃ H, a band-pass.

A graph step is followed by φ and Norm, which mix no neighbours (operator splitting).

Special cases: with R = (1 − τα) I, P = τα I, Q = τβ I, shared by all steps, and φ and Norm the
identity, these are K Euler steps of GREAD (of GRAND, for β = 0); with Q = 0 it is a GCN with a
linear residual; with r = FB, H, Ã H and L̃ H are the three filters of ACM-GCN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, gelu
from torch_geometric.utils import is_undirected

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.dynamics.integrate import Solution
from gread.dynamics.reactions import Reaction, State, build_reaction
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.kernels.pattern import remember
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, build_encoder
from gread.models.stacking import PartByPart, Stacked, part_by_part, together

ACTIVATIONS: Registry[Callable[[Tensor], Tensor]] = Registry(
    "activation", {"relu": torch.relu, "elu": elu, "gelu": gelu, "none": lambda h: h}
)


NORMS: Registry[Callable[[int], nn.Module]] = Registry(
    "norm", {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
)
WEIGHTS: Registry[bool] = Registry("weights", {"per-step": True, "shared": False})
"""Whether every step has coefficients of its own."""


class Mixture(nn.Module):
    """Σ_i c_i Z_i of terms Z_1, Z_2, ... with one number or one per channel for each.

    Args:
        terms: How many.
        shape: ``()`` or ``(channels,)``, of a coefficient.
    """

    def __init__(self, terms: int, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(terms, *shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in [−1, 1]."""
        nn.init.uniform_(self.weight, -1, 1)

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """[N, d] from terms [N, d]."""
        return _sum(self.weight, terms)

    @classmethod
    def stacked(cls, members: Sequence[Mixture]) -> nn.Module:
        """Each member with its numbers."""
        return Mixtures(members)


class Mixtures(Stacked):
    """`Mixture` of several members."""

    def __init__(self, members: Sequence[Mixture]):
        super().__init__()
        self.weight = together([one.weight for one in members])

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """[members, N, d] from terms [members, N, d]."""
        return _sum(self.weight.view(*self.weight.shape[:2], 1, -1).unbind(1), terms)


def _sum(coefficients: Iterable[Tensor], terms: Sequence[Tensor]) -> Tensor:
    return reduce(torch.add, (c * z for c, z in zip(coefficients, terms, strict=True)))


class MatrixMixture(PartByPart):
    """Σ_i Z_i C_i + b of terms Z_1, Z_2, ..., with a matrix for each: [Z_1, Z_2, ...] C + b."""

    def __init__(self, terms: int, channels: int):
        super().__init__()
        self.linear = nn.Linear(terms * channels, channels)

    def reset_parameters(self) -> None:
        """As ``nn.Linear``."""
        self.linear.reset_parameters()

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """[N, d] from terms [N, d]."""
        return self.linear(torch.cat(list(terms), -1))


COEFFICIENTS: Registry[Callable[[int, int], nn.Module]] = Registry(
    "coefficients",
    {"scalar": lambda terms, channels: Mixture(terms), "vector": Mixture, "matrix": MatrixMixture},
)
"""From the number of terms and of channels."""


class Step(PartByPart):
    """One step H_k ↦ H_{k+1}.

    Args:
        mixture: The coefficients.
        norm, activation: Norm and φ.
        dropout: Rate behind φ.
        residual: Whether H_k is added.
    """

    def __init__(
        self,
        mixture: nn.Module,
        norm: nn.Module,
        activation: Callable[[Tensor], Tensor],
        dropout: float,
        residual: bool,
    ):
        super().__init__()
        self.mixture, self.norm, self.dropout = mixture, norm, Dropout(dropout)
        self.activation, self.residual = activation, residual

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """From the terms H, Ã H and r(H)."""
        new = self.dropout(self.activation(self.norm(self.mixture(terms))))
        return terms[0] + new if self.residual else new


class GREADX(LayeredGNN):
    """Stacked reaction-diffusion steps with matrix coefficients (GREAD-X).

    Args:
        in_channels: Number of features.
        hidden_channels: Width d of the state.
        out_channels: Number of classes.
        reaction: r: a name of ``gread.REACTIONS``, a function of a ``gread.State`` or a module;
            None leaves the third term out.
        num_steps: K.
        coefficients: ``"matrix"``, ``"vector"`` or ``"scalar"``: the kind of R, P and Q.
        weights: ``"per-step"`` gives every step coefficients of its own, ``"shared"`` one set.
        norm: ``"batch"``, ``"layer"`` or ``"none"``.
        activation: φ: ``"relu"``, ``"elu"``, ``"gelu"`` or ``"none"``.
        residual: Whether a step adds its state.
        jump: Whether the decoder receives all states.
        direction: ``"undirected"``, or ``"both"`` for separate operators and coefficients of
            incoming and outgoing edges of a directed graph.
        input_dropout: Dropout on the features.
        dropout: Dropout on the states.
        normalization, self_loops: Of Ã, as in `gread.ReactionDiffusionConv`.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> model = gread.GREADX(data.num_features, 16, 2, num_steps=3)
        >>> model(data.x, data.edge_index).shape
        torch.Size([60, 2])
        >>> len(model.hidden_states(data.x, data.edge_index))
        4
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        reaction: str | Reaction | type[nn.Module] | None = "bs",
        num_steps: int = 4,
        coefficients: str = "matrix",
        weights: str = "per-step",
        norm: str = "batch",
        activation: str = "relu",
        residual: bool = False,
        jump: bool = False,
        direction: str = "undirected",
        input_dropout: float = 0.0,
        dropout: float = 0.2,
        normalization: str = "symmetric",
        self_loops: float = 1.0,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_steps", num_steps)
        self.operators = DIRECTIONS[direction]
        self.adjacency = OriginalAdjacency(normalization=normalization, self_loops=self_loops)
        self.encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        self.activation, self.dropout = ACTIVATIONS[activation], Dropout(dropout)
        self.reaction = None if reaction is None else build_reaction(reaction, hidden_channels)
        graphs = 2 if direction == "both" else 1
        terms = 1 + graphs * (1 if reaction is None else 2)
        build = partial(COEFFICIENTS[coefficients], terms, hidden_channels)
        self.num_steps = num_steps
        self.steps = nn.ModuleList(
            Step(build(), NORMS[norm](hidden_channels), self.activation, dropout, residual)
            for _ in range(num_steps if WEIGHTS[weights] else 1)
        )
        self.jump = jump
        self.decoder = nn.Linear(hidden_channels * (num_steps + 1 if jump else 1), out_channels)

    def operator(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
    ) -> tuple[Operator, ...]:
        """Ã, or the two of incoming and of outgoing edges."""
        return self.operators(self.adjacency, x, edge_index, edge_weight)

    def states(self, x: Tensor, adj: tuple[Operator, ...]) -> list[Tensor]:
        """H_0, ..., H_K."""
        states = [self.dropout(self.activation(self.encoder(x)))]
        for number in range(self.num_steps):
            step = self.steps[number % len(self.steps)]
            states.append(step(self.terms(states[-1], states[0], adj)))
        return states

    def terms(self, h: Tensor, h0: Tensor, adj: tuple[Operator, ...]) -> list[Tensor]:
        """H, and for every operator Ã H and r(H)."""
        found = [h]
        for one in adj:
            lh = one.laplacian(h)
            found.append(h - lh)
            if self.reaction is not None:
                found.append(self.reaction(State(h, h0, lh, one)))
        return found

    def decode(self, states: list[Tensor]) -> Tensor:
        """Logits from H_K, or from all states."""
        return self.decoder(torch.cat(states, -1) if self.jump else states[-1])

    @classmethod
    def stacked(cls, members: Sequence[GREADX]) -> nn.Module:
        """Several members as one, each with its dropout and its Ã."""
        return part_by_part(members)

    def evolve(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[int] = (),
    ) -> Solution:
        """H_K, and the states after the steps of ``save_at``."""
        states = self.hidden_states(x, edge_index, edge_weight)
        return Solution(states[-1], tuple(states[int(k)] for k in save_at), self.num_steps)


def _undirected(
    adjacency: nn.Module, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
) -> tuple[Operator, ...]:
    return (adjacency(x, edge_index, edge_weight),)


def _both(
    adjacency: nn.Module, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
) -> tuple[Operator, ...]:
    def reversed_edges() -> Tensor:
        if is_undirected(edge_index, num_nodes=x.size(-2)):
            raise InputError('direction must be "undirected": all edges have their reverse')
        return edge_index.flip(0)

    back = remember(edge_index, "reversed", reversed_edges)
    return adjacency(x, edge_index, edge_weight), adjacency(x, back, edge_weight)


DIRECTIONS: Registry[Callable[..., tuple[Operator, ...]]] = Registry(
    "direction", {"undirected": _undirected, "both": _both}
)
