"""Programs: what a flow does to the states of the nodes, forth or back, as a list of passes.

A pass takes all nodes one step further. No channel sees another, but for the gradient of the
matrix: so a CPU takes some channels through the whole program while they lie in its cache
(`gread.kernels.cpu.run`), where other devices do pass after pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from gread.kernels.backend import kernels_for
from gread.kernels.pattern import Pattern
from gread.kernels.reference import Pair

MANY = 2**20
"""Numbers above which sums over parts of the nodes are added up at once, to save memory."""

KINDS = ("load", "store", "product", "back", "gather", "pull", "add", "dot", "edge_dots")
"""Those that kernels for whole programs know; `join` and `leave` are for members alone."""


class Pass(NamedTuple):
    """One pass. States are numbers of slots, ``coef`` is a row of the coefficients.

    load       out = input number x
    store      output number out = x
    product    out = A x
    back       out = Aᵀ x
    gather     out = c₀ A x + Σ_p c_p xᵖ + Σ c_b base, see `gread.kernels.reference.gather`
    pull       out = c₀ Aᵀ x + Σ_p c_p yᵖ⁻¹ x + Σ c_b base, and its sums
    add        out = y + c₀ x, or c₀ x where there is no y, or none of a member
    dot        the sum Σ x y over the nodes
    edge_dots  for every entry (i, j) of A, its gradient grows by (Σ c_b base)[i] · y[j]
    join       out = x, and behind it input number coef of the members that x does not have
    leave      output number out = x, for the members from number coef on

    A pass is done for the first ``members`` of several, and for all if that is 0.
    """

    kind: str
    out: int = -1
    x: int = -1
    y: int = -1
    coef: int = 0
    degree: int = 0
    bases: tuple[int, ...] = ()
    members: int = 0


@dataclass(frozen=True, eq=False)
class Program:
    """Passes in their order, and how much room they take.

    Attributes:
        passes: All of them.
        slots: Number of states that are held at a time.
        outputs: Number of matrices [N, d] that come out.
    """

    passes: tuple[Pass, ...]
    slots: int
    outputs: int

    @cached_property
    def pull_sums(self) -> int:
        """Number of sums over the nodes that `pull` gives, one for each channel."""
        return sum(1 + p.degree for p in self.passes if p.kind == "pull")

    @cached_property
    def sums(self) -> int:
        """Number of sums over the nodes that come out."""
        return self.pull_sums + sum(p.kind == "dot" for p in self.passes)

    @cached_property
    def for_some(self) -> bool:
        """Whether a pass leaves members out."""
        return any(p.members for p in self.passes)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of passes that occur."""
        return frozenset(p.kind for p in self.passes)

    @cached_property
    def code(self) -> Tensor:
        """The passes as numbers, for kernels that read them: int64."""
        numbers = [
            [KINDS.index(p.kind), p.out, p.x, p.y, p.coef, p.degree, len(p.bases), *p.bases]
            for p in self.passes
        ]
        return torch.tensor([number for row in numbers for number in row])


class Writer:
    """Writes a program. States are numbered as they come about; `done` finds a slot for each.

    Attributes:
        members: What is written next is for so many of the first members; 0 means all.

    Example:
        >>> w = Writer()
        >>> h = w.load(0)
        >>> for _ in range(9):
        ...     h = w.gather(h, coef=0, degree=1)
        >>> w.store(h, 0)
        >>> w.done().slots
        2
    """

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.states = 0
        self.members = 0

    def load(self, number: int) -> int:
        """An input."""
        return self._new(Pass("load", x=number))

    def store(self, x: int, number: int) -> None:
        """An output."""
        self._append(Pass("store", out=number, x=x))

    def product(self, x: int) -> int:
        """A x; see `Pass`, as with all that follow."""
        return self._new(Pass("product", x=x))

    def back(self, x: int) -> int:
        """Aᵀ x."""
        return self._new(Pass("back", x=x))

    def gather(self, x: int, *, coef: int, degree: int, bases: Sequence[int] = ()) -> int:
        """c₀ A x and more."""
        return self._new(Pass("gather", x=x, coef=coef, degree=degree, bases=tuple(bases)))

    def pull(self, x: int, y: int, *, coef: int, degree: int = 1, bases: Sequence[int] = ()) -> int:
        """c₀ Aᵀ x and more, with its sums."""
        return self._new(Pass("pull", x=x, y=y, coef=coef, degree=degree, bases=tuple(bases)))

    def add(self, y: int | None, x: int, *, coef: int) -> int:
        """y + c₀ x."""
        return self._new(Pass("add", x=x, y=-1 if y is None else y, coef=coef))

    def dot(self, x: int, y: int) -> None:
        """Σ x y, a sum."""
        self._append(Pass("dot", x=x, y=y))

    def edge_dots(self, bases: Sequence[int], y: int, *, coef: int) -> None:
        """Part of the gradient of A."""
        self._append(Pass("edge_dots", y=y, coef=coef, bases=tuple(bases)))

    def join(self, x: int, number: int) -> int:
        """x, and behind it an input of the members that x does not have."""
        return self._new(Pass("join", x=x, coef=number))

    def leave(self, x: int, number: int, first: int) -> None:
        """An output of the members from ``first`` on."""
        self._append(Pass("leave", out=number, x=x, coef=first))

    def _append(self, one: Pass) -> None:
        self.passes.append(one._replace(members=self.members))

    def _new(self, one: Pass) -> int:
        self._append(one._replace(out=self.states))
        self.states += 1
        return self.states - 1

    def done(self) -> Program:
        """The program, each state in a slot that is free again after its last use."""
        last = {state: at for at, p in enumerate(self.passes) for state in _reads(p)}
        slot: dict[int, int] = {}
        free: list[int] = []
        slots, placed = 0, []
        for at, p in enumerate(self.passes):
            ends = {state for state in _reads(p) if last[state] == at}
            # A row of `out` may take the place of the same row of an argument, but not of x in a
            # product, of which other rows are still wanted.
            late = ends & {p.x} if p.kind in ("product", "back", "gather", "pull") else set()
            read = {state: slot[state] for state in _reads(p)}
            free += [slot.pop(state) for state in sorted(ends - late)]
            out = p.out
            if p.kind not in ("store", "leave", "dot", "edge_dots"):
                if not free:
                    free, slots = [slots], slots + 1
                out = slot[p.out] = free.pop()
            free += [slot.pop(state) for state in sorted(late)]
            if p.out not in last and out == slot.get(p.out):  # never read
                free.append(slot.pop(p.out))
            x = p.x if p.kind == "load" else read.get(p.x, -1)
            bases = tuple(read[base] for base in p.bases)
            placed.append(p._replace(out=out, x=x, y=read.get(p.y, -1), bases=bases))
        leaving = [p.out for p in placed if p.kind in ("store", "leave")]
        outputs = 1 + max(leaving, default=-1)
        return Program(tuple(placed), slots, outputs)


