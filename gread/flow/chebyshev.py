"""The flow as one polynomial in Ã, for linear reactions on a symmetric Ã.

There every step multiplies the eigenvector of Ã to the eigenvalue λ by a number, which the same
method gives for the scalar equation

    dp/dt = m(λ) p + β p₀,   m(λ) = −α (1 − λ) + β (p₁ + q (1 − λ) + s λ (1 − λ)),   p(0) = 1.

So H(T) = p(Ã) H(0), channel by channel. The spectrum lies in [−1, 1], where a Chebyshev series of p
falls off fast: few products give what many steps give, and the way back keeps one state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gread.adjacency import Adjacency
from gread.kernels.choice import kernels_for
from gread.kernels.recording import values_can_be_read
from gread.ode import Tableau
from gread.reactions import Terms

NODES = 128
"""Points at which p is looked at, at most."""

FEW_PRODUCTS = 8
"""So few are not worth a look at the series, whose degree is no less for common settings."""

NEGLIGIBLE = {torch.float32: 1e-8, torch.float64: 1e-14}
"""Terms are left out that together are so small beside the largest."""


def polynomial_flow(
    adj: Adjacency,
    h0: Tensor,
    alpha: Tensor,
    beta: Tensor,
    *,
    terms: Terms,
    tableau: Tableau,
    lengths: Sequence[float],
) -> Tensor | None:
    """H(T) of the steps that `gread.flow.stepped_flow` takes, to 1e-6; or None.

    None, where H(T) is no such polynomial or the steps take no more products.

    Args:
        adj: Ã.
        h0: H(0), [N, d], the source as well.
        alpha: α, one a channel, [d].
        beta: β, likewise.
        terms: The reaction.
        tableau: The method.
        lengths: Length of every step.
    """
    if terms.square or terms.cube or not adj.symmetric or not values_can_be_read():
        return None
    if h0.dtype not in NEGLIGIBLE:
        return None
    products = (2 if terms.blurred else 1) * tableau.stages * len(lengths)
    if products <= FEW_PRODUCTS:
        return None
    nodes = min(products + 1, NODES)
    series = _series(alpha.double(), beta.double(), terms, tableau, lengths, nodes)
    degree = _degree(series.detach(), NEGLIGIBLE[h0.dtype])
    if degree >= products:
        return None
    kept = series[: degree + 1].to(h0.dtype)
    return _Polynomial.apply(adj, h0, kept)


def _series(
    alpha: Tensor,
    beta: Tensor,
    terms: Terms,
    tableau: Tableau,
    lengths: Sequence[float],
    nodes: int,
) -> Tensor:
    """The Chebyshev coefficients of p, [nodes, d]."""
    points, transform = _chebyshev(nodes, alpha.device)
    high = 1 - points
    m = (beta * terms.laplacian - alpha) * high + beta * terms.linear
    m = m + beta * terms.blurred * points * high
    p = torch.ones_like(m)
    growth = stability(tableau)
    for length, count in _runs(lengths):
        z = length * m
        phi = torch.zeros_like(m)  # (R(z) − 1) / z
        for c in reversed(growth[1:]):
            phi = phi * z + c
        factor = 1 + z * phi
        if not terms.source:
            p = p * factor**count
            continue
        gain = length * phi * beta * terms.source
        for _ in range(count):
            p = factor * p + gain
    return transform @ p


def _runs(lengths: Sequence[float]) -> list[tuple[float, int]]:
    """Steps of equal length together: all but the last, and the last."""
    found: list[tuple[float, int]] = []
    for length in lengths:
        if found and found[-1][0] == length:
            found[-1] = length, found[-1][1] + 1
        else:
            found.append((length, 1))
    return found


def stability(tableau: Tableau) -> list[float]:
    """Coefficients of R(z): one step multiplies the solution of dh/dt = m h by R(τ m).

    Example:
        >>> from gread.ode import SOLVERS
        >>> [round(24 * c) for c in stability(SOLVERS["rk4"])]
        [24, 24, 12, 4, 1]
    """
    stages: list[list[float]] = []  # τ k_j as polynomials in z, times z
    for row in (*((),), *tableau.a, tableau.b):
        state = [1.0] + [0.0] * len(row)
        for factor, slope in zip(row, stages, strict=True):
            for power, c in enumerate(slope):
                state[power] += factor * c
        stages.append([0.0, *state])
    return stages[-1][1:]


@lru_cache(maxsize=16)
def _chebyshev(nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The nodes λ [nodes, 1], and the matrix from values there to coefficients [nodes, nodes]."""
    angles = (torch.arange(nodes, dtype=torch.float64, device=device) + 0.5) * math.pi / nodes
    orders = torch.arange(nodes, dtype=torch.float64, device=device).unsqueeze(-1)
    transform = (2 / nodes) * (orders * angles).cos()
    transform[0] /= 2
    return angles.cos().unsqueeze(-1), transform


def _degree(series: Tensor, negligible: float) -> int:
    """Where the series may end."""
    size = series.abs().amax(1)
    rest = size.flip(0).cumsum(0).flip(0)  # what stands from here on
    return max(0, int((rest > negligible * size.max()).sum()) - 1)


class _Polynomial(torch.autograd.Function):
    """Σ_k c_k T_k(Ã) h."""

    @staticmethod
    def forward(ctx: Any, adj: Adjacency, h: Tensor, series: Tensor) -> Tensor:
        ctx.adj = adj
        ctx.save_for_backward(h, series)
        kernels, rows, weight = kernels_for(h), adj.pattern.rows, adj.weight
        if len(series) == 1:
            return series[0] * h
        # Clenshaw: b_k = c_k h + 2 Ã b_{k+1} − b_{k+2}; in the end c_0 h + Ã b_1 − b_2.
        coef = torch.stack([torch.full_like(series, 2), series, torch.full_like(series, -1)], 1)
        coef[0, 0] = 1
        last, before = series[-1] * h, h
        for k in reversed(range(len(series) - 1)):
            first = k == len(series) - 2
            bases = [h] if first else [h, before]
            this = coef[k, :2] if first else coef[k]
            last, before = kernels.gather(rows, weight, last, this, bases, 0), last
        return last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        """Both gradients from T_k(Ã) g: ∂h = Σ c_k T_k g, and ∂c_k = Σ_i (T_k g) h."""
        h, series = ctx.saved_tensors
        adj = ctx.adj
        kernels, rows, weight = kernels_for(h), adj.pattern.rows, adj.weight
        # T_1 = Ã g, T_{k+1} = 2 Ã T_k − T_{k−1}, with Σ_i (T_k g) h on the way
        coef = series.new_tensor([[2.0], [0.0], [-1.0]]).expand(-1, h.size(1)).contiguous()
        t = grad.contiguous()
        grad_h, dots = series[0] * t, []
        before = t
        for k in range(len(series) - 1):
            if k == 0:
                half = coef[:2] / 2
                following, sums = kernels.pull(rows, weight, t, h, half)
            else:
                following, sums = kernels.pull(rows, weight, t, h, coef, [before])
            dots.append(sums[1])
            t, before = following, t
            grad_h.addcmul_(series[k + 1], t)
        dots.append((t * h).sum(0))
        grad_series = torch.stack(dots)
        return None, grad_h, grad_series
