"""Stacking of several models of one form into one, with a leading axis of members.

Members share the graph and all settings that determine shapes. Dropout rates, the kinds of α and β,
T and τ may differ. Operations treat members independently, so each gives the results of a single
model.

A layer defines its stacking in a class method ``stacked(members)``; a layer that only calls its
parts inherits it from `PartByPart`. Modules of PyTorch and of `gread.graph` are in a table at the
end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from gread.graph.adjacency import (
    ExplainedEdges,
    OriginalAdjacency,
    Queries,
    SoftAdjacency,
    edges_of,
)
from gread.graph.operator import Adjacency, Operator, in_one_pattern
from gread.kernels.backend import backend_for
from gread.kernels.operators import activated, attention, identity, mix
from gread.kernels.pattern import Pattern, remember
from gread.kernels.reference import Batch

M = TypeVar("M", bound=nn.Module)


class CannotStack(TypeError):
    """The models cannot be stacked; the message gives the reason."""


class PartByPart(nn.Module):
    """A layer without own parameters that only calls its parts."""

    @classmethod
    def stacked(cls, members: Sequence[Any]) -> nn.Module:
        """Stack the parts of all members in the same layer."""
        return part_by_part(members)


def stack(models: Sequence[nn.Module]) -> nn.Module:
    """Stack models into one with the same call, which returns logits [members, N, C].

    Args:
        models: Models of one form. All parameters except α and β must have the same shapes.

    Raises:
        CannotStack: A part has no stacking rule, or its settings do not allow stacking.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60)
        >>> times = (1.0, 2.0, 3.0)
        >>> models = [gread.GREAD(data.num_features, 8, 2, time=time) for time in times]
        >>> stack(models).eval()(data.x, data.edge_index).shape
        torch.Size([3, 60, 2])
    """
    first = models[0]
    rule = RULES.get(type(first)) or getattr(first, "stacked", None)
    if rule is None:
        raise CannotStack(f"there is no rule for {type(first).__name__}")
    return rule(models).train(first.training)


def part_by_part(models: Sequence[M]) -> M:
    """Copy the first model, with the stacked parts of all models."""
    first = models[0]
    if first._parameters:
        raise CannotStack(f"{type(first).__name__} has own parameters")
    made = copy.copy(first)
    made._modules = {
        name: None if child is None else stack([model.get_submodule(name) for model in models])
        for name, child in first._modules.items()
    }
    return made


@torch.no_grad()
def unstack(stacked: nn.Module, models: Sequence[nn.Module], members: Sequence[int]) -> None:
    """Copy the parameters of members back to their models."""
    if isinstance(stacked, Stacked):
        stacked.copy_to(models, members)
    else:
        _children(stacked, models, members)


def keep(model: nn.Module, members: Sequence[int]) -> None:
    """Drop all other members of a stacked model."""
    for module in model.modules():
        if isinstance(module, Stacked):
            module.keep(members)


class Stacked(nn.Module):
    """A layer of several members, which are the leading axis of its parameters and buffers.

    Attributes:
        each: Names of attributes that have an entry for every member.
    """

    each: tuple[str, ...] = ()

    def copy_to(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Copy the parameters of members to their layers."""
        for name, parameter in self._parameters.items():
            for model, member in zip(models, members, strict=True):
                if parameter is not None:
                    model.get_parameter(name).copy_(parameter[member])
        _children(self, models, members)

    def keep(self, members: Sequence[int]) -> None:
        """Drop all other members."""
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
        self.weight = together([linear.weight for linear in linears])
        self.bias = together([linear.bias for linear in linears])

    def forward(self, *terms: Tensor) -> Tensor:
        """Apply each member's map to h, or to several concatenated terms."""
        return mix(terms, self.weight.mT, self.bias)


class Norms(Stacked):
    """Normalization of several members: weight, bias and running statistics, if any."""

    def __init__(self, members: Sequence[nn.BatchNorm1d] | Sequence[nn.LayerNorm]):
        super().__init__()
        self.eps = members[0].eps
        self.weight = together([one.weight for one in members])
        self.bias = together([one.bias for one in members])

    def copy_to(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Copy the parameters of members and the statistics of batch normalization."""
        super().copy_to(models, members)
        for name, buffer in self._buffers.items():
            for model, member in zip(models, members, strict=True):
                if buffer is not None:
                    model.get_buffer(name).copy_(buffer[member])


class LayerNorms(Norms):
    """Layer normalization over the channels."""

    def forward(self, h: Tensor, adj: Operator) -> Tensor:
        """Normalize [members, N, d]."""
        weight, bias = self.weight.unsqueeze(1), self.bias.unsqueeze(1)
        return torch.addcmul(bias, layer_norm(h, h.shape[-1:], eps=self.eps), weight)


class BatchNorms(Norms):
    """Batch normalization over the nodes."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, members: Sequence[nn.BatchNorm1d]):
        super().__init__(members)
        self.momentum = members[0].momentum or 0.0
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.stack([one.get_buffer(name) for one in members]))

    def batch(self, adj: Operator) -> Batch:
        """The normalization of this forward pass; the caller applies it."""
        tensors = self.weight, self.bias, self.running_mean, self.running_var
        return Batch(*tensors, self.momentum, self.eps, self.training)

    def forward(self, h: Tensor, adj: Operator) -> Tensor:
        """Normalize [members, N, d]."""
        return activated(h, identity, batch=self.batch(adj))


