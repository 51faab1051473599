"""Stacks of convolutions that differ only in how a layer uses the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import elu
from torch_geometric.nn import PairNorm
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_positive
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Operator
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap


class Mix(NamedTuple):
    """Operation of a layer on the graph, after its linear map.

    Attributes:
        apply: Function of Y [N, taken · channels] and Ã that returns [N, given · channels]; a
            module if it has parameters.
        taken: Number of concatenated matrices in Y.
        given: Number of concatenated matrices in the result.
        bias: Whether the layer adds a bias.
    """

    apply: Callable[[Tensor, Any], Tensor]
    taken: int = 1
    given: int = 1
    bias: bool = True


class Layer(nn.Module):
    """H ↦ p(Dropout(H) W, Ã) + b.

    The linear map comes first, because its input may be sparse and its output is narrow.

    Args:
        in_channels: Width of H.
        channels: Width of each matrix that p takes and returns.
        mix: p.
        linear: Dropout and a linear map without bias, from ``in_channels`` to the input of p.
    """

    def __init__(self, in_channels: int, channels: int, mix: Mix, linear: nn.Module):
        super().__init__()
        self.linear = linear
        self.mix = mix.apply
        self.bias = nn.Parameter(torch.empty(mix.given * channels)) if mix.bias else None
        self.bound = (6 / (in_channels + channels)) ** 0.5
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset p, apply Glorot initialization to each matrix, and set the bias to zero."""
        reset(self.mix)
        for weight in self.linear.parameters():
            nn.init.uniform_(weight, -self.bound, self.bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, adj: Operator) -> Tensor:
        """Map H [N, in_channels] to [N, given · channels]."""
        y = self.mix(self.linear(h), adj)
        return y if self.bias is None else y + self.bias


def feature_layer(
    in_channels: int, channels: int, mix: Mix, dropout: float, *, unit_rows: bool = False
) -> Layer:
    """Build the first layer, which keeps sparse features sparse."""
    width = mix.taken * channels
    linear = FeatureMap(in_channels, width, dropout, bias=False, unit_rows=unit_rows)
    return Layer(in_channels, channels, mix, linear)


def hidden_layer(in_channels: int, channels: int, mix: Mix, dropout: float) -> Layer:
    """Build any other layer."""
    linear = nn.Linear(in_channels, mix.taken * channels, bias=False)
    return Layer(in_channels, channels, mix, nn.Sequential(Dropout(dropout), linear))


class ConvStack(LayeredGNN):
    """Layers with an activation between them.

    A subclass whose `mix` depends on hyperparameters sets them before it calls this constructor.

    Args:
        in_channels, hidden_channels, out_channels, input_dropout, dropout: As in `LayeredGNN`.
        num_layers: Number of layers.

    Attributes:
        unit_rows: Whether features are scaled to length one after their dropout.
    """

    unit_rows = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__(in_channels, hidden_channels, out_channels, input_dropout, dropout)
        check_count("num_layers", num_layers)
        self.adjacency = self.normalized()
        self.layers = nn.ModuleList()
        make: Callable[..., Layer] = partial(feature_layer, unit_rows=self.unit_rows)
        width, rate = in_channels, input_dropout
        for _ in range(num_layers - 1):
            part = self.mix(hidden_channels, False)
            self.layers.append(make(width, hidden_channels, part, rate))
            width, make, rate = part.given * hidden_channels, hidden_layer, dropout
        self.layers.append(make(width, out_channels, self.mix(out_channels, True), rate))

    def mix(self, channels: int, last: bool) -> Mix:
        """Operation of a layer on the graph, from its width and whether it is the last."""
        return Mix(gather)

    def activate(self, h: Tensor, number: int) -> Tensor:
        """Apply the activation between layer ``number`` and the next."""
        return h.relu()

    def normalized(self) -> nn.Module:
        """Module that computes Ã, by default D^-½ (A + I) D^-½."""
        return OriginalAdjacency()

    def states(self, x: Tensor, adj: Operator) -> list[Tensor]:
        """Return X, the state after every hidden layer and the logits."""
        *hidden, last = self.layers
        states = [x]
        for number, layer in enumerate(hidden):
            states.append(self.activate(layer(states[-1], adj), number))
        return [*states, last(states[-1], adj)]


def keep(y: Tensor, adj: Operator) -> Tensor:
    """Return Y, for a layer that does not use the graph."""
    return y


def gather(y: Tensor, adj: Operator, *, times: int = 1) -> Tensor:
    """Compute Ã Y, or another power of Ã times Y."""
    for _ in range(times):
        y = adj @ y
    return y


