"""Several models of one form as one model, whose parameters have an axis of members in front.

The members share the graph and what decides shapes; dropout rates, the kinds of α and β, T and τ
are their own. Every operation treats them apart, so that each member gives what it gives alone.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gread.dynamics.integrate import Solution, walk
from gread.dynamics.reactions import Terms
from gread.dynamics.solve import solve_together
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.graph.adjacency import (
    ExplainedEdges,
    OriginalAdjacency,
    SoftAdjacency,
    edges_of,
)
from gread.graph.operator import Adjacency, Operator, in_one_pattern
from gread.kernels.operators import drop, product
from gread.kernels.pattern import Pattern, remember
from gread.models.attention import (
    AttentiveDiffusion,
    CosineScores,
    DotScores,
    EdgeAttention,
    Queries,
)
from gread.models.continuous import Diffusion
from gread.models.grand import GRAND
from gread.models.gread import GREAD, ReactionDiffusionConv
from gread.models.layers import (
    Dropout,
    FeatureMap,
    Gate,
    One,
    Residual,
    Signed,
    SignedVector,
    StateActivation,
    sparse_features,
)


class CannotStack(TypeError):
    """These models cannot be one; the message says why."""


def stack(models: Sequence[nn.Module]) -> nn.Module:
    """One model for all of them: it is called as each of them, and gives logits [members, N, C].

    Args:
        models: Of one form, with parameters of the same shapes but for those of α and β.

    Raises:
        CannotStack: A part has parameters that nothing here knows how to put together.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> times = (1.0, 2.0, 3.0)
        >>> models = [gread.GREAD(data.num_features, 8, 2, time=time) for time in times]
        >>> stack(models).eval()(data.x, data.edge_index).shape
        torch.Size([3, 60, 2])
    """
    rule = RULES.get(type(models[0]), _part_by_part)
    return rule(models).train(models[0].training)


def _part_by_part(models: Sequence[nn.Module]) -> nn.Module:
    first = models[0]
    if not isinstance(first, PARTWISE):
        raise CannotStack(f"there is no rule for {type(first).__name__}")
    if inspect.getfullargspec(first.forward).kwonlyargs:
        raise CannotStack(f"{type(first).__name__} takes more than the graph")
    made = copy.copy(first)
    made._modules = {
        name: child if child is None else stack([model._modules[name] for model in models])  # type: ignore[misc]
        for name, child in first._modules.items()
    }
    return made


@torch.no_grad()
def unstack(stacked: nn.Module, models: Sequence[nn.Module], members: Sequence[int]) -> None:
    """Gives parameters back: those of the member with each number to the model beside it."""
    if isinstance(stacked, Stacked):
        stacked.give(models, members)
    else:
        _children(stacked, models, members)


def keep(model: nn.Module, members: Sequence[int]) -> None:
    """Lets all other members of a stacked model go."""
    for module in model.modules():
        if isinstance(module, Stacked):
            module.keep(members)


class Stacked(nn.Module):
    """A part of several members, which stand in front of its parameters and buffers.

    Attributes:
        each: Names of attributes that have an entry for every member.
    """

    each: tuple[str, ...] = ()

    def give(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Gives parameters of members to the parts that they are of."""
        for name, parameter in self._parameters.items():
            for model, member in zip(models, members, strict=True):
                if parameter is not None:
                    model.get_parameter(name).copy_(parameter[member])
        _children(self, models, members)

    def keep(self, members: Sequence[int]) -> None:
        """Lets all other members go."""
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if tensor is not None:
                index = torch.tensor(members, device=tensor.device)
                tensor.data = tensor.detach().index_select(0, index)
                tensor.grad = None
        for name in self.each:
            entries = getattr(self, name)
            setattr(self, name, tuple(entries[member] for member in members))


def _children(stacked: nn.Module, models: Sequence[nn.Module], members: Sequence[int]) -> None:
    for name, child in stacked._modules.items():
        if child is not None:
            unstack(child, [model.get_submodule(name) for model in models], members)


