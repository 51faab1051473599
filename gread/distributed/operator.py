"""The rows of Ã of a shard as an operator.

    Ã H = Ã_own H_own + Ã_halo H_halo

The first product needs no other process and is computed while the halo rows are in transit. The
second covers the few rows at the border. In the backward pass, Ã_haloᵀ g is computed first and sent
to the owners while Ã_ownᵀ g is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gread.distributed.exchange import Border, Pending
from gread.graph.operator import Edges
from gread.kernels.backend import Backend, backend_for
from gread.kernels.interpreter import interpret
from gread.kernels.pattern import Pattern, Rows
from gread.kernels.program import Program, Ran
from gread.kernels.reference import Pair, Terms


class Halves(NamedTuple):
    """A pattern [own, own + halo], split into own and halo columns.

    Attributes:
        own: Entries between own nodes, [own, own].
        far, rows: Entries from the halo, with one row per node at the border; indices of these
            nodes.
        order: Positions of the entries of ``own``, then of ``far``, in the whole pattern, [E].
    """

    own: Pattern
    far: Pattern
    rows: Tensor
    order: Tensor

    @staticmethod
    def of(pattern: Pattern, own: int) -> Halves:
        """Split a pattern whose first ``own`` columns are own nodes."""
        row, column = pattern.rows.numbers(), pattern.rows.column
        is_far = column >= own
        near, far = (~is_far).nonzero().squeeze(1), is_far.nonzero().squeeze(1)
        rows, places = row[far].unique_consecutive(return_inverse=True)
        start = pattern.rows.start
        far_before = torch.cat([start.new_zeros(1), is_far.cumsum(0)])[start]
        inside = Pattern(Rows(start - far_before, column[near]), own)
        shape = len(rows), pattern.num_columns - own
        outside, _ = Pattern.from_entries(places, column[far].long() - own, shape)
        return Halves(inside, outside, rows, torch.cat([near, far]))


@dataclass(frozen=True, eq=False)
class ShardEdges(Edges):
    """Edges of a `gread.distributed.Shard`, with its nodes, its border and its halves."""

    nodes: Tensor = field(kw_only=True)
    border: Border = field(kw_only=True)
    halves: Halves = field(kw_only=True)

    def reach(self, x: Tensor) -> Tensor:
        """See `Border.reach`."""
        return self.border.reach(x)

    def collect(self, sums: Tensor) -> Tensor:
        """See `Border.collect`."""
        return self.border.collect(sums)

    def operator(self, weight: Tensor, *, find_symmetry: bool = False) -> ShardOperator:
        """Ã with these entries; all processes determine together whether it is symmetric.

        No process has the whole matrix. The sum of hashes of (i, j, Ã_ij) over all entries equals
        that of (j, i, Ã_ij) if Ã is symmetric, and otherwise only with negligible probability.
        """
        same = False
        if find_symmetry:
            rows, bits = self.pattern.rows, weight.double().view(torch.int64)
            i, j = self.nodes[rows.numbers()], self.nodes[rows.column]
            difference = _hash(_hash(bits + i) + j).sum() - _hash(_hash(bits + j) + i).sum()
            same = self.border.total(difference).item() == 0
        entries = weight.index_select(0, self.halves.order)
        return ShardOperator(self.halves, entries, self.border, same)


def _hash(x: Tensor) -> Tensor:
    """Mix the bits of int64 numbers: xor-shift and multiply, modulo 2⁶⁴."""
    x = (x ^ (x >> 30)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31)


@dataclass(frozen=True, eq=False)
class ShardOperator:
    """Rows of Ã of a shard, an `Operator` whose methods all processes call in the same order.

    Attributes:
        weight: Entries between own nodes, then those from the halo, [E].
        symmetric: Whether the whole Ã is symmetric.
    """

    halves: Halves
    weight: Tensor
    border: Border
    symmetric: bool = False

    lowest = -1.0
    """Lower bound of the eigenvalues of a symmetric Ã."""
    whole = False
    """Other processes have nodes of the graph."""

    @property
    def num_nodes(self) -> int:
        """Number of own nodes."""
        return self.border.own

    def __matmul__(self, h: Tensor) -> Tensor:
        """Own rows of Ã H from those of H, [own, d]."""
        return _Product.apply(self, self.weight, h)

    def laplacian(self, h: Tensor) -> Tensor:
        """L̃ H = H − Ã H."""
        return h - self @ h

    def total(self, sums: Tensor) -> Tensor:
        """Sums over the nodes of all processes."""
        return self.border.total(sums)

    def run(self, program: Program, inputs: Sequence[Tensor], coef: Tensor) -> Ran:
        """Run a program of passes, each with its exchange; sums are over own nodes."""
        return interpret(program, ShardPasses(self, backend_for(coef)), inputs, coef)

    @cached_property
    def parts(self) -> tuple[Tensor, Tensor]:
        """Entries between own nodes, and entries from the halo."""
        own = self.halves.own.rows.column.numel()
        return self.weight[:own], self.weight[own:]

    @cached_property
    def transposed_parts(self) -> tuple[Tensor, Tensor]:
        """Entries of `parts` in column order."""
        own, far = self.parts
        return own[self.halves.own.order], far[self.halves.far.order]


class ShardPasses(NamedTuple):
    """`gread.kernels.interpreter.Passes` of a shard, without members."""

    adj: ShardOperator
    backend: Backend

    def gather(self, x: Tensor, terms: Terms | None, members: int = 0) -> Tensor:
        """See `gread.kernels.reference.gather`."""
        arriving = self.adj.border.fetch(x)
        out = self.backend.gather(self.adj.halves.own.rows, self.adj.parts[0], x, terms)
        far = self.from_afar(arriving.wait())
        if terms is not None:
            far = terms.coef[0] * far
        return out.index_add_(0, self.adj.halves.rows, far)

    def from_afar(self, halo: Tensor) -> Tensor:
        """Ã_halo H_halo, one row per node at the border."""
        return self.product(self.adj.halves.far.rows, self.adj.parts[1], halo)

    def product(self, rows: Rows, entries: Tensor, x: Tensor) -> Tensor:
        """Compute A x."""
        if not entries.numel():
            return x.new_zeros(rows.start.numel() - 1, x.size(1))
        return self.backend.gather(rows, entries, x)

    def back(self, x: Tensor, members: int = 0) -> Tensor:
        """Compute own rows of Ãᵀ x."""
        if self.adj.symmetric:
            return self.gather(x, None)
        home = self.leaving(x)
        out = self.product(self.adj.halves.own.columns, self.adj.transposed_parts[0], x)
        return out.index_add_(0, self.adj.border.send, home.wait())

    def leaving(self, x: Tensor) -> Pending:
        """Start sending Ã_haloᵀ x to the owners."""
        halves = self.adj.halves
        at_border = x.index_select(0, halves.rows)
        far = self.product(halves.far.columns, self.adj.transposed_parts[1], at_border)
        return self.adj.border.return_rows(far)

    def pull(self, x: Tensor, y: Tensor, terms: Terms, members: int = 0) -> tuple[Tensor, Tensor]:
        """See `gread.kernels.reference.pull`; the first sum includes the halo."""
        adj, own = self.adj, self.adj.halves.own
        if adj.symmetric:
            rows, moving = adj.halves.rows, adj.border.fetch(x)
            out, sums = self.backend.pull(own.rows, adj.parts[0], x, y, terms)
            far = self.from_afar(moving.wait())
        else:
            rows, moving = adj.border.send, self.leaving(x)
            out, sums = self.backend.pull(own.columns, adj.transposed_parts[0], x, y, terms)
            far = moving.wait()
        sums[0, 0] += (far * y.index_select(0, rows)).sum(0)
        return out.index_add_(0, rows, terms.coef[0] * far), sums

    def edge_dots(
        self, weight: Tensor | None, pairs: Sequence[Pair], members: int = 0, count: int = 0
    ) -> Tensor:
        """Add the contribution of the pairs to the gradient of the entries, [E]."""
        adj, halves = self.adj, self.adj.halves
        if weight is None:
            weight = torch.zeros_like(adj.weight)
        own, far = weight.split([len(part) for part in adj.parts])
        arriving = [adj.border.fetch(pair.right) for pair in pairs]
        own.copy_(self.backend.edge_dots(halves.own.rows, pairs, own))
        for pair, moving in zip(pairs, arriving, strict=True):
            left = pair.combined().index_select(0, halves.rows)
            halo = moving.wait()
            if far.numel():
                far += self.backend.edge_dots(halves.far.rows, [Pair([left], halo)])
        return weight


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: ShardOperator, weight: Tensor, h: Tensor) -> Tensor:
        ctx.adj = adj
        # The backward pass needs h only for the gradient of the entries.
        ctx.save_for_backward(h if ctx.needs_input_grad[1] else None)
        return ShardPasses(adj, backend_for(h)).gather(h, None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        (h,) = ctx.saved_tensors
        passes, grad = ShardPasses(ctx.adj, backend_for(grad)), grad.contiguous()
        grad_weight = grad_h = None
        if ctx.needs_input_grad[1]:
            grad_weight = passes.edge_dots(None, [Pair([grad], h)])
        if ctx.needs_input_grad[2]:
            grad_h = passes.back(grad)
        return None, grad_weight, grad_h
