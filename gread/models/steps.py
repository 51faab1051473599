"""Networks of steps; each step mixes terms of the state and normalizes the result.

    H_0     = φ(e(X))
    H_{k+1} = φ(Norm(Σ_i Z_i C_ik)),   k = 0, ..., K − 1
    ŷ       = o(H_K),  or o([H_0, ..., H_K]) with jumping connections

A model computes the terms Z_1, Z_2, ... from H_k and the graph. GCN, GraphSAGE and GAT with
residual, normalization and depth (Luo et al., NeurIPS 2024) use H and the result of a convolution.
`gread.GREADX` adds a reaction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, gelu

from gread.base.checks import check_count, check_flag
from gread.base.registry import Registry
from gread.graph.operator import Operator
from gread.kernels.operators import activated, identity, mix
from gread.kernels.reference import Batch
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, build_encoder
from gread.models.stacking import (
    BatchNorms,
    LayerNorms,
    Linears,
    PartByPart,
    Stacked,
    part_by_part,
    together,
)

ACTIVATIONS: Registry[Callable[[Tensor], Tensor]] = Registry(
    "activation", {"relu": torch.relu, "elu": elu, "gelu": gelu, "none": identity}
)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization over all nodes of the graph.

    If several processes share the graph, mean and variance are over the nodes of all processes.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def batch(self, adj: Operator) -> Batch | None:
        """The normalization of this forward pass, which the caller applies.

        None in training over several processes.
        """
        if self.training and not adj.whole:
            return None
        if self.training:
            self.num_batches_tracked += 1
        tensors = self.weight, self.bias, self.running_mean, self.running_var
        return Batch(*tensors, self.momentum, self.eps, self.training)

    def forward(self, h: Tensor, adj: Operator) -> Tensor:  # type: ignore[override]
        """Normalize [N, d]."""
        batch = self.batch(adj)
        if batch is not None:
            return activated(h, identity, batch=batch)
        sums = adj.total(torch.cat([h.sum(0), h.new_full((1,), h.size(0))]))
        mean, count = sums[:-1] / sums[-1], sums[-1]
        centred = h - mean
        variance = adj.total(centred.square().sum(0)) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        return torch.addcmul(self.bias, centred * (variance + self.eps).rsqrt(), self.weight)

    @classmethod
    def stacked(cls, members: Sequence[BatchNorm]) -> nn.Module:
        """Stack several members, each with its statistics."""
        return BatchNorms(members)


class LayerNorm(nn.LayerNorm):
    """Layer normalization over the channels."""

    def forward(self, h: Tensor, adj: Operator) -> Tensor:  # type: ignore[override]
        """Normalize the channels."""
        return super().forward(h)

    @classmethod
    def stacked(cls, members: Sequence[LayerNorm]) -> nn.Module:
        """Stack several members, each with its weight and bias."""
        return LayerNorms(members)


class NoNorm(PartByPart):
    """No normalization."""

    def __init__(self, channels: int):
        super().__init__()

    def forward(self, h: Tensor, adj: Operator) -> Tensor:
        """Return the state unchanged."""
        return h


NORMS: Registry[Callable[[int], nn.Module]] = Registry(
    "norm", {"batch": BatchNorm, "layer": LayerNorm, "none": NoNorm}
)
"""Constructors from the number of channels. The modules are called with the state and with Ã, which
computes sums over all nodes."""
WEIGHTS: Registry[bool] = Registry("weights", {"per-step": True, "shared": False})
"""Whether every step has its own coefficients."""


class Mixture(nn.Module):
    """Σ_i c_i Z_i of terms Z_1, Z_2, ... with one number or one per channel for each.

    Args:
        terms: Number of terms.
        shape: Shape of a coefficient, ``()`` or ``(channels,)``.
    """

    def __init__(self, terms: int, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(terms, *shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize uniformly in [−1, 1]."""
        nn.init.uniform_(self.weight, -1, 1)

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """Compute [N, d] from terms [N, d]."""
        return _sum(self.weight, terms)

    @classmethod
    def stacked(cls, members: Sequence[Mixture]) -> nn.Module:
        """Stack several members, each with its coefficients."""
        return Mixtures(members)


class Mixtures(Stacked):
    """`Mixture` of several members."""

    def __init__(self, members: Sequence[Mixture]):
        super().__init__()
        self.weight = together([one.weight for one in members])

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """Compute [members, N, d] from terms [members, N, d]."""
        return _sum(self.weight.view(*self.weight.shape[:2], 1, -1).unbind(1), terms)


def _sum(coefficients: Iterable[Tensor], terms: Sequence[Tensor]) -> Tensor:
    return reduce(torch.add, (c * z for c, z in zip(coefficients, terms, strict=True)))


