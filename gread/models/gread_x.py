"""GREAD-X: reaction-diffusion with matrix coefficients, one set per step.

    H_0     = φ(e(X)),  or φ(e(X) + Ã W) with an adjacency embedding W
    H_{k+1} = φ(Norm(H_k R_k + (Ã H_k) P_k + r(H_k) Q_k)),   k = 0, ..., K − 1
    ŷ       = o(H_K),  or o([H_0, ..., H_K]) with jumping connections

In a system of several species the diffusion coefficient is a matrix: the flux of one species
depends on the gradients of all (cross-diffusion). So the coefficients R, P, Q are d × d:

- H R is local: the ego term of heterophilous networks;
- (Ã H) P is the diffusion;
- r(H) Q is the reaction, any of `gread.dynamics.reactions`; BS gives Ã L̃ H, a band-pass.

A graph step is followed by φ and Norm, which mix no neighbours (operator splitting).

Special cases: with R = (1 − τα) I, P = τα I, Q = τβ I, shared by all steps, and φ and Norm the
identity, these are K Euler steps of GREAD (of GRAND, for β = 0); with Q = 0 it is a GCN with a
linear residual; with r = FB, H, Ã H and L̃ H are the three filters of ACM-GCN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch_geometric.utils import is_undirected

from gread.base.checks import check_flag
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.dynamics.integrate import Solution
from gread.dynamics.reactions import Reaction, State, build_reaction
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import EdgeSource, Operator
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.pattern import remember
from gread.models.hub import Pretrained
from gread.models.stacking import Stacked, together
from gread.models.steps import SteppedGNN


class Embedding(nn.Module):
    """Adjacency embedding Ã W with one row of W per node, which encodes who the neighbours are."""

    def __init__(self, num_nodes: int, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_nodes, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize with a normal distribution of variance 1 / channels."""
        nn.init.normal_(self.weight, std=self.weight.size(1) ** -0.5)

    def forward(self, adj: Operator) -> Tensor:
        """Compute Ã W, [N, channels]."""
        return adj @ self.weight

    @classmethod
    def stacked(cls, members: Sequence[Embedding]) -> nn.Module:
        """Stack several members, each with its own rows."""
        return Embeddings(members)


class Embeddings(Stacked):
    """`Embedding` of several members."""

    def __init__(self, members: Sequence[Embedding]):
        super().__init__()
        self.weight = together([one.weight for one in members])

    def forward(self, adj: Operator) -> Tensor:
        """Compute Ã W of every member, [members, N, channels]."""
        return adj @ self.weight


