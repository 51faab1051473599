"""The three kinds of maps, learned from the states at both ends of an edge."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gread.base.checks import check_count
from gread.base.registry import Registry
from gread.kernels.operators import product
from gread.models.sheaf.laplacian import (
    Ends,
    SheafLaplacian,
    bundle_laplacian,
    diagonal_laplacian,
    general_laplacian,
)


class Learner(nn.Module):
    """Φ: k numbers at every end of an edge, W [x_u ‖ x_v].

    Args:
        stalk_dim: Number of coordinates of a node.
        channels: Width of each coordinate.
        count: k.
        shared: Whether W is applied to the sum over the coordinates, which then share its weights.
    """

    def __init__(self, stalk_dim: int, channels: int, count: int, shared: bool):
        super().__init__()
        self.shared = shared
        width = channels if shared else stalk_dim * channels
        self.linear = nn.Linear(2 * width, count, bias=False)

    def forward(self, x: Tensor, ends: Ends) -> Tensor:
        """Compute Φ [k, E] from the states [N, d, f]."""
        x = x.sum(1) if self.shared else x.flatten(1)
        own, other = self.linear.weight.chunk(2, dim=1)
        found = product(ends.pairs, ends.ones, torch.cat([x @ own.T, x @ other.T]))
        return found.T.contiguous()


class DiagonalMaps(nn.Module):
    """F_u = diag(tanh Φ)."""

    def __init__(self, stalk_dim: int, learner: Callable[[int], Learner]):
        super().__init__()
        self.learner = learner(stalk_dim)

    def forward(self, x: Tensor, ends: Ends) -> SheafLaplacian:
        """The Laplacian of the maps learned from the states [N, d, f]."""
        return diagonal_laplacian(self.learner(x, ends).tanh(), ends)


class BundleMaps(nn.Module):
    """F_u = w Q(tanh Φ), Q orthogonal and w = σ(φ_u) σ(φ_v) in (0, 1) a weight of the edge."""

    def __init__(self, stalk_dim: int, learner: Callable[[int], Learner]):
        super().__init__()
        check_count("stalk_dim", stalk_dim, minimum=2)
        self.stalk_dim = stalk_dim
        self.learner = learner(stalk_dim * (stalk_dim - 1) // 2)
        self.weight = learner(1)

    def forward(self, x: Tensor, ends: Ends) -> SheafLaplacian:
        """The Laplacian of the maps learned from the states [N, d, f]."""
        maps = orthogonal(self.learner(x, ends).tanh(), self.stalk_dim)
        gate = self.weight(x, ends).sigmoid()
        return bundle_laplacian(maps, gate * ends.across(gate), ends)


class GeneralMaps(nn.Module):
    """F_u = tanh Φ, any matrix."""

    def __init__(self, stalk_dim: int, learner: Callable[[int], Learner]):
        super().__init__()
        self.shape = stalk_dim, stalk_dim
        self.learner = learner(stalk_dim**2)

    def forward(self, x: Tensor, ends: Ends) -> SheafLaplacian:
        """The Laplacian of the maps learned from the states [N, d, f]."""
        return general_laplacian(self.learner(x, ends).tanh().unflatten(0, self.shape), ends)


MAPS: Registry[Callable[[int, Callable[[int], Learner]], nn.Module]] = Registry(
    "maps", {"diag": DiagonalMaps, "bundle": BundleMaps, "general": GeneralMaps}
)


def orthogonal(numbers: Tensor, size: int) -> Tensor:
    """Q = H₁ ⋯ H_d with Householder's H_k = I − τ v vᵀ, τ = 2 / vᵀv: [d(d−1)/2, E] to [d, d, E].

    In H_k, v is zero before place k, one at place k, and has the given numbers after it. Hence H_d
    flips the last coordinate, and each further H_k adds a row and a column to the product.
    """
    found = numbers.new_full((1, 1, numbers.size(1)), -1.0)
    for v in reversed(numbers.split(list(range(size - 1, 0, -1)))):
        tau = 2 / (1 + v.square().sum(0, keepdim=True))
        row = (v.unsqueeze(1) * found).sum(0)
        top = torch.cat([1 - tau, -tau * row])
        below = [(-tau * v).unsqueeze(1), found - (tau * v).unsqueeze(1) * row]
        found = torch.cat([top.unsqueeze(0), torch.cat(below, 1)])
    return found
