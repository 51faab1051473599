"""Stacks of convolutions: models that differ only in the layer they repeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.nn import GCNConv
from torch_geometric.nn.inits import reset

from gread.inputs import check_count, check_edges, check_features, check_rate
from gread.models.catalog import model


class ConvStack(nn.Module):
    """Layers with ReLU and dropout between them.

    Args:
        conv: Makes a layer from its input and output width; the layer is called with
            ``(h, edge_index, edge_weight)``.
        in_channels: Number of features.
        hidden_channels: Width of the layers between.
        out_channels: Number of classes.
        num_layers: How many.
        input_dropout: Dropout on the features.
        dropout: Dropout on the hidden states.
    """

    def __init__(
        self,
        conv: Callable[[int, int], nn.Module],
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        input_dropout: float = 0.5,
        dropout: float = 0.5,
    ):
        super().__init__()
        check_count("num_layers", num_layers)
        check_rate("input_dropout", input_dropout)
        check_rate("dropout", dropout)
        check_count("in_channels", in_channels)
        check_count("hidden_channels", hidden_channels)
        check_count("out_channels", out_channels)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.in_channels = in_channels
        self.convs = nn.ModuleList(conv(*pair) for pair in pairwise(widths))
        self.input_dropout = input_dropout
        self.dropout = dropout

    def reset_parameters(self) -> None:
        """Draws every parameter anew."""
        reset(self.convs)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        check_features("x", x, self.in_channels)
        check_edges(edge_index, edge_weight, x.size(0))
        h = dropout(x, self.input_dropout, self.training)
        for conv in self.convs[:-1]:
            h = dropout(torch.relu(conv(h, edge_index, edge_weight)), self.dropout, self.training)
        return self.convs[-1](h, edge_index, edge_weight)


class Nodewise(nn.Linear):
    """A linear map of every node alone: the convolution that does not look at the graph."""

    def forward(self, input: Tensor, *graph: Tensor | None) -> Tensor:
        """x Wᵀ + b."""
        return super().forward(input)


mlp = model("mlp", title="MLP", group="classical", reference="no graph at all")(
    partial(ConvStack, Nodewise)
)
"""Multilayer perceptron on the features of each node."""

gcn = model("gcn", title="GCN", group="classical", reference="Kipf and Welling, ICLR 2017")(
    partial(ConvStack, GCNConv)
)
"""Graph convolutional network, H ↦ ReLU(D^-½ (A + I) D^-½ H W)."""