class Linears(Stacked):
    """h ↦ h Wᵀ + b, [members, N, in] to [members, N, out]."""

    def __init__(self, linears: Sequence[nn.Linear]):
        super().__init__()
        self.weight = _stacked([linear.weight for linear in linears])
        self.bias = _stacked([linear.bias for linear in linears])

    def forward(self, h: Tensor) -> Tensor:
        """Each member by itself."""
        return torch.baddbmm(self.bias.unsqueeze(1), h, self.weight.mT)


class Dropouts(Stacked):
    """Dropout with a rate for every member."""

    rate: Tensor

    def __init__(self, dropouts: Sequence[Dropout]):
        super().__init__()
        self.register_buffer("rate", torch.tensor([d.rate for d in dropouts], dtype=torch.float64))
        self.unused = not any(dropout.rate for dropout in dropouts)
        self.seeds: Seeds | None = None

    def forward(self, h: Tensor) -> Tensor:
        """Of the shape given."""
        if not self.training or self.unused:
            return h
        assert self.seeds is not None, "Seeds.give_to(model) comes before training"
        return drop(h, self.rate, self.seeds.draw(self.rate))


class Seeds:
    """Where dropout gets its seeds: each member has the numbers that it would draw alone.

    A member draws one wherever its rate is not zero.

    Args:
        generators: Of every member.
        count: How many numbers each may need.
        device: Where they are needed.
    """

    def __init__(self, generators: Sequence[torch.Generator], count: int, device: torch.device):
        drawn = [torch.randint(2**31, (count,), generator=own) for own in generators]
        self.numbers = torch.stack(drawn).to(device)
        self.next = torch.zeros(len(drawn), 1, dtype=torch.int64, device=device)

    def give_to(self, model: nn.Module) -> None:
        """Lets every dropout of a stacked model draw from here."""
        for module in model.modules():
            if isinstance(module, Dropouts):
                module.seeds = self

    def draw(self, rate: Tensor) -> Tensor:
        """One number for each member whose rate is not zero, [members]."""
        found = self.numbers.gather(1, self.next).squeeze(1)
        self.next += (rate > 0).unsqueeze(1)
        return found

    def keep(self, members: Sequence[int]) -> None:
        """Lets all other members go."""
        index = torch.tensor(members, device=self.next.device)
        self.numbers, self.next = self.numbers[index], self.next[index]


class FeatureMaps(Stacked):
    """W Dropout(X) + b, from features [N, F] that all members share."""

    def __init__(self, maps: Sequence[FeatureMap]):
        super().__init__()
        self.weight = _stacked([one.weight for one in maps])
        # An encoder's map has a bias, always.
        self.bias = _stacked([one.bias for one in maps if one.bias is not None])
        self.dropout = Dropouts([one.dropout for one in maps])

    def forward(self, x: Tensor) -> Tensor:
        """[N, F] to [members, N, channels]."""
        words, bias = sparse_features(x), self.bias.unsqueeze(1)
        if words is None:
            return torch.baddbmm(bias, self.dropout(self._for_each(x)), self.weight)
        pattern, values = words
        if self.training:
            values = self.dropout(self._for_each(values))
        return product(pattern, values, self.weight) + bias

    def _for_each(self, shared: Tensor) -> Tensor:
        return shared.expand(len(self.weight), *shared.shape)


class StateActivations(Stacked):
    """ReLU on H(T) of those members that have it."""

    active: Tensor

    def __init__(self, activations: Sequence[StateActivation]):
        super().__init__()
        active = torch.tensor([one.active for one in activations])
        self.register_buffer("active", active.view(-1, 1, 1))

    def forward(self, h: Tensor) -> Tensor:
        """Of the shape given."""
        return torch.where(self.active, h.relu(), h)


