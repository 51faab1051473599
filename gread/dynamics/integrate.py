"""Integration of dh/dt = f(t, h): one loop for all tables, torchdiffeq for adaptive steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.dynamics.stability import advice
from gread.dynamics.tableau import (
    MAX_EVALUATIONS,
    SOLVERS,
    Adaptive,
    Integration,
    IntegrationError,
    Tableau,
)
from gread.kernels.cuda_graph import values_can_be_read

VectorField: TypeAlias = Callable[[float, Tensor], Tensor]

Total: TypeAlias = Callable[[Tensor], Tensor]
"""Function that reduces sums over the local part of the state to sums over the whole state."""


def itself(sums: Tensor) -> Tensor:
    """`Total` of a state that is not distributed."""
    return sums


class Solution(NamedTuple):
    """The result of an integration.

    Example:
        >>> import torch
        >>> solution = integrate(lambda t, h: -h, torch.ones(1), 1.0, step_size=0.5, save_at=[0.5])
        >>> [round(h.item(), 3) for h in (*solution.saved, solution.final)], solution.evaluations
        ([0.607, 0.368], 8)
    """

    final: Tensor
    """h(T)."""
    saved: tuple[Tensor, ...]
    """h at the times of ``save_at``, in their order."""
    evaluations: int
    """Number of evaluations of f, including those for saved states."""


def integrate(
    f: VectorField,
    h0: Tensor,
    time: float,
    *,
    solver: str = "rk4",
    step_size: float = 1.0,
    save_at: Sequence[float] = (),
    tolerance: float = 1e-5,
    max_evaluations: int = MAX_EVALUATIONS,
    total: Total = itself,
) -> Solution:
    """Solve dh/dt = f(t, h), h(0) = ``h0``, from 0 to t = ``time``.

    Paper: the integral of Eq. (7).

    Args:
        f: Right-hand side f(t, h).
        h0: State at t = 0.
        time: End time T.
        solver: A name of ``gread.SOLVERS``.
        step_size: Step τ of fixed-step solvers; the last step is shortened to end at T.
        save_at: Times in [0, T] at which the state is saved. The solution does not depend on them:
            a time between two steps is reached by a separate step.
        tolerance: Relative and absolute error tolerance of adaptive solvers.
        max_evaluations: Largest number of evaluations of f; separate steps do not count.
        total: Function that sums over the states of all processes, if the state is distributed, so
            that all processes take the same steps.

    Returns:
        The final state, the saved states and the number of evaluations.

    Raises:
        IntegrationError: The state overflows, an adaptive step becomes too small, or the bound on
            evaluations is too low.

    Example:
        >>> solution = integrate(lambda t, h: -h, torch.ones(1), time=1.0, step_size=0.1)
        >>> f"{solution.final.item():.4f} after {solution.evaluations} evaluations"
        '0.3679 after 40 evaluations'
    """
    integration = Integration(time, step_size, solver, tolerance)
    return follow(f, h0, integration, save_at=save_at, max_evaluations=max_evaluations, total=total)


def follow(
    f: VectorField,
    h0: Tensor,
    integration: Integration,
    *,
    save_at: Sequence[float] = (),
    max_evaluations: int = MAX_EVALUATIONS,
    total: Total = itself,
) -> Solution:
    """Run `integrate` with its settings as one value."""
    check_count("max_evaluations", max_evaluations)
    for s in save_at:
        if not 0 <= s <= integration.time:
            raise InputError(
                f"save_at must lie between 0 and time ({integration.time:g}), got {s!r}"
            )
    if integration.time == 0:
        return Solution(h0, (h0,) * len(save_at), 0)
    method = SOLVERS[integration.solver]
    if isinstance(method, Adaptive):
        return _adaptive(method, f, h0, integration, save_at, max_evaluations, total)
    return _fixed(method, f, h0, integration, save_at, max_evaluations, total)


def _fixed(
    tableau: Tableau,
    f: VectorField,
    h0: Tensor,
    integration: Integration,
    save_at: Sequence[float],
    max_evaluations: int,
    total: Total,
) -> Solution:
    time, grid = integration.time, integration.steps(max_evaluations)
    starts = {t for t, _ in grid}
    aside = {s for s in save_at if s < time and s not in starts}
    evaluations = tableau.stages * (len(grid) + len(aside))
    h = h0
    saved: dict[float, Tensor] = {}
    for t, t_next in grid:
        for s in save_at:
            if t <= s < t_next:
                saved[s] = h if s == t else _step(tableau, f, t, h, s - t)
        h = _step(tableau, f, t, h, t_next - t)
    saved[time] = h
    if not finite(h, total):
        raise IntegrationError(_where_it_blew_up(tableau, f, h0, integration, total))
    return Solution(h, tuple(saved[s] for s in save_at), evaluations)


def walk(f: VectorField, h0: Tensor, integration: Integration) -> Tensor:
    """Compute h(T) with a fixed-step solver, without checking that it is finite."""
    tableau = integration.tableau
    assert tableau is not None
    h = h0
    for t, t_next in integration.steps():
        h = _step(tableau, f, t, h, t_next - t)
    return h


def _step(tableau: Tableau, f: VectorField, t: float, h: Tensor, tau: float) -> Tensor:
    """One Runge-Kutta step of length ``tau``."""
    k = [f(t, h)]
    for c, row in zip(tableau.c[1:], tableau.a, strict=True):
        k.append(f(t + c * tau, _combine(h, tau, row, k)))
    return _combine(h, tau, tableau.b, k)


def _combine(h: Tensor, tau: float, weights: Sequence[float], k: Sequence[Tensor]) -> Tensor:
    """h + τ Σ w_i k_i."""
    for weight, slope in zip(weights, k, strict=True):
        if weight:
            h = torch.add(h, slope, alpha=tau * weight)
    return h


def _adaptive(
    method: Adaptive,
    f: VectorField,
    h0: Tensor,
    integration: Integration,
    save_at: Sequence[float],
    max_evaluations: int,
    total: Total,
) -> Solution:
    import torchdiffeq  # imports SciPy

    time, tolerance = integration.time, integration.tolerance
    evaluations = 0

    def norm(x: Tensor) -> Tensor:
        """Norm without gradient: step sizes are not differentiated."""
        squares = x.detach().square().sum()
        summed, size = total(torch.stack([squares, torch.full_like(squares, x.numel())]))
        return (summed / size).sqrt()

    def counted(t: Tensor, h: Tensor) -> Tensor:
        nonlocal evaluations
        evaluations += 1
        if evaluations > max_evaluations:
            raise IntegrationError(
                f"{method.method} reached only t = {t.item():.3g} of {time:g} within "
                f"max_evaluations = {max_evaluations}: choose a larger tolerance (now "
                f"{tolerance:g}) or a shorter time"
            )
        return f(float(t.detach()), h)

    times = sorted({0.0, *map(float, save_at), float(time)})
    try:
        states = torchdiffeq.odeint(
            counted,
            h0,
            torch.tensor(times, dtype=torch.float64, device=h0.device),
            method=method.method,
            rtol=tolerance,
            atol=tolerance,
            # Step onto T: without it the last step overshoots and h(T) is interpolated.
            options={"step_t": [time], "norm": norm},
        )
    except AssertionError as error:  # raised by torchdiffeq on underflow of the step
        raise IntegrationError(
            f"{method.method} cannot continue ({str(error)[:40]}): the dynamics diverge, or "
            f"tolerance {tolerance:g} is beyond {h0.dtype}; choose a larger tolerance or a "
            "shorter time"
        ) from error
    if not finite(states[-1], total):
        raise IntegrationError(f"the state is not finite at t = {time:g}: choose a shorter time")
    by_time = dict(zip(times, states, strict=True))
    return Solution(by_time[time], tuple(by_time[s] for s in save_at), evaluations)


def finite(h: Tensor, total: Total = itself) -> bool:
    """Whether h is finite; True if a value cannot be read during compilation or graph capture."""
    if not values_can_be_read():
        return True
    h = h.detach()
    # The sum is fast. It is not finite if an element is not, but it may also overflow.
    if math.isfinite(total(h.sum()).item()):
        return True
    return total((~h.isfinite()).sum()).item() == 0


@torch.no_grad()
def _where_it_blew_up(
    tableau: Tableau, f: VectorField, h: Tensor, integration: Integration, total: Total
) -> str:
    """Integrate again to find when and why the state overflowed."""
    if not finite(h, total):
        return "the state contains NaN or infinity at t = 0: check the features and the parameters"
    # Late in the divergence of F, AC and Z the rates are extreme, so use a state from its start.
    bound = 10 * max(1.0, float(h.abs().max()))
    for t, t_next in integration.steps(integration.evaluations):
        if h.abs().max() <= bound:
            began, calm = t, h
        h = _step(tableau, f, t, h, t_next - t)
        if not finite(h, total):
            break
    step_size = integration.step_size
    return (
        f"the state overflows at t = {t_next:g} with step_size {step_size:g}: "
        f"{advice(f, began, calm, tableau, step_size)}"
    )
