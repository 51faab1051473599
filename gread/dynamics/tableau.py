"""Solvers as data: Runge-Kutta tables, and `Integration`, a solver with T and τ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from gread.base.checks import check_not_negative, check_positive
from gread.base.registry import Registry

Row: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method with a fixed step.

    Stage i is k_i = f(t + c_i τ, h + τ Σ_j a[i][j] k_j), and the step is h + τ Σ_i b[i] k_i.
    Inconsistent coefficients raise an error when the table is created.

    Attributes:
        title: Display name.
        order: Order of convergence: the global error is O(τ^order).
        a: Coefficients of the stages after the first, one row each, of length 1, 2, ...
        b: Weights of the stages.
    """

    title: str
    order: int
    a: tuple[Row, ...]
    b: Row

    def __post_init__(self) -> None:
        assert [len(row) for row in self.a] == list(range(1, len(self.b))), "a must be triangular"
        assert abs(sum(self.b) - 1) < 1e-12, "the weights b must sum to one"
        if self.order >= 2:
            first_moment = sum(b * c for b, c in zip(self.b, self.c, strict=True))
            assert abs(first_moment - 1 / 2) < 1e-12, "Σ b c must be one half"

    @property
    def c(self) -> Row:
        """Nodes of the table: relative times of the stages."""
        return (0.0, *(sum(row) for row in self.a))

    @property
    def stages(self) -> int:
        """Evaluations per step."""
        return len(self.b)

    @property
    def stable_interval(self) -> float:
        """Real stability interval: largest −λτ for which steps decay on dh/dt = λh, λ < 0.

        Example:
            >>> round(SOLVERS["euler"].stable_interval, 2), round(SOLVERS["rk4"].stable_interval, 2)
            (2.0, 2.78)
        """
        x = 0.0
        while abs(sum(c * (-x - 1e-3) ** power for power, c in enumerate(self.growth))) <= 1:
            x += 1e-3
        return x

    @cached_property
    def growth(self) -> Row:
        """Coefficients of the stability function R(z): a step on dh/dt = λh multiplies h by R(λτ).

        Example:
            >>> [round(24 * c) for c in SOLVERS["rk4"].growth]
            [24, 24, 12, 4, 1]
        """
        stages: list[list[float]] = []  # τ k_j as polynomials in z
        for row in ((), *self.a, self.b):
            state = [1.0] + [0.0] * len(row)
            for factor, slope in zip(row, stages, strict=True):
                for power, c in enumerate(slope):
                    state[power] += factor * c
            stages.append([0.0, *state])
        return tuple(stages[-1][1:])


@dataclass(frozen=True)
class Adaptive:
    """A method of torchdiffeq with adaptive steps.

    Attributes:
        title: Display name.
        order: Order of the solution.
        method: Name in torchdiffeq.
    """

    title: str
    order: int
    method: str


SOLVERS: Registry[Tableau | Adaptive] = Registry(
    "solver",
    {
        "euler": Tableau("Euler", 1, a=(), b=(1.0,)),
        "midpoint": Tableau("midpoint rule", 2, a=((1 / 2,),), b=(0.0, 1.0)),
        "heun": Tableau("Heun", 2, a=((1.0,),), b=(1 / 2, 1 / 2)),
        "rk4": Tableau(
            "Runge-Kutta 4, the 3/8 rule (as torchdiffeq and all published numbers)",
            4,
            a=((1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)),
            b=(1 / 8, 3 / 8, 3 / 8, 1 / 8),
        ),
        "rk4-classic": Tableau(
            "Runge-Kutta 4, the classical rule",
            4,
            a=((1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)),
            b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
        ),
        "adaptive-heun": Adaptive("Heun-Euler 2(1), adaptive", 2, "adaptive_heun"),
        "bosh3": Adaptive("Bogacki-Shampine 3(2), adaptive", 3, "bosh3"),
        "dopri5": Adaptive("Dormand-Prince 5(4), adaptive", 5, "dopri5"),
        "dopri8": Adaptive("Dormand-Prince 8(5,3), adaptive", 8, "dopri8"),
    },
)
"""Solvers by name: Runge-Kutta tables with fixed steps, or adaptive methods of torchdiffeq."""


MAX_EVALUATIONS = 10_000
"""Default limit on the evaluations of f, so that a wrong setting cannot take hours."""


class IntegrationError(ArithmeticError):
    """Raised if the integration cannot reach T; the message says what to change.

    Example:
        >>> import torch
        >>> import gread
        >>> try:
        ...     gread.integrate(lambda t, h: h * h, torch.ones(1), 100.0)
        ... except gread.IntegrationError as error:
        ...     print(str(error)[:33])
        the state overflows at t = 3 with
    """


@dataclass(frozen=True)
class Integration:
    """Settings of an integration of dh/dt = f(t, h) from 0 to T.

    Attributes:
        time: End time T.
        step_size: τ of a fixed-step solver; the last step is shortened to end at T.
        solver: A name of ``gread.SOLVERS``.
        tolerance: Relative and absolute error tolerance of an adaptive solver.

    Example:
        >>> how = Integration(1.0, 0.4, "heun")
        >>> how.steps(), how.evaluations
        (((0.0, 0.4), (0.4, 0.8), (0.8, 1.0)), 6)
    """

    time: float
    step_size: float = 1.0
    solver: str = "rk4"
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        check_not_negative("time", self.time)
        check_positive("step_size", self.step_size)
        check_positive("tolerance", self.tolerance)
        SOLVERS[self.solver]  # raises an error for an unknown name

    @property
    def tableau(self) -> Tableau | None:
        """The table of a fixed-step solver; None for an adaptive one."""
        method = SOLVERS[self.solver]
        return method if isinstance(method, Tableau) else None

    @property
    def num_steps(self) -> int:
        """Number of steps of length τ up to T."""
        # Without the slack, 1.1 / 0.1 = 11.000000000000002 would add a twelfth step of length zero;
        # the limit handles infinite quotients.
        return max(1, math.ceil(min(self.time / self.step_size, 1e15) - 1e-9))

    @property
    def evaluations(self) -> int:
        """Evaluations of f by a fixed-step solver; 0 for an adaptive one."""
        return self.num_steps * (self.tableau.stages if self.tableau else 0)

    def steps(self, most: int = MAX_EVALUATIONS) -> tuple[tuple[float, float], ...]:
        """Intervals (0, τ), (τ, 2τ), ...; the last one ends exactly at T.

        Raises:
            IntegrationError: The steps need more than ``most`` evaluations.
        """
        needed = self.evaluations or self.num_steps
        if needed > most:
            raise IntegrationError(
                f"time {self.time:g} with step_size {self.step_size:g} takes {needed} evaluations, "
                f"more than max_evaluations = {most}: choose a larger step_size or a shorter time"
            )
        starts = [k * self.step_size for k in range(self.num_steps)]
        return tuple(zip(starts, [*starts[1:], self.time], strict=True))

    @cached_property
    def lengths(self) -> tuple[float, ...]:
        """Length of every step."""
        return tuple(end - start for start, end in self.steps())