class GREADX(SteppedGNN, Pretrained):
    """Stacked reaction-diffusion steps with matrix coefficients (GREAD-X).

    ``save_pretrained`` and ``from_pretrained`` are those of `gread.GREAD`.

    Args:
        in_channels: Number of features.
        hidden_channels: Width d of the state.
        out_channels: Number of classes.
        reaction: Reaction r: a name of ``gread.REACTIONS``, a function of a ``gread.State`` or a
            module; ``"none"`` drops the third term.
        num_steps: Number K of steps.
        coefficients: ``"matrix"``, ``"vector"`` or ``"scalar"``: the kind of R, P and Q.
        weights: ``"per-step"`` for separate coefficients in every step, ``"shared"`` for one set.
        norm: Normalization: ``"batch"``, ``"layer"`` or ``"none"``.
        activation: Activation φ: ``"relu"``, ``"elu"``, ``"gelu"`` or ``"none"``.
        local: Whether H R is a term.
        residual: Whether a step adds its input.
        jump: Whether the decoder receives all states.
        direction: ``"undirected"``, or ``"both"`` for separate operators and coefficients of
            incoming and outgoing edges of a directed graph.
        embedding: Whether H_0 contains Ã W. The model is then bound to one graph.
        num_nodes: Number of nodes of that graph; required by the embedding.
        input_dropout: Dropout on the features.
        dropout: Dropout on the states.
        normalization, self_loops: Arguments of Ã, as in `gread.ReactionDiffusionConv`.

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
        reaction: str | Reaction | type[nn.Module] = "bs",
        num_steps: int = 4,
        coefficients: str = "matrix",
        weights: str = "per-step",
        norm: str = "batch",
        activation: str = "relu",
        local: bool = True,
        residual: bool = False,
        jump: bool = False,
        direction: str = "undirected",
        embedding: bool = False,
        num_nodes: int | None = None,
        input_dropout: float = 0.0,
        dropout: float = 0.2,
        normalization: str = "symmetric",
        self_loops: float = 1.0,
    ):
        check_flag("local", local)
        check_flag("embedding", embedding)
        nodes = num_nodes if embedding else None
        if embedding and nodes is None:
            raise InputError("embedding needs num_nodes, the number of nodes of the graph")
        operators, made = DIRECTIONS[direction]
        reacts = reaction != "none"
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            terms=int(local) + operators * (2 if reacts else 1),
            num_steps=num_steps,
            coefficients=coefficients,
            weights=weights,
            norm=norm,
            activation=activation,
            residual=residual,
            jump=jump,
            input_dropout=input_dropout,
            dropout=dropout,
            num_nodes=nodes,
        )
        self.adjacency = OriginalAdjacency(normalization=normalization, self_loops=self_loops)
        self.operators, self.direction, self.local = made, direction, local
        self.reaction = build_reaction(reaction, hidden_channels) if reacts else None
        self.embeddings = nn.ModuleList(
            Embedding(nodes, hidden_channels) for _ in range(operators) if nodes is not None
        )

    def check(self, x: Tensor, edge_index: Tensor | EdgeSource, edge_weight: Tensor | None) -> None:
        """Require the graph of the model, or a shard that it can be trained on."""
        if not isinstance(edge_index, Tensor) and isinstance(edge_index, EdgeSource):
            if self.embeddings:
                raise InputError("embedding must be False over several processes, got True")
            if self.direction != "undirected":
                raise InputError(
                    f'direction must be "undirected" over several processes, got "{self.direction}"'
                )
        super().check(x, edge_index, edge_weight)

    def operator(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
    ) -> tuple[Operator, ...]:
        """The operator Ã, or the two operators of incoming and outgoing edges."""
        return self.operators(self.adjacency, x, edge_index, edge_weight)

    def first(self, x: Tensor, adj: tuple[Operator, ...]) -> Tensor:
        """Compute e(X), or e(X) + Ã W."""
        encoded: Tensor = self.encoder(x)
        for embedding, one in zip(self.embeddings, adj, strict=False):
            encoded = encoded + embedding(one)
        return encoded

    def terms(self, number: int, h: Tensor, h0: Tensor, adj: tuple[Operator, ...]) -> list[Tensor]:
        """The terms H, and Ã H and r(H) for every operator."""
        found = [h] if self.local else []
        for one in adj:
            ah = one @ h
            found.append(ah)
            if self.reaction is not None:
                found.append(self.reaction(State(h, h0, h - ah, one)))
        return found

    def evolve(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[int] = (),
    ) -> Solution:
        """Compute H_K, and the states after the steps in ``save_at``, 0 to K."""
        for step in save_at:
            if step not in range(self.num_steps + 1):
                raise InputError(f"save_at must name steps 0 to {self.num_steps}, got {step}")
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
        directed = edge_weight is not None or not edge_index.numel()
        if values_can_be_read() and not directed and is_undirected(edge_index):
            raise InputError(
                'direction must be "undirected" for a graph of which all edges have their reverse, '
                'got "both"'
            )
        return edge_index.flip(0)

    back = remember(edge_index, ("reversed", edge_weight is None), reversed_edges)
    return adjacency(x, edge_index, edge_weight), adjacency(x, back, edge_weight)


DIRECTIONS: Registry[tuple[int, Callable[..., tuple[Operator, ...]]]] = Registry(
    "direction", {"undirected": (1, _undirected), "both": (2, _both)}
)
"""How many operators, and what makes them."""
