"""Runge-Kutta steps in few passes over the state, with a hand-written backward pass.

An explicit method is a chain of states: with y₀ the state before a step,

    y_{k+1} = Σ_j m_kj y_j + c_k τ f(y_k),

which is the table of the method solved for its stages (`chain`). Each link is one pass of the
kernel `gather` (two for BS, whose f has two products), and its coefficients are linear in 1, α and
β. The backward pass stores one state per step, or one every √steps steps if there are many, and
recomputes the others. Forward and backward pass are programs (`gread.kernels.program`), built once
for each setting. On a GPU the forward pass also stores the stages if they are small, which saves a
third of the products of the backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gread.dynamics.reactions import Terms
from gread.dynamics.tableau import Tableau
from gread.graph.operator import Operator
from gread.kernels.direct import Apply, with_autograd
from gread.kernels.program import Program, ProgramBuilder

FEW_STEPS = 16
"""Largest number of steps for which the state before every step is stored."""

KEEPING = ("cuda",)
"""Types of devices on which stages may be stored. A CPU recomputes them in its cache."""

MOST_KEPT = 2**28
"""Largest total size of the stages of a flow, in bytes, for which they are stored."""

SOURCE = -1
"""Index of H(0) among the bases of a link; the others are indices of states."""

NONE = -1
"""Index of a missing state."""


def stepped_flow(
    adj: Operator,
    h0: Tensor,
    source: Tensor,
    rates: Tensor,
    *,
    terms: Terms,
    tableau: Tableau,
    lengths: Lengths,
    active: tuple[int, ...] = (),
    apply: Apply = with_autograd,
) -> Tensor:
    """Compute H(T) after steps of the given lengths, equal to `gread.integrate` up to rounding.

    For several members, the tensors, ``lengths`` and the weights of ``adj`` may have a leading
    axis.

    Args:
        adj: Ã.
        h0: H(0), [N, d].
        source: H(0) in the reaction, [N, d].
        rates: α and β, per channel [2, d] or for all [2, 1].
        terms: The reaction.
        tableau: Runge-Kutta table.
        lengths: Length of every step. For several members, each has the same number of lengths; the
            last ones may be 0.
        active: Number of leading members that take each step; by default all.
        apply: Function that calls the `torch.autograd.Function`.
    """
    first = lengths[0]
    steps = len(first) if isinstance(first, tuple) else len(lengths)
    learned = (adj.weight, h0, source, rates)
    stages = _stages_to_keep(h0, learned, bool(terms.blurred), steps * tableau.stages)
    plan = _step_program(terms, tableau, steps, active, stages)
    return apply(_Flow, plan, lengths, adj, adj.weight, h0, source, rates)


def _stages_to_keep(
    h0: Tensor, learned: tuple[Tensor, ...], two_products: bool, stages: int
) -> int:
    """Number of states [N, d] that the forward pass stores for every stage."""
    if h0.device.type not in KEEPING or not torch.is_grad_enabled():
        return 0
    if not any(tensor.requires_grad for tensor in learned):
        return 0
    each = 2 if two_products and learned[0].requires_grad else 1
    return each if each * stages * h0.numel() * h0.element_size() <= MOST_KEPT else 0


@lru_cache(maxsize=256)
def _affine(
    matrix: Numbers, lengths: Lengths, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Offset [rows, 1] and slope [rows, 2]: the coefficients are offset + slope (α, β)."""
    parts = torch.tensor(matrix, dtype=torch.float64)
    tau = torch.tensor(lengths, dtype=torch.float64)[..., None, None]
    slope = tau * parts[:, 1:]
    offset = parts[:, :1].expand_as(slope[..., :1])
    return offset.flatten(-3, -2).to(device, dtype), slope.flatten(-3, -2).to(device, dtype)


def _coefficients(matrix: Numbers, lengths: Lengths, rates: Tensor, d: int) -> Tensor:
    """Coefficients of all steps, [rows, d]."""
    offset, slope = _affine(matrix, lengths, rates.dtype, rates.device)
    coef = offset + slope @ rates
    return coef.expand(*coef.shape[:-1], d)


class Link(NamedTuple):
    """Computation of y_{k+1} from earlier states: arguments of `gather` and `pull`."""

    first: int
    """First row of its coefficients."""
    degree: int
    """Highest power of y_k."""
    bases: tuple[int, ...]
    """States that are added: the index of y_j, or `SOURCE`."""

    def base_row(self, base: int) -> int:
        """Row of the coefficient of a base."""
        return self.first + 1 + self.degree + self.bases.index(base)


Numbers: TypeAlias = tuple[tuple[float, ...], ...]
Lengths: TypeAlias = tuple[float, ...] | Numbers


