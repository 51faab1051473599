"""Causes of an overflow: a step beyond the stable interval of the solver, or growing dynamics."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gread.dynamics.tableau import Tableau

ROUNDS = 60
"""Iterations of the power method; its rate is then accurate to a few percent."""


def advice(
    f: Callable[[float, Tensor], Tensor], t: float, h: Tensor, tableau: Tableau, step_size: float
) -> str:
    """Recommend a change, from the fastest rate λ of a small perturbation of h.

    If λ < 0, the method is stable up to the step s / |λ|, where s is its `stable_interval`. If
    λ > 0, no step size helps.
    """
    rate = fastest_rate(f, t, h)
    if rate is not None and rate > 0:
        return (
            f"the equation itself grows, at a rate of about {rate:.2g} at t = {t:g}: choose a "
            "shorter time, or smaller features"
        )
    if rate is not None and -rate * step_size > tableau.stable_interval:
        limit = _rounded_down(tableau.stable_interval / -rate)
        name = tableau.title.partition(",")[0]
        return f"choose a smaller step_size, since {name} is stable up to {limit:g} at t = {t:g}"
    return "choose a smaller step_size if the solver is unstable, a shorter time if it is not"


@torch.no_grad()
def fastest_rate(f: Callable[[float, Tensor], Tensor], t: float, h: Tensor) -> float | None:
    """Eigenvalue λ of ∂f/∂h with the largest magnitude, by power iteration.

    Products with the Jacobian are finite differences of f.

    Returns:
        λ; None if it is not real, not finite or zero.

    Example:
        >>> matrix = torch.tensor([[-3.0, 1.0], [1.0, -3.0]])
        >>> round(fastest_rate(lambda t, h: matrix @ h, 0.0, torch.ones(2, 1)), 2)
        -4.0
    """
    random = torch.Generator().manual_seed(0)
    change = torch.randn(h.shape, generator=random, dtype=h.dtype).to(h.device)
    # Large compared with rounding errors, small enough for f to be nearly linear.
    length = 1e-2 * max(1.0, float(h.abs().max()))
    start, rate = f(t, h), 0.0
    for _ in range(ROUNDS):
        change = change * (length / change.abs().max())
        moved = (f(t, h + change) - start).double()
        size = change.double().square().sum()
        rate = float((moved * change).sum() / size)
        speed = float((moved.square().sum() / size).sqrt())
        if not math.isfinite(speed) or speed == 0:
            return None
        change = (moved / speed).to(h.dtype)
    return rate if abs(rate) > 0.7 * speed else None


def _rounded_down(value: float) -> float:
    """Round down to two digits, so that the printed step is stable."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.floor(value / digit) * digit
