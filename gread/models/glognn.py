"""GloGNN: every node aggregates from all nodes, with coefficients in closed form."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor, nn

from gread.base.checks import check_count, check_fraction, check_not_negative, check_rate
from gread.base.errors import InputError
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.operator import Adjacency, Operator
from gread.models.base import LayeredGNN
from gread.models.layers import Dropout, FeatureMap, RowMap


class GloGNN(LayeredGNN):
    """H ← (1 − γ) Z H + γ H(0), H(0) = W₂ Dropout(ReLU(δ W₁ X + (1 − δ) W₃ R̃)).

    Z [N, N] minimizes ‖H − g Z H − γ H(0)‖² + α ‖Z‖² + β ‖Z − Σ_k λ_k R̃^k‖² with g = 1 − γ:

        Z = (g H Hᵀ + β Σ_k λ_k R̃^k − γ g H(0) Hᵀ) (g² H Hᵀ + (α + β) I)⁻¹

    R̃ = D̃⁻¹(A + I). Z is never formed: by the Woodbury identity, its product with H needs the
    inverse of a matrix [classes, classes].

    Args:
        in_channels, out_channels, input_dropout: As in `LayeredGNN`.
        hidden_channels: Width of the first map; later states have one channel per class.
        num_nodes: Length of a row of R̃.
        alpha: α ≥ 0, not zero together with β.
        beta: β ≥ 0.
        gamma: γ in [0, 1), the share of H(0) in every layer.
        delta: δ in [0, 1], the share of the features in H(0); the rest comes from R̃.
        num_layers: Number of layers, each with its own Z.
        num_hops: K, the highest power of R̃.
        weighted_classes: Whether every class has a learned weight in Z H: GloGNN++.
        dropout: Dropout inside H(0).
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_nodes: int,
        alpha: float = 0.0,
        beta: float = 1.0,
        gamma: float = 0.1,
        delta: float = 0.5,
        num_layers: int = 2,
        num_hops: int = 2,
        weighted_classes: bool = False,
        input_dropout: float = 0.0,
        dropout: float = 0.5,
    ):
        super().__init__(
            in_channels, hidden_channels, out_channels, input_dropout, dropout, num_nodes
        )
        check_not_negative("alpha", alpha)
        check_not_negative("beta", beta)
        check_rate("gamma", gamma)
        check_fraction("delta", delta)
        check_count("num_layers", num_layers)
        check_count("num_hops", num_hops)
        if alpha + beta == 0:
            raise InputError("alpha and beta must not both be zero")
        self.alpha, self.beta, self.gamma, self.delta = alpha, beta, gamma, delta
        self.num_layers = num_layers
        self.adjacency = OriginalAdjacency(normalization="row")
        words = FeatureMap(in_channels, hidden_channels, input_dropout)
        self.feature_map = words if delta > 0 else None
        self.row_map = RowMap(num_nodes, hidden_channels, 0.0) if delta < 1 else None
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(hidden_channels, out_channels)
        self.hop_weight = nn.Parameter(torch.empty(num_hops))  # λ
        self.class_weight = nn.Parameter(torch.empty(out_channels)) if weighted_classes else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the maps; the weights of hops and classes are equal and sum to one."""
        super().reset_parameters()
        for weight in (self.hop_weight, self.class_weight):
            if weight is not None:
                nn.init.constant_(weight, 1 / weight.numel())

    def states(self, x: Tensor, adj: Adjacency) -> list[Tensor]:
        """Return H(0) and the state after every layer; the last one is the logits."""
        states = [self.linear(self.dropout(self._mapped(x, adj).relu()))]
        for _ in range(self.num_layers):
            states.append(self._gathered(states[-1], states[0], adj))
        return states

    def _mapped(self, x: Tensor, adj: Adjacency) -> Tensor:
        """δ W₁ X + (1 − δ) W₃ R̃; a term with factor zero is omitted."""
        mapped = []
        if self.feature_map is not None:
            mapped.append(self.delta * self.feature_map(x))
        if self.row_map is not None:
            mapped.append((1 - self.delta) * self.row_map(adj))
        return reduce(torch.add, mapped)

    def _gathered(self, h: Tensor, h0: Tensor, adj: Operator) -> Tensor:
        """g Z H + γ H(0), with Q = g (g² H Hᵀ + (α + β) I)⁻¹ H and T = Hᵀ Q."""
        g = 1 - self.gamma
        q, t = self._shrunk(h)
        far, hops = q, torch.zeros_like(q)
        for weight in self.hop_weight:
            far = adj @ far
            hops = hops + weight * far
        return g * (h - self.gamma * h0) @ t + self.beta * hops + self.gamma * h0

    def _shrunk(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Compute Q and T.

        Q = (q / g) H M⁻¹ where M = g⁻² I + q Hᵀ H and q = 1 / (α + β). Double precision is used,
        because for a large β the two terms of M differ by many orders of magnitude.
        """
        g, q = 1 - self.gamma, 1 / (self.alpha + self.beta)
        exact = h.double()
        gram = exact.mT @ exact
        identity = torch.eye(h.size(1), dtype=exact.dtype, device=h.device)
        found = exact @ _inverse(identity / g**2 + q * gram) * (q / g)
        if self.class_weight is None:
            t = exact.mT @ found
        else:
            found = found * self.class_weight
            t = self.class_weight.unsqueeze(-1) * (exact.mT @ found)
        return found.to(h.dtype), t.to(h.dtype)


def _inverse(m: Tensor) -> Tensor:
    """Inverse of a symmetric positive definite matrix by elimination without pivoting.

    Implemented here, because PyTorch's solvers may not support CUDA graphs.
    """
    n = m.size(0)
    identity = torch.eye(n, dtype=m.dtype, device=m.device)
    both = torch.cat([m, identity], dim=1)
    for k in range(n):
        row = both[k] / both[k, k]
        rest = both - torch.outer(both[:, k], row)
        both = torch.where(identity[k].bool().unsqueeze(1), row, rest)
    return both[:, n:]