def add_mean(y: Tensor, adj: Operator) -> Tensor:
    """Y₀ + Ã Y₁, where Ã takes the mean over the neighbours: W [h ‖ mean] as two maps."""
    own, others = y.chunk(2, dim=-1)
    return own + adj @ others.contiguous()


def chebyshev(y: Tensor, adj: Operator, *, order: int) -> Tensor:
    """Σ_k T_k(−Ã) Y_k by Clenshaw's recurrence, with as many products as the order."""
    first, *others = y.chunk(order + 1, dim=-1)
    current, previous = others.pop().contiguous(), torch.zeros_like(first)
    while others:
        current, previous = others.pop() - 2 * (adj @ current) - previous, current
    return first - adj @ current - previous


class MLP(ConvStack):
    """Multilayer perceptron on the features of each node, H ↦ ELU(H W + b)."""

    def mix(self, channels: int, last: bool) -> Mix:
        """Identity: the graph is not used."""
        return Mix(keep)

    def activate(self, h: Tensor, number: int) -> Tensor:
        """Apply an ELU."""
        return elu(h)


class GCN(ConvStack):
    """Graph convolutional network, H ↦ ReLU(D^-½ (A + I) D^-½ H W + b)."""


class GraphSAGE(ConvStack):
    """GraphSAGE, h_i ↦ ReLU(W [h_i ‖ mean over all neighbours j of h_j] + b), without sampling."""

    def mix(self, channels: int, last: bool) -> Mix:
        """W [h ‖ mean] as two maps."""
        return Mix(add_mean, taken=2)

    def normalized(self) -> nn.Module:
        """Row-normalized adjacency D⁻¹ A without self loops."""
        return OriginalAdjacency(normalization="row", self_loops=0.0, own_loops=False)


class SGC(ConvStack):
    """Simple graph convolution (D^-½ (A + I) D^-½)^power X W + b, a single layer.

    Args:
        in_channels, out_channels, input_dropout: As in `LayeredGNN`.
        hidden_channels, dropout: Not used.
        power: Power of the adjacency.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        power: int = 2,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
    ):
        check_count("power", power, minimum=0)
        self.power = power
        sizes = in_channels, hidden_channels, out_channels
        super().__init__(*sizes, num_layers=1, input_dropout=input_dropout, dropout=dropout)

    def mix(self, channels: int, last: bool) -> Mix:
        """A power of Ã."""
        return Mix(partial(gather, times=self.power))


class ChebNet(ConvStack):
    """H ↦ ReLU(Σ_k T_k(L̂) H W_k + b), with Chebyshev polynomials T_0 to T_order.

    L̂ = 2 L / λ_max − I = −D^-½ A D^-½, with λ_max = 2 as the largest eigenvalue.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, input_dropout, dropout: As in
            `ConvStack`.
        order: The highest order; PyG's K is one more.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        order: int = 2,
        num_layers: int = 2,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        check_count("order", order)
        self.order = order
        sizes = in_channels, hidden_channels, out_channels
        super().__init__(
            *sizes, num_layers=num_layers, input_dropout=input_dropout, dropout=dropout
        )

    def mix(self, channels: int, last: bool) -> Mix:
        """Σ_k T_k(−Ã) Y_k."""
        return Mix(partial(chebyshev, order=self.order), taken=self.order + 1)

    def normalized(self) -> nn.Module:
        """Symmetric normalization D^-½ A D^-½ without self loops."""
        return OriginalAdjacency(self_loops=0.0, own_loops=False)


class PairNormGCN(ConvStack):
    """GCN with H ↦ scale · (H − mean) / √(mean of |h_i − mean|²) before every ReLU.

    The norm cancels a bias, so only the last layer has one.

    Args:
        in_channels, hidden_channels, out_channels, num_layers, input_dropout, dropout: As in
            `ConvStack`.
        scale: Root mean square of the lengths of the states of the nodes after the norm.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        scale: float = 1.0,
        num_layers: int = 2,
        input_dropout: float = 0.6,
        dropout: float = 0.6,
    ):
        check_positive("scale", scale)
        sizes = in_channels, hidden_channels, out_channels
        super().__init__(
            *sizes, num_layers=num_layers, input_dropout=input_dropout, dropout=dropout
        )
        self.norm = PairNorm(scale)

    def activate(self, h: Tensor, number: int) -> Tensor:
        """Apply the norm and a ReLU."""
        return self.norm(h).relu()

    def mix(self, channels: int, last: bool) -> Mix:
        """Ã Y, with a bias in the last layer only."""
        return Mix(gather, bias=last)