class Dropouts(Stacked):
    """Dropout with a rate for every member."""

    rate: Tensor

    def __init__(self, rates: Sequence[float]):
        super().__init__()
        self.register_buffer("rate", torch.tensor(rates, dtype=torch.float64))
        self.unused = not any(rates)
        self.seeds: Seeds | None = None

    def forward(
        self,
        h: Tensor,
        activation: Callable[[Tensor], Tensor] = identity,
        batch: Batch | None = None,
    ) -> Tensor:
        """Dropout(φ(BatchNorm(h))), as in `gread.models.layers.Dropout`."""
        if not self.training or self.unused:
            return activated(h, activation, batch=batch)
        assert self.seeds is not None, "Seeds.give_to(model) comes before training"
        return activated(h, activation, self.rate, self.seeds.draw(self.rate), batch)


class Seeds:
    """Seeds of dropout; each member draws the same numbers as in a single run.

    A member draws one number for every dropout with a non-zero rate. A model that used a dropout
    twice in a forward pass would draw more numbers than there are.

    Args:
        generators: Generator of each member.
        count: Maximum number of draws of a member.
        device: Device of the numbers.
    """

    def __init__(self, generators: Sequence[torch.Generator], count: int, device: torch.device):
        drawn = [torch.randint(2**31, (count,), generator=own) for own in generators]
        self.numbers = torch.stack(drawn).to(device)
        self.next = torch.zeros(len(drawn), dtype=torch.int64, device=device)

    def give_to(self, model: nn.Module) -> None:
        """Connect every dropout of a stacked model to these seeds."""
        for module in model.modules():
            if isinstance(module, Dropouts):
                module.seeds = self

    def draw(self, rate: Tensor) -> Tensor:
        """One number for each member whose rate is not zero, [members]."""
        return backend_for(rate).draw(self.numbers, self.next, rate)

    def keep(self, members: Sequence[int]) -> None:
        """Drop all other members."""
        index = torch.tensor(members, device=self.next.device)
        self.numbers, self.next = self.numbers[index], self.next[index]


class OriginalAdjacencies(Stacked):
    """OA of members with different normalizations or self loops: entries [members, E].

    Attributes:
        kinds: The distinct adjacencies.
        which: Index in ``kinds`` of each member's adjacency.
    """

    each = ("which",)

    def __init__(self, adjacencies: Sequence[OriginalAdjacency]):
        super().__init__()
        keys = [(one.normalize, one.self_loops, one.own_loops) for one in adjacencies]
        kinds = dict(zip(keys, adjacencies, strict=True))
        self.kinds = nn.ModuleList(kinds.values())
        self.keys = tuple(kinds)
        self.which = tuple(map(self.keys.index, keys))

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Compute Ã of every member, or one Ã that all members share."""
        made: list[Adjacency] = [kind(h0, edge_index, edge_weight) for kind in self.kinds]
        if len(made) == 1:
            return made[0]

        def together() -> Adjacency:
            pattern, weight = in_one_pattern([(one.pattern, one.weight) for one in made])
            return Adjacency(pattern, weight[list(self.which)], all(one.symmetric for one in made))

        key = ("together", self.keys, self.which, h0.dtype, h0.size(-2))
        return remember(edge_index, key, together, when=edge_weight is None)

    def copy_to(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Do nothing, since there are no parameters."""


class SoftAdjacencies(Stacked):
    """SA of members with different self loops.

    Attributes:
        soft: `SoftAdjacency` with the queries and keys of all members.
        loops: The weight of each member's self loops.
    """

    each = ("loops",)

    def __init__(self, adjacencies: Sequence[SoftAdjacency]):
        super().__init__()
        self.soft = part_by_part(adjacencies)
        self.loops = tuple(one.self_loops for one in adjacencies)

    def forward(
        self, h0: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Adjacency:
        """Compute Ã of every member; the entry of a missing self loop is zero."""
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

        pattern, weight = remember(edge_index, key, together, when=edge_weight is None)
        return Adjacency(pattern, attention(pattern, *self.soft.queries_and_keys(h0), weight))

    def copy_to(self, models: Sequence[nn.Module], members: Sequence[int]) -> None:
        """Copy the queries and keys of members to their adjacencies."""
        unstack(self.soft, models, members)


RULES: dict[type[nn.Module], Callable[[Sequence[Any]], nn.Module]] = {
    nn.Linear: Linears,
    nn.Sequential: part_by_part,
    nn.Tanh: part_by_part,
    nn.ModuleList: part_by_part,
    Queries: part_by_part,
    OriginalAdjacency: OriginalAdjacencies,
    SoftAdjacency: SoftAdjacencies,
    ExplainedEdges: lambda members: members[0],  # has no parameters
}
"""Stacking rules of modules without `stacked`, from PyTorch and `gread.graph`."""


def together(parameters: Sequence[Tensor]) -> nn.Parameter:
    """Stack the parameters of every member, [members, ...]."""
    return nn.Parameter(torch.stack([parameter.detach() for parameter in parameters]))
