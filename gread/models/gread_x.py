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

If edges have types or directions, each of them has its own operator Ã_r. The terms (Ã H) P and
r(H) Q become sums over r with coefficients P_r and Q_r, as in R-GCN (Schlichtkrull et al., ESWC
2018).

Special cases: with R = (1 − τα) I, P = τα I, Q = τβ I, shared by all steps, and φ and Norm the
identity, these are K Euler steps of GREAD (of GRAND, for β = 0); with Q = 0 it is a GCN with a
linear residual; with r = FB, H, Ã H and L̃ H are the three filters of ACM-GCN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.utils import is_undirected

from gread.base.checks import check_count, check_flag
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.dynamics.integrate import Solution
from gread.dynamics.reactions import Reaction, State, build_reaction
from gread.graph.adjacency import OriginalAdjacency, ones_for
from gread.graph.operator import EdgeSource, Operator
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.pattern import remember
from gread.models.hub import Pretrained
from gread.models.stacking import Stacked, together
from gread.models.steps import SteppedGNN


class Embedding(nn.Module):
    """Adjacency embedding Ã W with one row of W per node, which identifies the neighbours."""

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
        num_relations: Number of edge types, each with its own operators and coefficients. With more
            than one, `forward` takes ``edge_type``.
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
        num_relations: int = 1,
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
        check_count("num_relations", num_relations)
        ways, edges = DIRECTIONS[direction]
        operators, reacts = ways * num_relations, reaction != "none"
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
        self.edges, self.direction, self.local = edges, direction, local
        self.num_relations, self.self_loops = num_relations, self_loops
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
            if self.num_relations > 1:
                raise InputError(
                    f"num_relations must be 1 over several processes, got {self.num_relations}"
                )
        super().check(x, edge_index, edge_weight)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        """Logits [N, classes] from features [N, F].

        ``edge_type`` [E] is the type of each edge, 0 to ``num_relations`` − 1; a pair of nodes may
        have edges of several types.
        """
        return self.decode(self.hidden_states(x, edge_index, edge_weight, edge_type=edge_type))

    def hidden_states(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        edge_type: Tensor | None = None,
    ) -> list[Tensor]:
        """Compute H_0, ..., H_K."""
        self.check(x, edge_index, edge_weight)
        return self.states(x, self.operator(x, edge_index, edge_weight, edge_type))

    def operator(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        edge_type: Tensor | None = None,
    ) -> tuple[Operator, ...]:
        """Compute Ã, or one operator for each direction and type of the edges."""
        if self.num_relations > 1 or edge_type is not None:
            edge_type = checked_types(edge_type, edge_index, self.num_relations)
        explained = any(getattr(part, "explain", False) for part in self.adjacency.modules())
        masked = partial(masked_by_type, self_loops=self.self_loops)
        parts = masked if explained or torch.compiler.is_compiling() else by_type
        return tuple(
            self.adjacency(x, *part)
            for way in self.edges(edge_index, edge_weight, edge_type)
            for part in parts(way, edge_weight, edge_type, self.num_relations, x)
        )

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
        edge_type: Tensor | None = None,
        save_at: Sequence[int] = (),
    ) -> Solution:
        """Compute H_K, and the states after the steps in ``save_at``, 0 to K."""
        for step in save_at:
            if step not in range(self.num_steps + 1):
                raise InputError(f"save_at must name steps 0 to {self.num_steps}, got {step}")
        states = self.hidden_states(x, edge_index, edge_weight, edge_type=edge_type)
        return Solution(states[-1], tuple(states[int(k)] for k in save_at), self.num_steps)


def checked_types(edge_type: Tensor | None, edge_index: Tensor, count: int) -> Tensor:
    """Require a type, 0 to ``count`` − 1, for each edge."""
    if edge_type is None:
        raise InputError(f"edge_type must be given with num_relations={count}, got none")
    if not isinstance(edge_type, Tensor):
        raise InputError(f"edge_type must be a tensor, got {type(edge_type).__name__}")
    if edge_type.dtype != torch.int64 or edge_type.shape != edge_index.shape[1:]:
        raise InputError(
            f"edge_type must be int64 {list(edge_index.shape[1:])}, a type for each edge, got "
            f"{edge_type.dtype} {list(edge_type.shape)}"
        )
    if edge_type.numel() and values_can_be_read():
        low, high = remember(edge_type, "bounds", lambda: tuple(map(int, edge_type.aminmax())))
        if low < 0 or high >= count:
            raise InputError(
                f"edge_type must be 0 to {count - 1}, as num_relations is {count}, got "
                f"{low if low < 0 else high}"
            )
    return edge_type


def masked_by_type(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    edge_type: Tensor | None,
    count: int,
    x: Tensor,
    self_loops: float = 0.0,
) -> list[tuple[Tensor, Tensor | None]]:
    """All edges for each type, with weight 0 for other types, so that explainers can mask them.

    If Ã adds ``self_loops``, all loops of a node have the weight of its loop of this type, or the
    weight that Ã would add.
    """
    if edge_type is None or count == 1:
        return [(edge_index, edge_weight)]
    weight = ones_for(x, edge_index.size(1)) if edge_weight is None else edge_weight
    (source, target), n = edge_index, x.size(0)

    def of(number: int) -> Tensor:
        own = edge_type == number
        if not self_loops:
            return weight * own
        loop = source == target
        # The last place is for edges that are not a loop of this type.
        loops = weight.new_full((n + 1,), self_loops)
        loops = loops.scatter(0, torch.where(own & loop, target, n), weight)
        return torch.where(loop, loops[target], weight * own)

    return [(edge_index, of(number)) for number in range(count)]


def by_type(
    edge_index: Tensor, edge_weight: Tensor | None, edge_type: Tensor | None, count: int, x: Tensor
) -> list[tuple[Tensor, Tensor | None]]:
    """Edges and weights of each type: the same operators with fewer entries."""
    if edge_type is None or count == 1:
        return [(edge_index, edge_weight)]

    def found() -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        places = [(edge_type == number).nonzero().squeeze(1) for number in range(count)]
        return edge_type, [(edge_index[:, place], place) for place in places]

    # The cache keeps the types alive, so no other tensor can have their id.
    key = ("types", id(edge_type), edge_type._version, count)
    _, parts = remember(edge_index, key, found)
    return [(part, None if edge_weight is None else edge_weight[at]) for part, at in parts]


def _undirected(edge_index: Tensor, *_: Tensor | None) -> tuple[Tensor, ...]:
    return (edge_index,)


def _both(
    edge_index: Tensor, edge_weight: Tensor | None, edge_type: Tensor | None
) -> tuple[Tensor, ...]:
    def reversed_edges() -> Tensor:
        told_apart = edge_weight is not None or edge_type is not None or not edge_index.numel()
        if values_can_be_read() and not told_apart and is_undirected(edge_index):
            raise InputError(
                'direction must be "undirected" for a graph of which all edges have their reverse, '
                'got "both"'
            )
        return edge_index.flip(0)

    plain = edge_weight is None and edge_type is None
    return edge_index, remember(edge_index, ("reversed", plain), reversed_edges)


DIRECTIONS: Registry[tuple[int, Callable[..., tuple[Tensor, ...]]]] = Registry(
    "direction", {"undirected": (1, _undirected), "both": (2, _both)}
)
"""Number of directions, and a function from edges, weights and types to the edges of each."""
