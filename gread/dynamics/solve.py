"""Fast computation of the flow H(0) ↦ H(T) for the equations of the library.

    f(H) = −α L̃ H + β (p₀ H(0) + p₁ H + p₂ H² + p₃ H³ + q L̃ H + s Ã L̃ H)

Every reaction of the paper has this form (`gread.dynamics.reactions.Terms`). `stepping` takes the
steps of `integrate` with a hand-written backward pass. `chebyshev` needs fewer products if H(T) is
a polynomial in Ã.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gread.dynamics.chebyshev import Series, polynomial_flow, polynomial_series
from gread.dynamics.integrate import Solution, VectorField, finite, follow, walk
from gread.dynamics.reactions import Reaction, State, Terms, terms_of
from gread.dynamics.stepping import stepped_flow
from gread.dynamics.tableau import Integration
from gread.graph.operator import Operator
from gread.kernels.backend import fast
from gread.kernels.direct import Apply, with_autograd


@dataclass(frozen=True)
class ReactionDiffusion:
    """f(H) = −α L̃ H + β r(H) + γ H, with Ã, α, β and γ fixed in time.

    A coefficient is one number, one per channel [d], or a matrix [d, d] that multiplies from the
    right. For several members, coefficients and states [members, N, d] have a leading axis.

    Attributes:
        adj: Ã.
        source: H(0) in the reaction.
        alpha: α, the coefficient of the diffusion.
        beta: β, the coefficient of the reaction.
        reaction: r; None for diffusion only.
        local: γ, the coefficient of the local term; None without one.
    """

    adj: Operator
    source: Tensor
    alpha: Tensor | float
    beta: Tensor | float = 1.0
    reaction: Reaction | None = None
    local: Tensor | None = None

    def __call__(self, t: float, h: Tensor) -> Tensor:
        """Compute the right-hand side f(H)."""
        lh = self.adj.laplacian(h)
        slope = -_scaled(lh, self.alpha)
        if self.reaction is not None:
            reaction = self.reaction(State(h, self.source, lh, self.adj))
            slope = slope + _scaled(reaction, self.beta)
        return slope if self.local is None else slope + _scaled(h, self.local)

    @property
    def terms(self) -> Terms | None:
        """Terms of the reaction; None if it is not a polynomial of the known terms."""
        return terms_of(self.reaction)

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """α and β as tensors of the same shape, channels last."""
        known = [
            c if isinstance(c, Tensor) else self.source.new_full((1,), c)
            for c in (self.alpha, self.beta)
        ]
        alpha, beta = torch.broadcast_tensors(*(torch.atleast_1d(c) for c in known))
        return alpha, beta

    @property
    def rates(self) -> Tensor:
        """α and β of one member, per channel [2, d] or for all [2, 1]."""
        return torch.stack([factor.reshape(-1) for factor in self.factors])


def _scaled(h: Tensor, coefficient: Tensor | float) -> Tensor:
    """Scale h by a number, a vector over channels, or a matrix."""
    if not isinstance(coefficient, Tensor):
        return coefficient * h
    if coefficient.dim() == h.dim() and coefficient.shape[-2:] == (h.size(-1), h.size(-1)):
        return h @ coefficient
    # The axis of the nodes follows the axis of the members.
    return (coefficient.unsqueeze(-2) if h.dim() > 2 else coefficient) * h


def solve(
    f: VectorField, h0: Tensor, integration: Integration, *, save_at: Sequence[float] = ()
) -> Solution:
    """Compute H(T) by the fastest method, and H at the times of ``save_at``.

    `gread.integrate` is used for adaptive solvers, saved states and other equations, and under
    `gread.kernels.plain_only` and torch.compile. It is also used if H(T) is not finite, to report
    the time of the overflow.
    """
    if not isinstance(f, ReactionDiffusion):
        return follow(f, h0, integration, save_at=save_at)
    known = None if save_at else _solve_fast(f, h0, integration)
    return known or follow(f, h0, integration, save_at=save_at, total=f.adj.total)


def _solve_fast(f: ReactionDiffusion, h0: Tensor, integration: Integration) -> Solution | None:
    tableau, terms = integration.tableau, f.terms
    if not fast() or tableau is None or terms is None or integration.time == 0:
        return None
    if f.local is not None:
        return None
    sizes = {c.numel() for c in (f.alpha, f.beta) if isinstance(c, Tensor)}
    if not sizes <= {1, h0.size(1)}:  # for example one per node
        return None
    rates, series = f.rates, None
    if f.source is h0 or not terms.source:
        series = polynomial_series(f.adj, rates, terms, integration, h0.dtype)
    final = flow(f.adj, h0, f.source, rates, terms, integration, series)
    if not finite(final, f.adj.total):
        return None
    return Solution(final, (), integration.evaluations)


def flow(
    adj: Operator,
    h0: Tensor,
    source: Tensor,
    rates: Tensor,
    terms: Terms,
    integration: Integration,
    series: Series | None,
    apply: Apply = with_autograd,
) -> Tensor:
    """Compute H(T) with a fixed-step solver, by a polynomial in Ã or by steps.

    The arguments are those of `gread.dynamics.stepping.stepped_flow`, and the polynomial that
    `polynomial_series` has found; without one, H(T) is computed by steps.
    """
    if series is not None:
        return polynomial_flow(adj, h0, rates, series, apply)
    assert integration.tableau is not None
    return stepped_flow(
        *(adj, h0, source, rates),
        terms=terms,
        tableau=integration.tableau,
        lengths=integration.lengths,
        apply=apply,
    )


def solve_together(f: VectorField, h0: Tensor, integrations: Sequence[Integration]) -> Tensor:
    """Compute H(T) [members, N, d] of several members, each with its own T and step size.

    On a GPU, members that are sorted by decreasing number of steps stop after their own steps.
    Otherwise, members with fewer steps take steps of length zero at the end. A member whose H(T) is
    not finite does not affect the others.

    Args:
        f: Right-hand side of all members. If it is not a `ReactionDiffusion` with known terms, all
            members must take the same steps.
        h0: H(0), [members, N, d].
        integrations: One for every member, with the same fixed-step solver.
    """
    if not isinstance(f, ReactionDiffusion) or f.terms is None:
        return walk(f, h0, integrations[0])
    tableau = integrations[0].tableau
    assert tableau is not None
    each = [integration.lengths for integration in integrations]
    counts = [len(own) for own in each]
    most, falling = max(counts), counts == sorted(counts, reverse=True)
    active: tuple[int, ...] = ()
    if h0.is_cuda and falling and min(counts) < most:
        active = tuple(sum(count > step for count in counts) for step in range(most))
    return stepped_flow(
        *(f.adj, h0, f.source, torch.stack(f.factors, -2)),
        terms=f.terms,
        tableau=tableau,
        lengths=tuple(own + (0.0,) * (most - len(own)) for own in each),
        active=active,
    )
