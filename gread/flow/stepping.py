"""The flow by Runge-Kutta steps in few passes over the state, with a hand-written way back.

An explicit method is a chain of states: with y₀ the state before a step,

    y_{k+1} = Σ_j m_kj y_j + c_k τ f(y_k),

which is the table of the method solved for its stages (`chain`). Each link is one pass of the
kernel `gather` (two for BS, whose f has two products), and its coefficients are linear in 1, α and
β. The way back keeps one state a step, or one in √steps where there are many, and finds the
others again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gread.adjacency import Adjacency
from gread.kernels.choice import kernels_for
from gread.ode import Tableau
from gread.reactions import Terms

FEW_STEPS = 16
"""Up to so many, the state before every step is kept."""

SOURCE = -1
"""Number of H(0) among the bases of a link, where the others are numbers of states."""


def stepped_flow(
    adj: Adjacency,
    h0: Tensor,
    source: Tensor,
    alpha: Tensor,
    beta: Tensor,
    *,
    terms: Terms,
    tableau: Tableau,
    lengths: Sequence[float],
) -> Tensor:
    """H(T) after steps of the given lengths, equal to `gread.ode.integrate` up to rounding.

    Args:
        adj: Ã.
        h0: H(0), [N, d].
        source: H(0) as the reaction sees it, [N, d].
        alpha: α, one a channel, [d].
        beta: β, likewise.
        terms: The reaction.
        tableau: The method.
        lengths: Length of every step.
    """
    plan = _plan(terms, tableau, tuple(lengths))
    basis = torch.stack([torch.ones_like(alpha), alpha, beta])
    coef = _matrix(plan, h0.dtype, h0.device) @ basis
    return _Flow.apply(plan, adj, adj.weight, h0, source, coef)


class Link(NamedTuple):
    """y_{k+1} from the states before it: what `gather` and `pull` are called with."""

    first: int
    """Its first row among the coefficients."""
    degree: int
    """Powers of y_k that occur."""
    bases: tuple[int, ...]
    """The states that are added: y_j by its number, or `SOURCE`."""

    def rows(self, coef: Tensor) -> Tensor:
        """Its coefficients."""
        return coef[self.first : self.first + 1 + self.degree + len(self.bases)]

    def base_row(self, base: int) -> int:
        """Where the coefficient of a base stands among all."""
        return self.first + 1 + self.degree + self.bases.index(base)


Numbers: TypeAlias = tuple[tuple[float, ...], ...]


class Plan(NamedTuple):
    """All of a flow but its numbers, which are linear in 1, α and β."""

    matrix: Numbers
    """A row for every coefficient: how much of 1, of α and of β is in it."""
    steps: tuple[tuple[Link, ...], ...]
    """The links of every step."""
    two_products: bool
    """Whether f has the term Ã L̃ H."""
    source: bool
    """Whether f has the term H(0)."""

    def later(self, links: tuple[Link, ...], k: int) -> list[int]:
        """The links after k into which y_k goes straight."""
        return [j for j in range(k + 1, len(links)) if k in links[j].bases]


@lru_cache(maxsize=64)
def _plan(terms: Terms, tableau: Tableau, lengths: tuple[float, ...]) -> Plan:
    two_products = bool(terms.blurred)
    assert not (two_products and (terms.square or terms.cube)), "one link would need two powers"
    degree = 3 if terms.cube else 2 if terms.square else 1
    matrix: list[tuple[float, float, float]] = []
    steps: dict[float, tuple[Link, ...]] = {}
    for length in dict.fromkeys(lengths):
        links = []
        for k, (weights, slope) in enumerate(chain(tableau)):
            c = slope * length
            first = len(matrix)
            bases = [j for j in range(k) if weights[j]]
            if two_products:  # of y = L̃ y_k, with y_k itself among the bases
                matrix += [(0, 0, c * terms.blurred), (0, -c, c * terms.laplacian)]
                matrix += [(weights[k], 0, c * terms.linear)]
                bases = [k, *bases]
            else:
                matrix += [(0, c, -c * terms.laplacian)]
                matrix += [(weights[k], -c, c * (terms.laplacian + terms.linear))]
                matrix += [(0, 0, c * terms.square), (0, 0, c * terms.cube)][: degree - 1]
            matrix += [(weights[j], 0, 0) for j in bases if j != k]
            if terms.source:
                matrix += [(0, 0, c * terms.source)]
                bases = [*bases, SOURCE]
            links.append(Link(first, degree, tuple(bases)))
        steps[length] = tuple(links)
    order = tuple(steps[length] for length in lengths)
    return Plan(tuple(matrix), order, two_products, bool(terms.source))


@lru_cache(maxsize=64)
def _matrix(plan: Plan, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(plan.matrix, dtype=dtype, device=device)


class BackPlan(NamedTuple):
    """What the way back needs, again as matrices: one product instead of many small sums."""

    matrix: Tensor
    """From the coefficients of all links to those of all calls of `pull`."""
    first: dict[tuple[Link, ...], list[int]]
    """The first row of the last call of each link."""
    gradient: Tensor
    """From the sums of all calls, in their order, to the gradients of the coefficients."""


@lru_cache(maxsize=64)
def _back_plan(plan: Plan, dtype: torch.dtype, device: torch.device) -> BackPlan:
    rows: list[dict[int, float]] = []  # of `matrix`: column to number
    first: dict[tuple[Link, ...], list[int]] = {}
    sums: dict[Link, list[dict[int, float]]] = {}  # columns of `gradient`: row to number
    for links in dict.fromkeys(plan.steps):
        first[links] = []
        for k, link in enumerate(links):
            at = link.first
            first[links].append(len(rows))
            if plan.two_products:  # c₀ Ã L̃ y + c₁ L̃ y + c₂ y, see `_Back.through_two`
                rows += [{at: -1}, {at: 1, at + 1: -1}, {at + 1: 1, at + 2: 1}]
                sums[link] = [{at: 1, at + 1: -1}, {at + 1: 1, at + 2: 1}, {at: -1}, {}]
            else:  # c₀ Ã y + c₁ y + c₂ y² + c₃ y³
                rows += [{at: 1}, *({at + p: float(p)} for p in range(1, link.degree + 1))]
                sums[link] = [{at + p: 1} for p in range(link.degree + 1)]
            rows += [{links[j].base_row(k): 1} for j in plan.later(links, k)]
            if plan.source:
                sums[link].append({link.base_row(SOURCE): 1})
    matrix = torch.zeros(len(rows), len(plan.matrix))
    for i, row in enumerate(rows):
        for j, number in row.items():
            matrix[i, j] = number
    order = [
        one for links in reversed(plan.steps) for link in reversed(links) for one in sums[link]
    ]
    gradient = torch.zeros(len(plan.matrix), len(order))
    for j, column in enumerate(order):
        for i, number in column.items():
            gradient[i, j] = number
    return BackPlan(matrix.to(device, dtype), first, gradient.to(device, dtype))


def chain(tableau: Tableau) -> list[tuple[tuple[float, ...], float]]:
    """m_k0 to m_kk and c_k of every link.

    Each stage k_j is known from the state it leads to, τ k_j = (y_{j+1} − Σ_i m_ji y_i) / c_j, and
    so drops out of the later ones.

    Example:
        >>> from gread.ode import SOLVERS
        >>> chain(SOLVERS["heun"])
        [((1.0,), 1.0), ((0.5, 0.5), 0.5)]
    """
    links: list[tuple[tuple[float, ...], float]] = []
    slopes: list[list[float]] = []  # τ k_j as a sum of states
    for row in (*tableau.a, tableau.b):
        k = len(row) - 1
        weights = [1.0] + [0.0] * k
        for factor, slope in zip(row, slopes, strict=False):
            for i, part in enumerate(slope):
                weights[i] += factor * part
        weights = [0.0 if abs(weight) < 1e-14 else weight for weight in weights]
        links.append((tuple(weights), row[k]))
        slopes.append([-weight / row[k] for weight in weights] + [1 / row[k]])
    return links


class _Flow(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        adj: Adjacency,
        weight: Tensor,
        h: Tensor,
        source: Tensor,
        coef: Tensor,
    ) -> Tensor:
        steps = len(plan.steps)
        every = 1 if steps <= FEW_STEPS else math.ceil(math.sqrt(steps))
        kept = []
        ctx.plan, ctx.adj, ctx.every = plan, adj, every
        for number, links in enumerate(plan.steps):
            if number % every == 0:
                kept.append(h)
            h = _step(plan, links, adj, coef, h, source)[-1].after
        ctx.save_for_backward(weight, source, coef, *kept)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        plan, adj = ctx.plan, ctx.adj
        weight, source, coef, *kept = ctx.saved_tensors
        needs_weight, needs_source = ctx.needs_input_grad[2], ctx.needs_input_grad[4]
        grad_weight = torch.zeros_like(weight) if needs_weight else None
        grad_source = torch.zeros_like(source) if needs_source and plan.source else None
        planned = _back_plan(plan, coef.dtype, coef.device)
        back = _Back(plan, planned, adj, source, coef, -coef, planned.matrix @ coef)
        back.grad_weight, back.grad_source = grad_weight, grad_source
        for part in reversed(range(len(kept))):
            h, steps = kept.pop(), plan.steps[part * ctx.every : (part + 1) * ctx.every]
            before = [h]
            for links in steps[:-1]:
                h = _step(plan, links, adj, coef, h, source)[-1].after
                before.append(h)
            for links in reversed(steps):
                grad = back.step(links, before.pop(), grad.contiguous())
        grad_coef = planned.gradient @ torch.cat(back.sums)
        return None, None, grad_weight, grad, grad_source, grad_coef


class Linked(NamedTuple):
    """What a link went through."""

    before: Tensor
    """y_k."""
    laplacian: Tensor | None
    """L̃ y_k, where f has two products."""
    after: Tensor
    """y_{k+1}."""


def _step(
    plan: Plan, links: Sequence[Link], adj: Adjacency, coef: Tensor, h: Tensor, source: Tensor
) -> list[Linked]:
    """One step from ``h``, link by link."""
    kernels, rows, weight = kernels_for(h), adj.pattern.rows, adj.weight
    states, done = [h], []
    for link in links:
        y = states[-1]
        bases = [source if base == SOURCE else states[base] for base in link.bases]
        lh = None
        if plan.two_products:
            lh = kernels.gather(rows, weight, y, _difference(y))
        y_next = kernels.gather(
            rows, weight, y if lh is None else lh, link.rows(coef), bases, link.degree
        )
        states.append(y_next)
        done.append(Linked(y, lh, y_next))
    return done


def _difference(y: Tensor) -> Tensor:
    """Coefficients of L̃ y = −Ã y + y."""
    return _constant(((-1.0,), (1.0,)), y.size(1), y.dtype, y.device)


@lru_cache(maxsize=64)
def _constant(
    rows: tuple[tuple[float], ...], d: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    return torch.tensor(rows, dtype=dtype, device=device).expand(-1, d).contiguous()


@dataclass
class _Back:
    """The way back, which gathers the gradients of what all steps share."""

    plan: Plan
    planned: BackPlan
    adj: Adjacency
    source: Tensor
    coef: Tensor
    minus_coef: Tensor
    pull_coef: Tensor
    """The coefficients of every call of `pull`."""
    sums: list[Tensor] = field(default_factory=list)
    grad_weight: Tensor | None = None
    grad_source: Tensor | None = None

    def step(self, links: tuple[Link, ...], h: Tensor, grad: Tensor) -> Tensor:
        """The gradient before a step from that after it."""
        done = _step(self.plan, links[:-1], self.adj, self.coef, h, self.source)
        states = [h, *(linked.after for linked in done)]
        grads: dict[int, Tensor] = {len(links): grad}  # of y_1, y_2, ..., as they become known
        for k in reversed(range(len(links))):
            link, g, y = links[k], grads[k + 1], states[k]
            first, later = self.planned.first[links][k], self.plan.later(links, k)
            size = (3 if self.plan.two_products else 1 + link.degree) + len(later)
            coef = self.pull_coef[first : first + size]
            straight = [grads[j + 1] for j in later]
            if self.plan.two_products:
                lh = done[k].laplacian if k < len(done) else None
                grads[k] = self.through_two(link, g, y, lh, coef, straight)
            else:
                grads[k] = self.through_one(link, g, y, coef, straight)
            if self.plan.source:
                self.sums.append((g * self.source).sum(0, keepdim=True))
            if self.grad_source is not None:
                self.grad_source.addcmul_(self.coef[link.base_row(SOURCE)], g)
        return grads[0]

    def through_one(
        self, link: Link, g: Tensor, y: Tensor, coef: Tensor, straight: list[Tensor]
    ) -> Tensor:
        """Back through c₀ Ã y + c₁ y + c₂ y² + c₃ y³."""
        out = self._pull(g, y, coef, straight, link.degree)
        if self.grad_weight is not None:
            self._to_weight([(self.coef[link.first] * g, y)])
        return out

    def through_two(
        self,
        link: Link,
        g: Tensor,
        y: Tensor,
        lh: Tensor | None,
        coef: Tensor,
        straight: list[Tensor],
    ) -> Tensor:
        """Back through c₀ Ã L̃ y + c₁ L̃ y + c₂ y.

        With v = Ãᵀ g that is −c₀ Ãᵀ v + (c₀ − c₁) v + (c₁ + c₂) g. The gradients of c₀, c₁ and c₂
        are Σ (v − Ãᵀ v) y, Σ (g − v) y and Σ g y.
        """
        v = self._pull(g, y, _constant(((1.0,), (0.0,)), y.size(1), y.dtype, y.device))
        out = self._pull(v, y, coef, [g, *straight])
        if self.grad_weight is not None:
            if lh is None:
                rows, weight = self.adj.pattern.rows, self.adj.weight
                lh = kernels_for(y).gather(rows, weight, y, _difference(y))
            c0 = self.coef[link.first]
            minus_c0, minus_c1 = self.minus_coef[link.first : link.first + 2]
            # Of Ã y the gradient is −(c₀ v + c₁ g), of Ã L̃ y it is c₀ g.
            self._to_weight([((minus_c0 * v).addcmul_(minus_c1, g), y), (c0 * g, lh)])
        return out

    def _pull(
        self, g: Tensor, y: Tensor, coef: Tensor, bases: Sequence[Tensor] = (), degree: int = 1
    ) -> Tensor:
        columns, weight = self.adj.pattern.columns, self.adj.transposed_weight
        out, sums = kernels_for(y).pull(columns, weight, g, y, coef, bases, degree)
        self.sums.append(sums)
        return out

    def _to_weight(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        assert self.grad_weight is not None
        self.grad_weight.add_(kernels_for(pairs[0][0]).edge_dots(self.adj.pattern.rows, pairs))
