"""The kernels in plain PyTorch: slow, short, and what the others are tested against.

A kernel works on the rows of a sparse matrix A with entries ``weight``, on dense matrices of d
channels, and adds in a fixed order or in none that matters. It knows nothing of gradients: those
are in `gread.kernels.operators`, put together from the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """Where the entries of a sparse matrix are, row after row."""

    start: Tensor
    """Row i has the entries ``start[i]`` to ``start[i + 1] - 1``; int64 [N + 1]."""
    column: Tensor
    """Column of every entry, int32 [E]."""

    def numbers(self) -> Tensor:
        """Row of every entry, int64 [E]."""
        counts = self.start.diff()
        index = torch.arange(counts.numel(), device=counts.device)
        return index.repeat_interleave(counts, output_size=self.column.numel())


def gather(
    rows: Rows,
    weight: Tensor,
    y: Tensor,
    coef: Tensor,
    bases: Sequence[Tensor] = (),
    degree: int = 1,
) -> Tensor:
    """out = c₀ (A y) + c₁ y + ... + c_degree y^degree + Σ_m c_{degree+m} bases[m].

    Products and powers are by element; every c is a row of ``coef`` [1 + degree + bases, d], one
    number a channel. With degree 0, A may have another number of rows than y.

    Args:
        rows: The matrix A.
        weight: Its entries, [E].
        y: [M, d], where M is the number of columns of A.
        coef: The coefficients.
        bases: Up to four further matrices [N, d].
        degree: 0 to 3.
    """
    own, others = coef[1 : 1 + degree], coef[1 + degree :]
    out = coef[0] * _product(rows, weight, y)
    for power, c in enumerate(own, start=1):
        out = out + c * y**power
    for c, base in zip(others, bases, strict=True):
        out = out + c * base
    return out


def pull(
    rows: Rows,
    weight: Tensor,
    g: Tensor,
    y: Tensor,
    coef: Tensor,
    bases: Sequence[Tensor] = (),
    degree: int = 1,
) -> tuple[Tensor, Tensor]:
    """out = c₀ (A g) + c₁ g + c₂ y g + ... + c_degree y^(degree-1) g + Σ_m c_{degree+m} bases[m].

    The way back through `gather`, with the sums that the gradients of its coefficients need.

    Args:
        rows: The matrix A.
        weight: Its entries, [E].
        g: [N, d].
        y: [N, d].
        coef: One row of d numbers for each term, [1 + degree + bases, d].
        bases: Up to five further matrices [N, d].
        degree: 1 to 3.

    Returns:
        out [N, d], and sums over the nodes: Σ (A g) y, then Σ y^p g for p from 1; over parts of the
        nodes, which are to be added up, [parts, 1 + degree, d].
    """
    product = _product(rows, weight, g)
    own, others = coef[1 : 1 + degree], coef[1 + degree :]
    out = coef[0] * product
    sums = [(product * y).sum(0)]
    for power, c in enumerate(own):
        out = out + c * y**power * g
        sums.append((y ** (power + 1) * g).sum(0))
    for c, base in zip(others, bases, strict=True):
        out = out + c * base
    return out, torch.stack(sums).unsqueeze(0)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Σ x y over the nodes, in parts that are to be added up, [parts, 1, d]."""
    return (x * y).sum(0).view(1, 1, -1)


class Pair(NamedTuple):
    """Two matrices [N, d] of which `edge_dots` multiplies rows: Σ c_m left[m], and right."""

    left: Sequence[Tensor]
    """One or two."""
    right: Tensor
    coef: Tensor | None = None
    """[left, d]; without it, left is one matrix by itself."""

    def combined(self) -> Tensor:
        """Σ c_m left[m]."""
        if self.coef is None:
            return self.left[0]
        out = self.coef[0] * self.left[0]
        for c, matrix in zip(self.coef[1:], self.left[1:], strict=True):
            out = torch.addcmul(out, c, matrix)
        return out


