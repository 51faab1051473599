"""The flow as a polynomial in Ã, for linear reactions and a symmetric Ã.

A step then multiplies the eigenvector of Ã with eigenvalue λ by a number, which the same method
gives for the scalar equation

    dp/dt = m(λ) p + β p₀,   m(λ) = −α (1 − λ) + β (p₁ + q (1 − λ) + s λ (1 − λ)),   p(0) = 1.

So H(T) = p(Ã) H(0), channel by channel. The spectrum lies in [a, 1], where the coefficients of a
Chebyshev series of p in x(λ) = (2 λ − 1 − a) / (1 − a) decay fast. Few products replace many steps,
and the backward pass stores one state. The smallest eigenvalue a is at least −1. On graphs with
self loops at every node it is often −½, which saves a quarter of the products.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from gread.dynamics.reactions import Terms
from gread.dynamics.tableau import Integration
from gread.graph.operator import Operator
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.direct import Apply, with_autograd
from gread.kernels.program import Program, ProgramBuilder

NODES = 128
"""Largest number of points at which p is evaluated."""

FEW_PRODUCTS = 8
"""Number of products up to which steps are used: the degree of the series is rarely lower."""

NEGLIGIBLE = {torch.float32: 1e-7, torch.float64: 1e-14}
"""Size relative to the largest term, below which the sum of the remaining terms is dropped."""

ASIDE = 0.1
"""Perturbation of α and β that finds terms with a gradient: FB with α = β has only the first term,
but depends on α."""


class Series(NamedTuple):
    """Chebyshev coefficients of p on [lowest, 1], in NumPy, which is faster for few numbers.

    If α and β need gradients, the coefficients are complex, [3, degree + 1, d]: the imaginary parts
    of the first two series are `TINY` times the derivatives with respect to α and β. The third has
    α and β shifted by `ASIDE`.
    """

    c: NDArray[Any]
    """[1, degree + 1, d]; d is 1 if all channels share α and β."""
    lowest: float

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return self.c.shape[1] - 1

    @property
    def slopes(self) -> NDArray[Any]:
        """∂H(T)/∂α and ∂H(T)/∂β, as factors of the sums of `_recurrence`, [2, sums, d]."""
        known = self.c[:2].imag / TINY
        found = np.zeros((2, 2 * self.degree + 1, known.shape[2]))
        found[:, 1::2], found[:, -1] = known[:, :-1], known[:, -1]  # Σ (Ã T_k g) h has factor 0
        return found


TINY = 1e-20
"""Step of complex-step derivatives: nothing is subtracted, so it may be arbitrarily small."""


def polynomial_series(
    adj: Operator, rates: Tensor, terms: Terms, integration: Integration, dtype: torch.dtype
) -> Series | None:
    """Find the flow as a polynomial.

    Returns None if H(T) is not such a polynomial or the steps need no more products.

    Args:
        adj: Ã.
        rates: α and β, per channel [2, d] or for all [2, 1].
        terms: The reaction, whose source is H(0).
        integration: T, τ and a fixed-step solver.
        dtype: Number type of the state.
    """
    if terms.square or terms.cube or not adj.symmetric or not values_can_be_read():
        return None
    products = (2 if terms.blurred else 1) * integration.evaluations
    if dtype not in NEGLIGIBLE or products <= FEW_PRODUCTS:
        return None
    lowest, nodes = adj.lowest, min(products + 1, NODES)
    with np.errstate(all="ignore"):  # rates of a diverging training may overflow
        c = _series(rates, terms, integration, nodes, lowest)
        degree = _degree(np.abs(c.real).max((0, 2)), NEGLIGIBLE[dtype])
    return None if degree >= products else Series(c[:, : degree + 1], lowest)


def polynomial_flow(
    adj: Operator, h0: Tensor, rates: Tensor, series: Series, apply: Apply = with_autograd
) -> Tensor:
    """Compute H(T) of `gread.dynamics.stepping.stepped_flow`, accurate to 1e-6.

    Args:
        adj: Ã.
        h0: H(0), [N, d], which is also the source.
        rates: α and β.
        series: Their `polynomial_series`.
        apply: Function that calls the `torch.autograd.Function`.
    """
    return apply(_Polynomial, adj, series, h0, rates)


def _series(
    rates: Tensor, terms: Terms, integration: Integration, nodes: int, lowest: float
) -> NDArray[Any]:
    """Coefficients of p to the degree nodes − 1, see `Series`."""
    slope, transform, shifts = _grid(terms, nodes, lowest, rates.requires_grad)
    shifted = np.array(rates.tolist()) + shifts
    m = slope @ shifted
    p = np.ones_like(m)
    assert integration.tableau is not None
    for length, steps in groupby(integration.lengths):  # all but the last have the same length
        count = len(list(steps))
        z = length * m
        phi = np.zeros_like(m)  # (R(z) − 1) / z
        for c in reversed(integration.tableau.growth[1:]):
            phi = phi * z + c
        factor = 1 + z * phi
        if not terms.source:
            p = p * _power(factor, count)
            continue
        gain = length * terms.source * phi * shifted[:, 1:]
        for _ in range(count):
            p = factor * p + gain
    found: NDArray[Any] = transform @ p
    return found


def _power(x: NDArray[Any], count: int) -> NDArray[Any]:
    """x^count by squaring; a complex power loses small imaginary parts."""
    if count == 1:
        return x
    half = _power(x, count // 2)
    return half * half * x if count % 2 else half * half


@lru_cache(maxsize=64)
def _grid(
    terms: Terms, nodes: int, lowest: float, derivatives: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Matrices from α and β to m, [nodes, 2], and from p to its series, [nodes, nodes].

    Also returns the shifts of α and β for which `_series` computes p, [1 or 3, 2, 1].
    """
    angles = (np.arange(nodes) + 0.5) * math.pi / nodes
    transform = (2 / nodes) * np.cos(np.arange(nodes)[:, None] * angles)
    transform[0] /= 2
    points = (np.cos(angles) * (1 - lowest) + 1 + lowest) / 2
    high = 1 - points
    by_beta = terms.laplacian * high + terms.linear + terms.blurred * points * high
    slope = np.stack([-high, by_beta], -1)
    rows = [[1j * TINY, 0], [0, 1j * TINY], [ASIDE, -ASIDE]] if derivatives else [[0.0, 0.0]]
    shifts = np.array(rows)[..., None]
    return slope.astype(shifts.dtype), transform.astype(shifts.dtype), shifts


