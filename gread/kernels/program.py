"""Programs: the passes of a flow over the states, forward or backward.

A pass computes one operation for all nodes. Channels are independent, except in the gradient of the
matrix. A CPU therefore processes some channels through the whole program while they are in its
cache (`gread.kernels.cpu.run`). Other devices run pass by pass (`gread.kernels.interpreter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gread.kernels.pattern import Pattern

KINDS = ("load", "store", "product", "back", "gather", "pull", "add", "dot", "edge_dots")
"""Kinds of passes that kernels for whole programs support; `join` and `leave` run pass by pass.

The C kernels are compiled with this list and with `FIELDS`.
"""


class Pass(NamedTuple):
    """One pass. States are slot numbers, ``coef`` is a row of the coefficients.

    load       out = input number x
    store      output number out = x
    product    out = A x
    back       out = Aᵀ x
    gather     out = c₀ A x + Σ_p c_p xᵖ + Σ c_b base, see `gread.kernels.reference.gather`
    pull       out = c₀ Aᵀ x + Σ_p c_p yᵖ⁻¹ x + Σ c_b base, and its sums;
               base_dot adds Σ bases[0] y to the sums
    add        out = y + c₀ x, or c₀ x without y or for members that y lacks
    dot        Σ x y over the nodes
    edge_dots  add (Σ c_b base)[i] · y[j] to the gradient of every entry (i, j) of A
    join       out = x, followed by input number coef of the members that x does not have
    leave      output number out = x, for the members from number coef on

    A pass applies to the first ``members`` members; 0 means all.
    """

    kind: str
    out: int = -1
    x: int = -1
    y: int = -1
    coef: int = 0
    degree: int = 0
    base_dot: bool = False
    bases: tuple[int, ...] = ()
    members: int = 0


FIELDS = Pass._fields[:7]
"""Fields in the encoding of a pass, followed by the number of its bases and the bases."""


@dataclass(frozen=True, eq=False)
class Program:
    """A list of passes and the number of slots that they need.

    Attributes:
        passes: The passes in order.
        slots: Number of states in memory at a time.
        outputs: Number of output matrices [N, d].
    """

    passes: tuple[Pass, ...]
    slots: int
    outputs: int

    @cached_property
    def pull_sums(self) -> int:
        """Number of sums over the nodes from `pull`, each with one value per channel."""
        return sum(1 + p.degree + p.base_dot for p in self.passes if p.kind == "pull")

    @cached_property
    def sums(self) -> int:
        """Number of sums over the nodes."""
        return self.pull_sums + sum(p.kind == "dot" for p in self.passes)

    @cached_property
    def for_some(self) -> bool:
        """Whether any pass skips members."""
        return any(p.members for p in self.passes)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Kinds of passes in the program."""
        return frozenset(p.kind for p in self.passes)

    @cached_property
    def code(self) -> Tensor:
        """The passes encoded as int64, for kernels that run whole programs."""
        numbers = [
            [KINDS.index(p.kind), *p[1 : len(FIELDS)], len(p.bases), *p.bases] for p in self.passes
        ]
        return torch.tensor([number for row in numbers for number in row])


class ProgramBuilder:
    """Builder of a program. States are numbered in order; `done` assigns a slot to each.

    Attributes:
        members: Number of leading members that the next passes apply to; 0 means all.

    Example:
        >>> w = ProgramBuilder()
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
        """Read an input."""
        return self._new(Pass("load", x=number))

    def store(self, x: int, number: int) -> None:
        """Write an output."""
        self._append(Pass("store", out=number, x=x))

    def product(self, x: int) -> int:
        """Add a pass `product`, A x. `Pass` defines this and the following operations."""
        return self._new(Pass("product", x=x))

    def back(self, x: int) -> int:
        """Add a pass `back`, Aᵀ x."""
        return self._new(Pass("back", x=x))

    def gather(self, x: int, *, coef: int, degree: int, bases: Sequence[int] = ()) -> int:
        """Add a pass `gather`."""
        return self._new(Pass("gather", x=x, coef=coef, degree=degree, bases=tuple(bases)))

    def pull(
        self,
        x: int,
        y: int,
        *,
        coef: int,
        degree: int = 1,
        bases: Sequence[int] = (),
        base_dot: bool = False,
    ) -> int:
        """Add a pass `pull`, with its sums; ``base_dot`` adds Σ bases[0] y to them."""
        return self._new(
            Pass("pull", x=x, y=y, coef=coef, degree=degree, base_dot=base_dot, bases=tuple(bases))
        )

    def add(self, y: int | None, x: int, *, coef: int) -> int:
        """Add a pass `add`, y + c₀ x."""
        return self._new(Pass("add", x=x, y=-1 if y is None else y, coef=coef))

    def dot(self, x: int, y: int) -> None:
        """Add a pass `dot`, the sum Σ x y."""
        self._append(Pass("dot", x=x, y=y))

    def edge_dots(self, bases: Sequence[int], y: int, *, coef: int) -> None:
        """Add a pass `edge_dots`, which adds to the gradient of A."""
        self._append(Pass("edge_dots", y=y, coef=coef, bases=tuple(bases)))

    def join(self, x: int, number: int) -> int:
        """Add a pass `join`: x, followed by an input of the members that x does not have."""
        return self._new(Pass("join", x=x, coef=number))

    def leave(self, x: int, number: int, first: int) -> None:
        """Write an output of the members from ``first`` on."""
        self._append(Pass("leave", out=number, x=x, coef=first))

    def _append(self, one: Pass) -> None:
        self.passes.append(one._replace(members=self.members))

    def _new(self, one: Pass) -> int:
        self._append(one._replace(out=self.states))
        self.states += 1
        return self.states - 1

    def done(self) -> Program:
        """Return the program. Each state has a slot, which is reused after its last use."""
        last = {state: at for at, p in enumerate(self.passes) for state in _reads(p)}
        slot: dict[int, int] = {}
        free: list[int] = []
        slots, placed = 0, []
        for at, p in enumerate(self.passes):
            ends = {state for state in _reads(p) if last[state] == at}
            # `out` may overwrite an argument row by row, but not x of a product, whose other rows
            # are still needed.
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
    """States that a pass reads."""
    return {*p.bases, p.y, -1 if p.kind == "load" else p.x} - {-1}


class Ran(NamedTuple):
    """Outputs of a program."""

    outputs: list[Tensor]
    """[N, d] each."""
    sums: Tensor
    """Sums of `pull` in order, then of `dot`, [sums, d]."""
    weight: Tensor | None
    """Gradient of the entries of the matrix, [E]; None without one."""


class Matrix(Protocol):
    """A sparse matrix A, such as `gread.Adjacency`."""

    @property
    def pattern(self) -> Pattern:
        """Positions of the entries."""

    @property
    def weight(self) -> Tensor:
        """Entries in row order, [E], or [members, E] for several members."""

    @property
    def transposed_weight(self) -> Tensor:
        """Entries in column order, [E]."""