class OriginalAdjacencies(Stacked):
    """OA of members with different normalisations or self loops: entries [members, E].

    Attributes:
        kinds: The different ones.
        which: Which of them each member has.
    """

    each = ("which",)

    def __init__(self, adjacencies: Sequence[OriginalAdjacency]):
        super().__init__()
        kinds = {(one.normalize, one.self_loops): one for one in adjacencies}
        self.kinds = nn.ModuleList(kinds.values())
        self.keys = tuple(kinds)
        self.which = tuple(self.keys.index((one.normalize, one.self_loops)) for one in adjacencies)

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Ã of every member, or the one that all share."""
        made: list[Adjacency] = [kind(h0, edge_index, edge_weight) for kind in self.kinds]
        if len(made) == 1:
            return made[0]
        if edge_weight is not None:
            return self._together(made)
        key = ("together", self.keys, self.which, h0.dtype, h0.size(-2))
        return remember(edge_index, key, lambda: self._together(made))

    def give(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Nothing: there is nothing to learn here."""

    def _together(self, made: Sequence[Adjacency]) -> Adjacency:
        pattern, weight = in_one_pattern([(one.pattern, one.weight) for one in made])
        return Adjacency(pattern, weight[list(self.which)], all(one.symmetric for one in made))


class SoftAdjacencies(Stacked):
    """SA of members with different self loops.

    Attributes:
        soft: With the queries and keys of all members.
        loops: The weight of each member's self loops.
    """

    each = ("loops",)
    soft: SoftAdjacency

    def __init__(self, adjacencies: Sequence[SoftAdjacency]):
        super().__init__()
        self.add_module("soft", _part_by_part(adjacencies))
        self.loops = tuple(one.self_loops for one in adjacencies)

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Ã of every member; where one has no loop, its entry is zero."""
        kinds = list(dict.fromkeys(self.loops))
        if len(kinds) == 1:
            self.soft.self_loops = kinds[0]
            adj: Adjacency = self.soft(h0, edge_index, edge_weight)
            return adj
        key = ("together", self.loops, h0.dtype, h0.size(-2))
        made = [edges_of(edge_index, edge_weight, h0, loops) for loops in kinds]

        def together() -> tuple[Pattern, Tensor]:
            pattern, weight = in_one_pattern([(edges.pattern, edges.weight) for edges in made])
            return pattern, weight[[kinds.index(loops) for loops in self.loops]]

        pattern, weight = (
            together() if edge_weight is not None else remember(edge_index, key, together)
        )
        return Adjacency(pattern, self.soft.attend(h0, pattern, weight))

    def give(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Queries and keys."""
        unstack(self.soft, models, members)