def _degree(size: NDArray[Any], negligible: float) -> int:
    """Degree at which a series with terms of this size can be truncated."""
    rest = size[::-1].cumsum()[::-1]  # sum of the remaining terms
    return max(0, int((rest > negligible * size.max()).sum()) - 1)


class _Polynomial(torch.autograd.Function):
    """Σ_k c_k T_k(X) h, for X = s Ã + t with its spectrum in [−1, 1]."""

    @staticmethod
    def forward(ctx: Any, adj: Operator, series: Series, h: Tensor, rates: Tensor) -> Tensor:
        ctx.adj, ctx.series = adj, series
        rows = _rows(series, h)
        ctx.save_for_backward(h, rates, rows)
        return adj.run(_clenshaw(series.degree), [h], rows).outputs[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients from T_k(X) g: ∂h = Σ c_k T_k g, and ∂c_k = Σ_i (T_k g) h."""
        series: Series = ctx.series
        h, rates, rows = ctx.saved_tensors
        ran = ctx.adj.run(_recurrence(series.degree), [grad, h], rows)
        grad_rates = None
        if ctx.needs_input_grad[3]:
            slopes = torch.from_numpy(series.slopes).to(grad.device)
            grad_rates = (slopes * ran.sums).sum(1).sum_to_size(rates.shape).to(rates.dtype)
        return None, None, ran.outputs[0], grad_rates


def _rows(series: Series, h: Tensor) -> Tensor:
    """Coefficients of both programs: 2 s, 2 t, c_k and −1 for every k; s and t; 2 s, 2 t and −1."""
    count = series.degree + 1
    coef = _constants(count, h.size(1), series.lowest).copy()
    coef[2 : 4 * count : 4] = series.c[0].real
    return torch.from_numpy(coef).to(h)


@lru_cache(maxsize=64)
def _constants(count: int, d: int, lowest: float) -> NDArray[Any]:
    s, t = 2 / (1 - lowest), -(1 + lowest) / (1 - lowest)
    rows = [s, t, 0, -1] + [2 * s, 2 * t, 0, -1] * (count - 1) + [s, t, 2 * s, 2 * t, -1]
    return np.repeat(np.array(rows)[:, None], d, axis=1)


@lru_cache(maxsize=64)
def _clenshaw(degree: int) -> Program:
    """Σ_k c_k T_k h by Clenshaw: b_k = c_k h + 2 X b_{k+1} − b_{k+2}, then c_0 h + X b_1 − b_2."""
    w = ProgramBuilder()
    h = w.load(0)
    b = [w.add(None, h, coef=4 * degree + 2)]
    for k in reversed(range(degree)):
        b.append(w.gather(b[-1], coef=4 * k, degree=1, bases=[h, *b[-2:-1]]))
    w.store(b[-1], 0)
    return w.done()


@lru_cache(maxsize=64)
def _recurrence(degree: int) -> Program:
    """Σ_k c_k T_k g and Σ_i (T_k g) h, by the recurrence T_{k+1} = 2 X T_k − T_{k−1}."""
    w = ProgramBuilder()
    t, h = [w.load(0)], w.load(1)
    first = 4 * (degree + 1)
    grad = w.add(None, t[0], coef=2)
    for k in range(degree):
        t.append(w.pull(t[-1], h, coef=first + 2 * (k > 0), bases=t[-2:-1]))
        grad = w.add(grad, t[-1], coef=4 * (k + 1) + 2)
    w.dot(t[-1], h)
    w.store(grad, 0)
    return w.done()
