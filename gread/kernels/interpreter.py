"""Execution of programs pass by pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from gread.kernels.backend import Backend, backend_for
from gread.kernels.program import Matrix, Program, Ran
from gread.kernels.reference import Pair, Terms

MANY = 2**20
"""Number of values above which partial sums are reduced immediately, to save memory."""


def run(program: Program, matrix: Matrix, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
    """Run a program, as a whole if the backend supports it.

    Args:
        program: The passes.
        matrix: A, square.
        inputs: Matrices [N, d], or of several members [members, N, d].
        coef: Coefficients [rows, d], one per channel; [members, rows, d] for several members.
    """
    backend = backend_for(coef)
    ran = None if program.for_some else backend.run(program, matrix, inputs, coef)
    return ran or interpret(program, MatrixPasses(matrix, backend), inputs, coef)


class Passes(Protocol):
    """Passes with a matrix that is local or distributed.

    Each applies to the first ``members`` members; 0 means all.
    """

    def gather(self, x: Tensor, terms: Terms | None, members: int) -> Tensor:
        """See `gread.kernels.reference.gather`."""

    def back(self, x: Tensor, members: int) -> Tensor:
        """Compute Aᵀ x."""

    def pull(self, x: Tensor, y: Tensor, terms: Terms, members: int) -> tuple[Tensor, Tensor]:
        """Compute `gread.kernels.reference.pull` with Aᵀ."""

    def edge_dots(
        self, weight: Tensor | None, pairs: Sequence[Pair], members: int, count: int
    ) -> Tensor:
        """Add the pairs to the gradient of A, for the first ``members`` of ``count`` members."""


class MatrixPasses(NamedTuple):
    """Passes with a local matrix."""

    matrix: Matrix
    backend: Backend

    def gather(self, x: Tensor, terms: Terms | None, members: int) -> Tensor:
        """As in `Passes`."""
        entries = _of(self.matrix.weight, members)
        return self.backend.gather(self.matrix.pattern.rows, entries, x, terms)

    def back(self, x: Tensor, members: int) -> Tensor:
        """As in `Passes`."""
        entries = _of(self.matrix.transposed_weight, members)
        return self.backend.gather(self.matrix.pattern.columns, entries, x)

    def pull(self, x: Tensor, y: Tensor, terms: Terms, members: int) -> tuple[Tensor, Tensor]:
        """As in `Passes`."""
        entries = _of(self.matrix.transposed_weight, members)
        return self.backend.pull(self.matrix.pattern.columns, entries, x, y, terms)

    def edge_dots(
        self, weight: Tensor | None, pairs: Sequence[Pair], members: int, count: int
    ) -> Tensor:
        """As in `Passes`."""
        rows = self.matrix.pattern.rows
        if not members:
            return self.backend.edge_dots(rows, pairs, weight)
        if weight is None:
            weight = pairs[0].right.new_zeros(count, rows.column.numel())
        part = weight[:members]
        found = self.backend.edge_dots(rows, pairs, part)
        if found.data_ptr() != part.data_ptr():  # the result is not in place
            part.copy_(found)
        return weight


def interpret(program: Program, passes: Passes, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
    """Run a program pass by pass."""
    dot = backend_for(coef).dot
    slots: list[Tensor] = [coef] * program.slots
    outputs: list[Tensor] = [coef] * program.outputs
    sums: list[Tensor] = []
    dots: list[Tensor] = []
    weight: Tensor | None = None
    pairs: list[Pair] = []  # arguments of `edge_dots`, which processes two at a time
    for p, following in zip(program.passes, (*program.passes[1:], None), strict=True):
        if p.kind == "load":
            slots[p.out] = _first(inputs[p.x], p.members).contiguous()
            continue
        x, y, *bases = (_first(slots[k], p.members) for k in (p.x, p.y, *p.bases))
        rows = _first(coef, p.members)[..., p.coef : p.coef + 1 + p.degree + len(bases), :]
        terms = Terms(rows, bases, p.degree, p.base_dot)
        if p.kind == "store":
            outputs[p.out] = x
        elif p.kind == "product":
            slots[p.out] = passes.gather(x, None, p.members)
        elif p.kind == "back":
            slots[p.out] = passes.back(x, p.members)
        elif p.kind == "gather":
            slots[p.out] = passes.gather(x, terms, p.members)
        elif p.kind == "pull":
            slots[p.out], parts = passes.pull(x, y, terms, p.members)
            sums.append(_few(parts))
        elif p.kind == "add":
            part = rows[..., :1, :] * x
            if p.y >= 0:
                _first(part, len(y) if p.members else 0).add_(y)
            slots[p.out] = part
        elif p.kind == "dot":
            dots.append(_few(dot(x, y)))
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
    """Values of the first members; 0 means all."""
    return states[:members] if members else states


def _of(entries: Tensor, members: int) -> Tensor:
    """Entries of a matrix for the first members; they may be shared."""
    return entries if entries.dim() == 1 else _first(entries, members)


def _added(sums: list[Tensor], like: Tensor) -> Tensor:
    """Reduce partial sums [parts, k, d] to sums over all nodes, [all k, d].

    Sums that exist only for some of the members are zero for the others.
    """
    found = [like[..., :0, :]]
    for _, alike in itertools.groupby(sums, lambda part: part.shape[:-2]):
        total = torch.cat(list(alike), -2).sum(0)
        missing = len(like) - len(total) if like.dim() == 3 else 0
        found.append(pad(total, (0, 0, 0, 0, 0, missing)) if missing else total)
    return found[-1] if len(found) == 2 else torch.cat(found, -2)


def _few(parts: Tensor) -> Tensor:
    """Partial sums, reduced to their total if there are many."""
    return parts if parts.numel() <= MANY else parts.sum(0, keepdim=True)
