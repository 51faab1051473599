"""The flow H(0) ↦ H(T) of the equations that the library knows, faster than step by step.

    f(H) = −α L̃ H + β (p₀ H(0) + p₁ H + p₂ H² + p₃ H³ + q L̃ H + s Ã L̃ H)

Every reaction of the paper is of this form (`gread.dynamics.reactions.Terms`). `stepping` does
what `integrate` does, with a hand-written backward pass; `chebyshev` does it in fewer products
where H(T) is a polynomial in Ã.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gread.dynamics.chebyshev import polynomial_flow
from gread.dynamics.integrate import Solution, finite, steps
from gread.dynamics.reactions import Terms
from gread.dynamics.stepping import stepped_flow
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.graph.operator import Operator
from gread.kernels.backend import fast


def solve(
    adj: Operator,
    h0: Tensor,
    source: Tensor,
    alpha: Tensor | float,
    beta: Tensor | float,
    *,
    terms: Terms,
    time: float,
    step_size: float,
    solver: str,
    tolerance: float,
) -> Solution | None:
    """H(T) by the fastest way, or None where the steps of `gread.dynamics` have to be taken.

    Those are taken with an adaptive solver, under `gread.kernels.plain_only` and torch.compile, and
    where H(T) is not finite: they say when that came about.
    """
    tableau = SOLVERS[solver]
    if not fast() or not isinstance(tableau, Tableau) or time == 0:
        return None
    factors = [c if isinstance(c, Tensor) else h0.new_full((1,), c) for c in (alpha, beta)]
    if not {factor.numel() for factor in factors} <= {1, h0.size(1)}:  # one a node, say
        return None
    a, b = torch.broadcast_tensors(*(factor.view(-1) for factor in factors))
    lengths = _lengths(time, step_size, tableau)
    final = None
    if source is h0 or not terms.source:
        final = polynomial_flow(adj, h0, a, b, terms=terms, tableau=tableau, lengths=lengths)
    if final is None:
        final = stepped_flow(adj, h0, source, a, b, terms=terms, tableau=tableau, lengths=lengths)
    if not finite(final, adj.total):
        return None
    return Solution(final, (), tableau.stages * len(lengths))


def solve_together(
    adj: Operator,
    h0: Tensor,
    source: Tensor,
    alpha: Tensor,
    beta: Tensor,
    *,
    terms: Terms,
    times: Sequence[float],
    step_sizes: Sequence[float],
    tableau: Tableau,
) -> Solution:
    """H(T) of several members, each with a time T and a step size of its own.

    On a GPU a member with fewer steps than another is done earlier, if members are in falling order
    of steps; else it takes steps of no length at the end. One whose H(T) is not finite is left so:
    it does not touch the others.

    Args:
        adj: Ã, shared or with the entries of every member, [members, E].
        h0: H(0), [members, N, d].
        source: H(0) as the reaction sees it.
        alpha: α, [members, d].
        beta: β, [members, d].
        terms: The reaction.
        times: T of every member.
        step_sizes: τ of every member.
        tableau: The method.
    """
    each = [_lengths(*pair, tableau) or (0.0,) for pair in zip(times, step_sizes, strict=True)]
    counts = [len(own) for own in each]
    most, falling = max(counts), counts == sorted(counts, reverse=True)
    lengths = tuple(own + (0.0,) * (most - len(own)) for own in each)
    active: tuple[int, ...] = ()
    if h0.is_cuda and falling and min(counts) < most:
        active = tuple(sum(count > step for count in counts) for step in range(most))
    final = stepped_flow(
        *(adj, h0, source, alpha, beta),
        terms=terms,
        tableau=tableau,
        lengths=lengths,
        active=active,
    )
    return Solution(final, (), tableau.stages * most)


def _lengths(time: float, step_size: float, tableau: Tableau) -> tuple[float, ...]:
    """The length of every step."""
    return tuple(end - start for start, end in steps(time, step_size, tableau.stages))