@dataclass(frozen=True, eq=False)
class StepProgram:
    """Passes of a flow; its coefficients are linear in 1, τ α and τ β.

    Attributes:
        matrix: One row per coefficient of a step: its factors of 1, τ α and τ β.
        links: The links of a step.
        steps: Number of steps.
        two_products: Whether f has the term Ã L̃ H.
        source: Whether f has the term H(0).
        active: Number of members that take each step; empty if all take all steps.
        stages: Number of states stored for every stage: 0, 1 (y_k) or 2 (also Ã y_k).
    """

    matrix: Numbers
    links: tuple[Link, ...]
    steps: int
    two_products: bool
    source: bool
    active: tuple[int, ...] = ()
    stages: int = 0

    @property
    def every(self) -> int:
        """Number of steps between two states that are stored for the backward pass."""
        few = self.stages or self.steps <= FEW_STEPS
        return 1 if few else math.ceil(math.sqrt(self.steps))

    @property
    def each(self) -> int:
        """Number of states that are stored for every such interval."""
        return max(self.stages * len(self.links), 1)

    @property
    def kept(self) -> int:
        """Number of states that the backward pass receives, including H(0)."""
        return self.each * math.ceil(self.steps / self.every)

    @cached_property
    def forward(self) -> Program:
        """Forward program from H(0), and the source if any, to H(T) and the stored states."""
        w = ProgramBuilder()
        h = w.load(0)
        source = w.load(1) if self.source else NONE
        for number in range(self.steps):
            w.members = self.active_members(number)
            if number and number % self.every == 0:
                w.store(h, self.each * (number // self.every))
            states, products = self.write(w, self.links, number * len(self.matrix), h, source)
            h = states.pop()
            stages = [*states, *products][: self.stages * len(self.links)]
            for place, stage in list(enumerate(stages, self.each * number))[1:]:
                w.store(stage, place)
            if self.active_members(number + 1) < w.members:  # other members have reached their T
                w.leave(h, 0, self.active_members(number + 1))
        if not self.active:
            w.store(h, 0)
        return w.done()

    def active_members(self, step: int) -> int:
        """Number of members that take a step; 0 if all take all steps, and beyond the last."""
        return self.active[step] if step < len(self.active) else 0

    def write(
        self, w: ProgramBuilder, links: Sequence[Link], first: int, h: int, source: int
    ) -> tuple[list[int], list[int]]:
        """Write one step from ``h``; ``first`` is the first row of its coefficients.

        Returns the indices of y₀, y₁, ..., and if f has two products, of Ã y₀, Ã y₁, ...
        """
        states, products = [h], []
        for link in links:
            x = states[-1]
            bases = [source if base == SOURCE else states[base] for base in link.bases]
            if self.two_products:
                products.append(x := w.product(x))
            states.append(w.gather(x, coef=first + link.first, degree=link.degree, bases=bases))
        return states, products


@lru_cache(maxsize=64)
def _step_program(
    terms: Terms, tableau: Tableau, steps: int, active: tuple[int, ...], stages: int
) -> StepProgram:
    two_products = bool(terms.blurred)
    assert not (two_products and (terms.square or terms.cube)), "one link would need two powers"
    degree = 3 if terms.cube else 2 if terms.square else 1
    matrix: list[tuple[float, float, float]] = []
    links = []
    for k, (weights, c) in enumerate(chain(tableau)):
        first = len(matrix)
        bases = [j for j in range(k) if weights[j]]
        own = (weights[k], -c, c * (terms.laplacian + terms.linear))  # coefficient of y_k
        once = (0, c, c * (terms.blurred - terms.laplacian))  # coefficient of Ã y_k
        if two_products:  # from Ã y_k, with y_k itself among the bases
            matrix += [(0, 0, -c * terms.blurred), once, own]
            bases = [k, *bases]
        else:
            matrix += [once, own]
            matrix += [(0, 0, c * terms.square), (0, 0, c * terms.cube)][: degree - 1]
        matrix += [(weights[j], 0, 0) for j in bases if j != k]
        if terms.source:
            matrix += [(0, 0, c * terms.source)]
            bases = [*bases, SOURCE]
        links.append(Link(first, degree, tuple(bases)))
    about = two_products, bool(terms.source), active, stages
    return StepProgram(tuple(matrix), tuple(links), steps, *about)


def chain(tableau: Tableau) -> list[tuple[tuple[float, ...], float]]:
    """Coefficients m_k0 to m_kk and c_k of every link.

    Each stage k_j follows from the next state, τ k_j = (y_{j+1} − Σ_i m_ji y_i) / c_j, which
    eliminates it from later stages.

    Example:
        >>> from gread.dynamics.tableau import SOLVERS
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
    """The flow as a function of H(0), Ã, and the rates α and β, [2, d] or [2, 1]."""

    @staticmethod
    def forward(
        ctx: Any,
        plan: StepProgram,
        lengths: Lengths,
        adj: Operator,
        weight: Tensor,
        h: Tensor,
        source: Tensor,
        rates: Tensor,
    ) -> Tensor:
        inputs = [h, source] if plan.source else [h]
        coef = _coefficients(plan.matrix, lengths, rates, h.size(-1))
        final, *kept = adj.run(plan.forward, inputs, coef).outputs
        ctx.plan, ctx.lengths, ctx.adj = plan, lengths, adj
        ctx.save_for_backward(weight, source, rates, h, *kept)
        return final

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        plan, lengths, adj = ctx.plan, ctx.lengths, ctx.adj
        _, source, rates, *kept = ctx.saved_tensors
        needs_weight, needs_source = ctx.needs_input_grad[3], ctx.needs_input_grad[5]
        back = _back_program(plan, needs_weight, needs_source and plan.source)
        coef = _coefficients(back.matrix, lengths, rates, grad.size(-1))
        inputs = [grad, *kept, *([source] if plan.source else [])]
        ran = adj.run(back.program, inputs, coef)
        grad_h, grad_source = (*ran.outputs, None)[:2]
        gradient = _gradient(back, lengths, rates.dtype, rates.device) @ ran.sums
        return None, None, None, ran.weight, grad_h, grad_source, gradient.sum_to_size(rates.shape)


Row: TypeAlias = dict[int, float]
"""Sparse row of a matrix: column to value."""


@dataclass(frozen=True, eq=False)
class BackProgram:
    """The backward pass; its coefficients are linear in 1, τ α and τ β, as in `StepProgram`.

    Attributes:
        program: Maps the gradient of H(T), the stored states and the source to the gradient of
            H(0), and to that of the source if it is needed.
        matrix: One row per coefficient of a step: its factors of 1, τ α and τ β.
        pulls: Maps the sums of `pull` in a step to the gradients of τ α and τ β, two rows.
        dots: The same for the sums of `dot`.
    """

    program: Program
    matrix: Numbers
    pulls: Numbers
    dots: Numbers


@lru_cache(maxsize=256)
def _gradient(
    back: BackProgram, lengths: Lengths, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Matrix from the sums of the program, last step first, to the gradients of α and β."""
    tau = torch.tensor(lengths, dtype=torch.float64).flip(-1)[..., None, :, None]
    parts = (torch.tensor(part, dtype=torch.float64) for part in (back.pulls, back.dots))
    every = [(tau * part.unsqueeze(-2)).flatten(-2) for part in parts]
    return torch.cat(every, -1).to(device, dtype)


@lru_cache(maxsize=64)
def _back_program(plan: StepProgram, weight: bool, source: bool) -> BackProgram:
    # Write one step first, to count its coefficients.
    rows = len(_Back(replace(plan, steps=1, active=()), weight, source, 0).planned().matrix)
    return _Back(plan, weight, source, rows).planned()


class _Back:
    """Builder of the backward pass.

    Args:
        plan: The forward pass.
        weight: Whether the gradient of Ã is needed.
        source: Whether the gradient of the source is needed.
        rows: The number of coefficients of a step.
    """

    def __init__(self, plan: StepProgram, weight: bool, source: bool, rows: int):
        self.plan, self.needs_weight, self.needs_source = plan, weight, source
        self.w = ProgramBuilder()
        self.first, self.rows_of_a_step = 0, rows
        self.coefs: dict[tuple[tuple[tuple[int, float], ...], ...], int] = {}
        self.rows: list[Row] = [{i: 1.0} for i in range(len(plan.matrix))]  # forward rows
        # For each sum of `pull` and `dot` in a step, the coefficients whose gradients it
        # contributes to.
        self.sums: list[Row] = []
        self.dots: list[Row] = []
        self.source = NONE
        self.grad_source: int | None = None

    def planned(self) -> BackProgram:
        """Build the complete backward program."""
        plan, w = self.plan, self.w
        parts = [range(plan.steps)[k : k + plan.every] for k in range(0, plan.steps, plan.every)]
        self.source = w.load(1 + plan.kept) if plan.source else NONE
        w.members = plan.active_members(plan.steps - 1)
        grad = w.load(0)
        for number, part in reversed(list(enumerate(parts))):
            w.members = 0
            before = [w.load(1 + plan.each * number)]
            for step in part[:-1]:
                w.members = plan.active_members(step)
                first = step * self.rows_of_a_step
                states, _ = plan.write(w, plan.links, first, before[-1], self.source)
                before.append(states[-1])
            for step in reversed(part):
                w.members = plan.active_members(step)
                # Members that ended at this step join.
                if w.members > plan.active_members(step + 1) > 0:
                    grad = w.join(grad, 0)
                grad = self.step(step, before.pop(), grad)
        w.store(grad, 0)
        if self.grad_source is not None:
            w.store(self.grad_source, 1)
        matrix = tuple(tuple(self.part(row, k) for k in range(3)) for row in self.rows)
        pulls, dots = (
            tuple(tuple(self.part(row, k) for row in sums) for k in (1, 2))
            for sums in (self.sums, self.dots)
        )
        return BackProgram(w.done(), matrix, pulls, dots)

    def part(self, row: Row, k: int) -> float:
        """Factor of 1, τ α or τ β (k = 0, 1, 2) in a sum of coefficients."""
        return sum(factor * self.plan.matrix[i][k] for i, factor in row.items())

    def step(self, number: int, h: int, grad: int) -> int:
        """Write the gradient before a step from the gradient after it."""
        plan, links = self.plan, self.plan.links
        self.first = number * self.rows_of_a_step
        self.sums, self.dots = [], []  # the same for every step
        states, products = self.stages(number, h)
        grads = {len(links): grad}  # gradients of y_1, y_2, ... so far
        for k in reversed(range(len(links))):
            link, g, y = links[k], grads[k + 1], states[k]
            later = [j for j in range(k + 1, len(links)) if k in links[j].bases]  # they use y_k
            straight = [grads[j + 1] for j in later]
            weights: list[Row] = [{links[j].base_row(k): 1.0} for j in later]
            if plan.two_products:
                ay = products[k] if k < len(products) else None
                grads[k] = self.through_two(link, g, y, ay, weights, straight)
            else:
                grads[k] = self.through_one(link, g, y, weights, straight)
            if plan.source:
                row = link.base_row(SOURCE)
                self.w.dot(g, self.source)
                self.dots.append({row: 1})
                if self.needs_source:
                    self.grad_source = self.w.add(self.grad_source, g, coef=self.coef({row: 1}))
        return grads[0]

    def stages(self, number: int, h: int) -> tuple[list[int], list[int]]:
        """Read or recompute y₀, y₁, ... of a step, and if f has two products, Ã y₀, Ã y₁, ..."""
        plan, count = self.plan, len(self.plan.links)
        if not plan.stages:
            return plan.write(self.w, plan.links[:-1], self.first, h, self.source)
        first = 1 + plan.each * number
        others = [self.w.load(first + place) for place in range(1, plan.each)]
        return [h, *others[: count - 1]], others[count - 1 :]

    def through_one(
        self, link: Link, g: int, y: int, weights: list[Row], straight: list[int]
    ) -> int:
        """Write the backward pass of c₀ Ã y + c₁ y + c₂ y² + c₃ y³."""
        at, powers = link.first, range(1, link.degree + 1)
        coef = self.coef({at: 1}, *({at + p: float(p)} for p in powers), *weights)
        out = self.w.pull(g, y, coef=coef, degree=link.degree, bases=straight)
        self.sums += [{at + p: 1} for p in (0, *powers)]
        if self.needs_weight:
            self.w.edge_dots([g], y, coef=self.coef({at: 1}))
        return out

    def through_two(
        self, link: Link, g: int, y: int, ay: int | None, weights: list[Row], straight: list[int]
    ) -> int:
        """Write the backward pass of c₀ Ã Ã y + c₁ Ã y + c₂ y.

        With v = Ãᵀ g it is c₀ Ãᵀ v + c₁ v + c₂ g. The gradients of c₀, c₁ and c₂ are Σ (Ãᵀ v) y, Σ
        v y and Σ g y. The first Ã has the gradient (c₀ g) (Ã y)ᵀ, the second (c₀ v + c₁ g) yᵀ.
        """
        w, at = self.w, link.first
        v = w.back(g)
        coef = self.coef({at: 1}, {at + 1: 1}, {at + 2: 1}, *weights)
        out = w.pull(v, y, coef=coef, bases=[g, *straight], base_dot=True)
        self.sums += [{at: 1}, {at + 1: 1}, {at + 2: 1}]
        if self.needs_weight:
            ay = w.product(y) if ay is None else ay
            w.edge_dots([v, g], y, coef=self.coef({at: 1}, {at + 1: 1}))
            w.edge_dots([g], ay, coef=self.coef({at: 1}))
        return out

    def coef(self, *rows: Row) -> int:
        """Index of the first of these rows in the coefficients of the program."""
        key = tuple(tuple(row.items()) for row in rows)
        if key not in self.coefs:
            self.coefs[key] = len(self.rows)
            self.rows += rows
        return self.first + self.coefs[key]
