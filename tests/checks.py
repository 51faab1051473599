"""Properties of reactions as functions, and helpers of several tests."""

from collections.abc import Callable

import pytest
import torch
from packaging.version import Version
from torch import Tensor
from torch_geometric.data import Data

from gread.dynamics.reactions import Reaction, State
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Adjacency

traceable = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="torch.compile of GREAD needs PyTorch 2.13"
)


def state_of(h: Tensor, data: Data) -> State:
    """State on the graph, with an H(0) that differs from H."""
    adj = OriginalAdjacency()(h, data.edge_index)
    return State(h, h.flip(0), adj.laplacian(h), adj)


def dense(adj: Adjacency, dtype: torch.dtype = torch.float64) -> Tensor:
    """Dense matrix of an operator: its product with the identity."""
    return adj @ torch.eye(adj.num_nodes, dtype=dtype)


def permuted(data: Data, order: Tensor) -> Data:
    """The same graph with node ``order[i]`` renamed to i."""
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    return Data(x=data.x[order], edge_index=place[data.edge_index], y=data.y[order])


def check_reaction_keeps_shape_and_type(reaction: Reaction, data: Data) -> None:
    for dtype in (torch.float32, torch.float64):
        h = torch.randn(data.num_nodes, 4, dtype=dtype)
        result = reaction(state_of(h, data))
        assert result.shape == h.shape
        assert result.dtype == dtype


def check_reaction_is_equivariant(reaction: Reaction, data: Data) -> None:
    order = torch.randperm(data.num_nodes)
    other = permuted(data, order)
    h, h0 = torch.randn(2, data.num_nodes, 4, dtype=torch.float64)
    adj = OriginalAdjacency()(h, data.edge_index)
    other_adj = OriginalAdjacency()(h, other.edge_index)
    here = reaction(State(h, h0, adj.laplacian(h), adj))[order]
    h, h0 = h[order], h0[order]
    there = reaction(State(h, h0, other_adj.laplacian(h), other_adj))
    torch.testing.assert_close(here, there)


def check_reaction_gradient(reaction: Reaction, data: Data) -> None:
    h = torch.randn(data.num_nodes, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: reaction(state_of(h, data)), (h,))


def check_reaction_is_documented(reaction: object) -> None:
    assert (reaction.__doc__ or "").startswith("r(H) = "), "the docstring begins with the equation"


def measured_order(error: Callable[[float], float], step: float) -> float:
    """Observed order: log2 of the ratio of errors when the step is halved."""
    return float(torch.tensor(error(step) / error(step / 2)).log2())