class MatrixMixture(PartByPart):
    """Σ_i Z_i C_i + b of terms Z_1, Z_2, ..., with a matrix for each: [Z_1, Z_2, ...] C + b."""

    def __init__(self, terms: int, channels: int):
        super().__init__()
        self.linear = nn.Linear(terms * channels, channels)

    def reset_parameters(self) -> None:
        """Initialize as in ``nn.Linear``."""
        self.linear.reset_parameters()

    def forward(self, terms: Sequence[Tensor]) -> Tensor:
        """Compute [N, d] from terms [N, d]."""
        if isinstance(self.linear, Linears):  # of several members
            return self.linear(*terms)
        return mix(terms, self.linear.weight.mT, self.linear.bias)


COEFFICIENTS: Registry[Callable[[int, int], nn.Module]] = Registry(
    "coefficients",
    {"scalar": lambda terms, channels: Mixture(terms), "vector": Mixture, "matrix": MatrixMixture},
)
"""Constructors from the numbers of terms and channels."""


class Step(PartByPart):
    """Dropout(φ(Norm(Σ_i Z_i C_i))).

    Args:
        mixture: The coefficients C_i.
        norm, activation: Norm and φ.
    """

    def __init__(self, mixture: nn.Module, norm: nn.Module, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.mixture, self.norm, self.activation = mixture, norm, activation

    def forward(self, terms: Sequence[Tensor], adj: Operator, dropout: nn.Module) -> Tensor:
        """Apply the step to the terms, with Ã and the dropout of this use."""
        h: Tensor = self.mixture(terms)
        # Batch normalization, activation and dropout are one operation.
        batch = self.norm.batch(adj) if isinstance(self.norm, BatchNorm | BatchNorms) else None
        if batch is None:
            h = self.norm(h, adj)
        out: Tensor = dropout(h, self.activation, batch)
        return out


class SteppedGNN(LayeredGNN):
    """K steps between a linear encoder and a linear decoder.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        terms: Number of terms that a step mixes.
        num_steps: K.
        coefficients: Kind of C_ik, a name of `COEFFICIENTS`.
        weights: ``"per-step"`` for separate coefficients in every step, ``"shared"`` for one set.
        norm: Norm, a name of `NORMS`.
        activation: φ, a name of `ACTIVATIONS`.
        residual: Whether a step adds its input.
        jump: Whether the decoder receives all states.
        num_nodes: As in `LayeredGNN`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        terms: int,
        num_steps: int,
        coefficients: str,
        weights: str,
        norm: str,
        activation: str,
        residual: bool,
        jump: bool,
        input_dropout: float,
        dropout: float,
        num_nodes: int | None = None,
    ):
        super().__init__(
            in_channels, hidden_channels, out_channels, input_dropout, dropout, num_nodes
        )
        check_count("num_steps", num_steps)
        check_flag("residual", residual)
        check_flag("jump", jump)
        self.encoder = build_encoder("linear", in_channels, hidden_channels, input_dropout, dropout)
        self.activation = ACTIVATIONS[activation]
        build = partial(COEFFICIENTS[coefficients], terms, hidden_channels)
        self.steps = nn.ModuleList(
            Step(build(), NORMS[norm](hidden_channels), self.activation)
            for _ in range(num_steps if WEIGHTS[weights] else 1)
        )
        # One dropout per use, even if steps share weights: a population draws a seed for each.
        self.dropouts = nn.ModuleList(Dropout(dropout) for _ in range(num_steps + 1))
        self.num_steps, self.residual, self.jump = num_steps, residual, jump
        self.decoder = nn.Linear(hidden_channels * (num_steps + 1 if jump else 1), out_channels)

    def operator(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None
    ) -> tuple[Operator, ...]:
        """The operator Ã, or several operators."""
        return (self.adjacency(x, edge_index, edge_weight),)

    def first(self, x: Tensor, adj: tuple[Operator, ...]) -> Tensor:
        """Compute e(X), the argument of φ in H_0."""
        encoded: Tensor = self.encoder(x)
        return encoded

    @abstractmethod
    def terms(self, number: int, h: Tensor, h0: Tensor, adj: tuple[Any, ...]) -> list[Tensor]:
        """Terms of step ``number``, from the state, the first state and `operator`."""

    def states(self, x: Tensor, adj: tuple[Operator, ...]) -> list[Tensor]:
        """Compute H_0, ..., H_K."""
        states = [self.dropouts[0](self.first(x, adj), self.activation)]
        for number in range(self.num_steps):
            h, step = states[-1], self.steps[number % len(self.steps)]
            terms = self.terms(number, h, states[0], adj)
            new = step(terms, adj[0], self.dropouts[number + 1])
            states.append(h + new if self.residual else new)
        return states

    def decode(self, states: list[Tensor]) -> Tensor:
        """Logits from H_K, or from all states."""
        return self.decoder(torch.cat(states, -1) if self.jump else states[-1])

    @classmethod
    def stacked(cls, members: Sequence[SteppedGNN]) -> nn.Module:
        """Stack several members, each with its dropout and Ã."""
        return part_by_part(members)