def edge_dots(rows: Rows, pairs: Sequence[Pair], out: Tensor | None = None) -> Tensor:
    """out[e], if given, + Σ over the one or two pairs of left[i] · right[j], for e at (i, j)."""
    row, column = rows.numbers(), rows.column
    for pair in pairs:
        left = pair.combined().index_select(0, row)
        dots = (left * pair.right.index_select(0, column)).sum(-1)
        out = dots if out is None else out + dots
    assert out is not None
    return out


def attend(rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None = None) -> Tensor:
    """Attention of every head: weight[e] exp(q[i] · k[j] / √d_k), every row divided by its sum.

    Args:
        rows: Who may attend to whom.
        q: Queries [N, heads, d_k].
        k: Keys [N, heads, d_k].
        weight: Of every entry, not negative, [E]; by default all are 1.

    Returns:
        [E, heads]; zero in a row whose weights are all zero.
    """
    row, heads = rows.numbers(), q.size(1)
    scores = (q.index_select(0, row) * k.index_select(0, rows.column)).sum(-1)
    scores = scores / math.sqrt(q.size(-1))
    index = row.unsqueeze(-1).expand(-1, heads)
    highest = scores.new_full((q.size(0), heads), -torch.inf)
    highest = highest.scatter_reduce(0, index, scores, "amax")
    out = (scores - highest.index_select(0, row)).exp()
    out = out if weight is None else out * weight.unsqueeze(-1)
    total = out.new_zeros(q.size(0), heads).index_add(0, row, out)
    return out / total.masked_fill(total == 0, 1).index_select(0, row)


def attend_back(rows: Rows, attention: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the scores, attention ⊙ (grad − its mean over the row under attention).

    Args:
        rows: Who attends to whom.
        attention: What `attend` gave, [E, heads].
        grad: Its gradient: [E, heads], or [E] where it is the same for every head.
    """
    row = rows.numbers()
    grad = grad if grad.dim() == 2 else grad.unsqueeze(-1)
    part = attention * grad
    mean = part.new_zeros(rows.start.numel() - 1, part.size(1)).index_add(0, row, part)
    return part - attention * mean.index_select(0, row)


def gather_heads(rows: Rows, weight: Tensor, y: Tensor) -> Tensor:
    """out[i, head] = Σ over the entries e of row i of weight[e, head] · y[j, head].

    Args:
        rows: The matrix.
        weight: Its entries, one for each head, [E, heads].
        y: [M, heads, d_k].
    """
    messages = weight.unsqueeze(-1) * y.index_select(0, rows.column)
    out = y.new_zeros(rows.start.numel() - 1, *y.shape[1:])
    return out.index_add(0, rows.numbers(), messages)


def dropout(x: Tensor, seed: Tensor, rate: float) -> Tensor:
    """x with every element set to zero with probability ``rate``, the others divided by 1 − rate.

    Element number n stays where a hash of n and the seed says so: no state, the same on every
    device, and the way back needs no mask.

    Args:
        x: Any shape, fewer than 2³² elements count.
        seed: One int64 number on the device of x, 0 ≤ seed < 2³¹.
        rate: In [0, 1).
    """
    return x * (hashed(seed, x.numel()).view(x.shape) >= threshold(rate)) / (1 - rate)


def threshold(rate: float) -> int:
    """The 32-bit number below which a hash means: drop."""
    return math.floor(rate * 2**32)


def hashed(seed: Tensor, count: int) -> Tensor:
    """A hash of 32 bits for the numbers 0 to count − 1, as int64.

    x = n · 0x9E3779B9 + seed · 0x85EBCA6B, then twice xor-shift and multiply, then xor-shift; all
    modulo 2³².
    """
    low = 0xFFFFFFFF
    n = torch.arange(count, device=seed.device)
    x = (n * 0x9E3779B9 + seed * 0x85EBCA6B) & low
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & low
    x = ((x ^ (x >> 15)) * 0x846CA68B) & low
    return x ^ (x >> 16)


def _product(rows: Rows, weight: Tensor, y: Tensor) -> Tensor:
    """A y, [N, d]."""
    messages = weight.unsqueeze(-1) * y.index_select(0, rows.column)
    out = y.new_zeros(rows.start.numel() - 1, y.size(1))
    return out.index_add(0, rows.numbers(), messages)