def _reads(p: Pass) -> set[int]:
    """The states that a pass needs."""
    return {*p.bases, p.y, -1 if p.kind == "load" else p.x} - {-1}


class Ran(NamedTuple):
    """What came out of a program."""

    outputs: list[Tensor]
    """[N, d] each."""
    sums: Tensor
    """Those of `pull` in their order, then those of `dot`, [sums, d]."""
    weight: Tensor | None
    """The gradient of the entries of the matrix, [E], where there is one."""


class Matrix(Protocol):
    """A sparse matrix A, such as `gread.Adjacency`."""

    @property
    def pattern(self) -> Pattern:
        """Where its entries are."""

    @property
    def weight(self) -> Tensor:
        """The entries, row after row, [E]; or of every member, [members, E]."""

    @property
    def transposed_weight(self) -> Tensor:
        """The entries, column after column, [E]."""


def run(program: Program, matrix: Matrix, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
    """Runs a program.

    Args:
        program: What to do.
        matrix: A, square.
        inputs: Matrices [N, d], or of several members [members, N, d].
        coef: One number a channel in every row, [rows, d]; of every member if there are several.
    """
    kernels = kernels_for(coef)
    if hasattr(kernels, "run") and not program.for_some and kernels.runs(matrix, coef):
        ran: Ran = kernels.run(program, matrix, inputs, coef)
        return ran
    return pass_by_pass(program, matrix, inputs, coef)


@lru_cache(maxsize=64)
def _ones(d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones(1, d, dtype=dtype, device=device)


class Passes(Protocol):
    """The passes in which a matrix occurs: how they are done is its own affair.

    Each is for the first ``members`` of several, and for all if that is 0.
    """

    def gather(
        self, x: Tensor, coef: Tensor, bases: Sequence[Tensor], degree: int, members: int
    ) -> Tensor:
        """See `gread.kernels.reference.gather`."""

    def back(self, x: Tensor, ones: Tensor, members: int) -> Tensor:
        """Aᵀ x; the coefficient is one."""

    def pull(
        self,
        x: Tensor,
        y: Tensor,
        coef: Tensor,
        bases: Sequence[Tensor],
        degree: int,
        members: int,
    ) -> tuple[Tensor, Tensor]:
        """With Aᵀ, see `gread.kernels.reference.pull`."""

    def edge_dots(
        self, weight: Tensor | None, pairs: Sequence[Pair], members: int, count: int
    ) -> Tensor:
        """The gradient of A and what pairs add to it, for the first members of ``count``."""


class MatrixPasses(NamedTuple):
    """The passes with a matrix that is all here."""

    matrix: Matrix
    kernels: Any

    def gather(
        self, x: Tensor, coef: Tensor, bases: Sequence[Tensor], degree: int, members: int
    ) -> Tensor:
        """As in `Passes`."""
        entries = _of(self.matrix.weight, members)
        out: Tensor = self.kernels.gather(self.matrix.pattern.rows, entries, x, coef, bases, degree)
        return out

    def back(self, x: Tensor, ones: Tensor, members: int) -> Tensor:
        """As in `Passes`."""
        entries = _of(self.matrix.transposed_weight, members)
        out: Tensor = self.kernels.gather(self.matrix.pattern.columns, entries, x, ones, (), 0)
        return out

    def pull(
        self,
        x: Tensor,
        y: Tensor,
        coef: Tensor,
        bases: Sequence[Tensor],
        degree: int,
        members: int,
    ) -> tuple[Tensor, Tensor]:
        """As in `Passes`."""
        entries = _of(self.matrix.transposed_weight, members)
        columns = self.matrix.pattern.columns
        out: tuple[Tensor, Tensor] = self.kernels.pull(columns, entries, x, y, coef, bases, degree)
        return out

    def edge_dots(
        self, weight: Tensor | None, pairs: Sequence[Pair], members: int, count: int
    ) -> Tensor:
        """As in `Passes`."""
        return _grown(weight, members, self.kernels, self.matrix.pattern, pairs, count)


def pass_by_pass(program: Program, matrix: Matrix, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
    """Runs a program by the kernels for single passes."""
    return run_with(MatrixPasses(matrix, kernels_for(coef)), program, inputs, coef)


def run_with(passes: Passes, program: Program, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
    """Runs a program, pass by pass."""
    kernels = kernels_for(coef)
    slots: list[Tensor] = [coef] * program.slots
    outputs: list[Tensor] = [coef] * program.outputs
    sums: list[Tensor] = []
    dots: list[Tensor] = []
    ones = _ones(coef.size(-1), coef.dtype, coef.device)
    weight: Tensor | None = None
    pairs: list[Pair] = []  # of `edge_dots`, which takes two at a time
    for p, following in zip(program.passes, (*program.passes[1:], None), strict=True):
        if p.kind == "load":
            slots[p.out] = _first(inputs[p.x], p.members).contiguous()
            continue
        x, y, *bases = (_first(slots[k], p.members) for k in (p.x, p.y, *p.bases))
        rows = _first(coef, p.members)[..., p.coef : p.coef + 1 + p.degree + len(bases), :]
        if p.kind == "store":
            outputs[p.out] = x
        elif p.kind == "product":
            slots[p.out] = passes.gather(x, ones, (), 0, p.members)
        elif p.kind == "back":
            slots[p.out] = passes.back(x, ones, p.members)
        elif p.kind == "gather":
            slots[p.out] = passes.gather(x, rows, bases, p.degree, p.members)
        elif p.kind == "pull":
            slots[p.out], parts = passes.pull(x, y, rows, bases, p.degree, p.members)
            sums.append(_few(parts))
        elif p.kind == "add":
            part = rows[..., :1, :] * x
            if p.y >= 0:
                _first(part, len(y) if p.members else 0).add_(y)
            slots[p.out] = part
        elif p.kind == "dot":
            dots.append(_few(kernels.dot(x, y)))
        elif p.kind == "join":
            slots[p.out] = torch.cat([x, inputs[p.coef][len(x) : p.members]])
        elif p.kind == "leave":
            if outputs[p.out] is coef:
                outputs[p.out] = torch.empty_like(inputs[0])
            outputs[p.out][p.coef : len(x)] = x[p.coef :]
        else:
            pairs.append(Pair(bases, y, rows[..., : len(bases), :]))
            if len(pairs) == 2 or following is None or following.kind != "edge_dots":
                weight = passes.edge_dots(weight, pairs, p.members, len(coef))
                pairs = []
    return Ran(outputs, torch.cat([_added(sums, coef), _added(dots, coef)], -2), weight)


def _first(states: Tensor, members: int) -> Tensor:
    """Of the first members; of all for 0."""
    return states[:members] if members else states


def _of(entries: Tensor, members: int) -> Tensor:
    """Entries of a matrix for the first members, which may share them."""
    return entries if entries.dim() == 1 else _first(entries, members)


def _grown(
    weight: Tensor | None,
    members: int,
    kernels: Any,
    pattern: Pattern,
    pairs: Sequence[Pair],
    count: int,
) -> Tensor:
    """The gradient of the matrix and what pairs add to it, for the first members of ``count``."""
    if not members:
        found: Tensor = kernels.edge_dots(pattern.rows, pairs, weight)
        return found
    if weight is None:
        weight = pairs[0].right.new_zeros(count, pattern.rows.column.numel())
    part = weight[:members]
    found = kernels.edge_dots(pattern.rows, pairs, part)
    if found.data_ptr() != part.data_ptr():  # it was not added in place
        part.copy_(found)
    return weight


def _added(sums: list[Tensor], like: Tensor) -> Tensor:
    """Sums over parts of the nodes [parts, k, d] to sums over all of them, [all k, d].

    Of some of the members there may be fewer sums: then the others are zero.
    """
    found = [like[..., :0, :]]
    for _, alike in itertools.groupby(sums, lambda part: part.shape[:-2]):
        total = torch.cat(list(alike), -2).sum(0)
        missing = len(like) - len(total) if like.dim() == 3 else 0
        found.append(pad(total, (0, 0, 0, 0, 0, missing)) if missing else total)
    return found[-1] if len(found) == 2 else torch.cat(found, -2)


def _few(parts: Tensor) -> Tensor:
    """The same parts, which wait to be added up with others; or their sum, if they are many."""
    return parts if parts.numel() <= MANY else parts.sum(0, keepdim=True)
