"""Base classes of models: input checks, reset, and logits from layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from gread.base.checks import check_count, check_sizes
from gread.base.errors import InputError
from gread.graph.checks import check_edges, check_features
from gread.graph.operator import EdgeSource


class GraphModel(nn.Module):
    """A model of the nodes of a graph.

    Attributes:
        in_channels: Number of features.
        num_nodes: Number of nodes of the graph, if the model has weights for each node.
    """

    def __init__(self, in_channels: int, num_nodes: int | None = None):
        super().__init__()
        if num_nodes is not None:
            check_count("num_nodes", num_nodes)
        self.in_channels = in_channels
        self.num_nodes = num_nodes

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        for part in self.children():
            reset(part)

    def check(self, x: Tensor, edge_index: Tensor | EdgeSource, edge_weight: Tensor | None) -> None:
        """Require a graph with the features the model was built for."""
        check_features("x", x, self.in_channels)
        check_edges(edge_index, edge_weight, x)
        if self.num_nodes not in (None, x.size(0)):
            raise InputError(
                f"x must have {self.num_nodes} rows, one for each node of the graph of the "
                f"model, got {x.size(0)}"
            )


class LayeredGNN(GraphModel, ABC):
    """A network of layers that use the graph through one operator.

    Args:
        in_channels: Number of features.
        hidden_channels: Width of the hidden states.
        out_channels: Number of classes.
        input_dropout: Dropout on the features.
        dropout: Dropout on the hidden states.
        num_nodes: Number of nodes of the graph, if the model has weights for each node.
    """

    adjacency: nn.Module
    decoder: nn.Module

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        input_dropout: float,
        dropout: float,
        num_nodes: int | None = None,
    ):
        super().__init__(in_channels, num_nodes)
        check_sizes(in_channels, hidden_channels, out_channels, input_dropout, dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits [N, classes] from features [N, F]."""
        return self.decode(self.hidden_states(x, edge_index, edge_weight))

    def hidden_states(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> list[Tensor]:
        """The first state and the state after every layer, see `states`."""
        self.check(x, edge_index, edge_weight)
        return self.states(x, self.operator(x, edge_index, edge_weight))

    def operator(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        """The operator that the layers use."""
        return self.adjacency(x, edge_index, edge_weight)

    @abstractmethod
    def states(self, x: Tensor, adj: Any) -> list[Tensor]:
        """Compute the first state and the state after every layer."""

    def decode(self, states: list[Tensor]) -> Tensor:
        """Logits from the states, by default the last one."""
        return self.decoder(states[-1]) if hasattr(self, "decoder") else states[-1]