class Coefficients(Stacked):
    """α or β of every member, whatever its kind, [members, channels].

    A scalar is the first number of its row; the others of that row are not used.
    """

    scalar: Tensor
    signed: Tensor
    fixed: Tensor

    def __init__(self, coefficients: Sequence[nn.Module], channels: int):
        super().__init__()
        known = [value.dtype for one in coefficients for value in one.parameters()]
        rows = torch.zeros(len(coefficients), channels, dtype=known[0] if known else None)
        for row, one in zip(rows, coefficients, strict=True):
            for value in one.parameters():
                row[: value.numel()] = value.detach()
        self.row = nn.Parameter(rows)
        kinds = {
            "scalar": [any(own.dim() == 0 for own in one.parameters()) for one in coefficients],
            "signed": [isinstance(one, Signed | SignedVector) for one in coefficients],
            "fixed": [isinstance(one, One) for one in coefficients],
        }
        for name, kind in kinds.items():
            self.register_buffer(name, torch.tensor(kind).unsqueeze(1))

    def forward(self) -> Tensor:
        """[members, channels]."""
        row = torch.where(self.scalar, self.row[:, :1], self.row)
        return torch.where(self.signed, row, row.sigmoid()).masked_fill(self.fixed, 1.0)

    def give(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """As much of a row as the kind of the coefficient has."""
        for model, member in zip(models, members, strict=True):
            for own in model.parameters():
                own.copy_(self.row[member, : own.numel()].view(own.shape))


class Flows(Stacked):
    """What is followed from H(0) to H(T), with T and τ of every member.

    Args:
        flows: Parts that have ``integrate`` with its settings.
    """

    each = ("times", "step_sizes")

    def __init__(self, flows: Sequence[Any]):
        super().__init__()
        settings = [flow.integrate.keywords for flow in flows]
        tableau = SOLVERS[settings[0]["solver"]]
        if not isinstance(tableau, Tableau):
            raise CannotStack("an adaptive solver chooses its steps for each state by itself")
        self.tableau = tableau
        self.times = tuple(setting["time"] for setting in settings)
        self.step_sizes = tuple(setting["step_size"] for setting in settings)

    def follow(
        self, adj: Operator, h0: Tensor, source: Tensor, alpha: Tensor, beta: Tensor, terms: Terms
    ) -> Solution:
        """H(T) [members, N, d]."""
        return solve_together(
            *(adj, h0, source, alpha, beta),
            terms=terms,
            times=self.times,
            step_sizes=self.step_sizes,
            tableau=self.tableau,
        )


class Layers(Flows):
    """The reaction-diffusion layer, with α and β of every member."""

    def __init__(self, layers: Sequence[ReactionDiffusionConv]):
        super().__init__(layers)
        first = layers[0]
        if first.terms is None:
            raise CannotStack("the reaction is not made of the known terms")
        self.terms = first.terms
        self.detach_source = first.detach_source
        self.adjacency = stack([layer.adjacency for layer in layers])
        self.alpha = Coefficients([layer.alpha for layer in layers], first.channels)
        self.beta = Coefficients([layer.beta for layer in layers], first.channels)

    def evolve(
        self,
        h0: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        save_at: Sequence[float] = (),
    ) -> Solution:
        """H(T) [members, N, d] from H(0); no states between."""
        assert not save_at
        adj = self.adjacency(h0, edge_index, edge_weight)
        source = h0.detach() if self.detach_source else h0
        return self.follow(adj, h0, source, self.alpha(), self.beta(), self.terms)


class Grands(Flows):
    """GRAND; where Ā changes with the state, all take the same steps."""

    diffusion: AttentiveDiffusion

    def __init__(self, models: Sequence[GRAND]):
        super().__init__(models)
        first = models[0]
        if not first.diffusion.linear and len({*zip(self.times, self.step_sizes, strict=True)}) > 1:
            raise CannotStack("its attention changes with the state, and T or τ are not the same")
        if first.trusting:
            raise CannotStack("its source is at the nodes that are trained on")
        self.check = first.check
        self.encoder = stack([model.encoder for model in models])
        self.add_module("diffusion", stack([model.diffusion for model in models]))
        self.beta = None if first.beta is None else stack([model.beta for model in models])  # type: ignore[misc]
        self.decoder = stack([model.decoder for model in models])

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [members, N, classes] from features [N, F]."""
        self.check(x, edge_index, edge_weight)
        h0 = self.encoder(x)
        source = h0.detach()
        beta = h0.new_zeros(len(h0), 1) if self.beta is None else self.beta()
        f = self.diffusion(h0, edge_index, edge_weight, source, beta)
        if isinstance(f, Diffusion):
            final = self.follow(f.adj, h0, source, f.alpha, beta, Terms(source=1)).final
        else:
            final = walk(self.tableau, f, h0, self.times[0], self.step_sizes[0])
        return self.decoder(final)


RULES: dict[type[nn.Module], Callable[[Sequence[Any]], nn.Module]] = {
    nn.Linear: Linears,
    Dropout: Dropouts,
    FeatureMap: FeatureMaps,
    ReactionDiffusionConv: Layers,
    GRAND: Grands,
    Gate: lambda gates: Coefficients(gates, gates[0].logit.numel()),
    Signed: lambda signed: Coefficients(signed, 1),
    OriginalAdjacency: OriginalAdjacencies,
    SoftAdjacency: SoftAdjacencies,
    ExplainedEdges: lambda doors: doors[0],  # nothing of its own
    StateActivation: StateActivations,
}


PARTWISE = (
    *(GREAD, Residual, SoftAdjacency, nn.Sequential, nn.Tanh),
    *(AttentiveDiffusion, EdgeAttention, DotScores, CosineScores, Queries),
)
"""What has nothing of its own, and only calls its parts: several are one of several parts each."""


def _stacked(parameters: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.stack([parameter.detach() for parameter in parameters]))
