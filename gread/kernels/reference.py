"""Reference kernels in plain PyTorch: short and slow.

A kernel processes the rows of a sparse matrix A with entries ``weight`` and dense matrices of d
channels. Gradients are in `gread.kernels.operators`, composed of the same kernels.

Every kernel also supports several members. The matrices, other arguments that differ between
members, and the results then have a leading axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding_bag, linear, pad

from gread.kernels.pattern import Rows
from gread.kernels.program import Matrix, Program

P = ParamSpec("P")
T = TypeVar("T")


def one_by_one(*axes: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator that applies a kernel to several members and stacks the results.

    Args:
        axes: For each argument after ``rows``, its number of axes for one member. An argument with
            one more axis has a leading axis of members. 0 means that it has one if any other
            argument has. Elements of sequences count separately.
    """

    def decorate(kernel: Callable[P, T]) -> Callable[P, T]:
        @wraps(kernel)
        def of_members(*arguments: P.args, **options: P.kwargs) -> T:
            given = list(zip(arguments[1:], axes, strict=False))
            members = max(_members(value, own) for value, own in given)
            if members:
                return _stacked(partial(kernel, **options), arguments[0], given, members)
            return kernel(*arguments, **options)

        return of_members

    return decorate


def _stacked(
    kernel: Callable[..., Any], rows: Any, given: list[tuple[Any, int]], members: int
) -> Any:
    each = [
        kernel(rows, *(_of_member(value, axes, m) for value, axes in given)) for m in range(members)
    ]
    if isinstance(each[0], tuple):  # results of `pull`: its sums have a leading axis of parts
        outs, sums = zip(*each, strict=True)
        return torch.stack(outs), torch.stack(sums, 1)
    return torch.stack(each)


def _members(value: Any, axes: int) -> int:
    """Number of members; 0 for a value shared by all."""
    if isinstance(value, Tensor):
        return len(value) if value.dim() > axes > 0 else 0
    parts = value if isinstance(value, tuple | list) else ()
    return max((_members(one, axes) for one in parts), default=0)


def _of_member(value: Any, axes: int, member: int) -> Any:
    if isinstance(value, Tensor):
        return value[member] if value.dim() > axes else value
    if not isinstance(value, tuple | list):
        return value
    parts = [_of_member(one, axes, member) for one in value]
    return type(value)(*parts) if isinstance(value, Terms | Pair) else parts


class Terms(NamedTuple):
    """Coefficients and further matrices of `gather` and `pull`."""

    coef: Tensor
    """One row per term, [1 + degree + bases, d]."""
    bases: Sequence[Tensor] = ()
    """Up to four further matrices [N, d], five in `pull`."""
    degree: int = 1
    """Highest power of y: 0 to 3, in `pull` 1 to 3."""
    base_dot: bool = False
    """Whether `pull` also returns Σ bases[0] y; `gather` ignores it."""

    @property
    def sums(self) -> int:
        """Number of sums of `pull`."""
        return 1 + self.degree + self.base_dot


@one_by_one(1, 2, 2)
def gather(rows: Rows, weight: Tensor, y: Tensor, terms: Terms | None = None) -> Tensor:
    """out = A y, or c₀ (A y) + c₁ y + ... + c_degree y^degree + Σ_m c_{degree+m} bases[m].

    Products and powers are elementwise; every c is a row of ``terms.coef``, one number per channel.
    Without terms or with degree 0, A and y may have different numbers of rows.

    Args:
        rows: The matrix A.
        weight: Its entries, [E].
        y: [M, d], where M is the number of columns of A.
        terms: Coefficients, powers and further matrices.
    """
    if terms is None:
        return _product(rows, weight, y)
    own, others = _split(terms)
    out = terms.coef[0] * _product(rows, weight, y)
    for power, c in enumerate(own, start=1):
        out = out + c * y**power
    for c, base in zip(others, terms.bases, strict=True):
        out = out + c * base
    return out


@one_by_one(1, 2, 2, 2)
def pull(rows: Rows, weight: Tensor, g: Tensor, y: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
    """out = c₀ (A g) + c₁ g + c₂ y g + ... + c_degree y^(degree-1) g + Σ_m c_{degree+m} bases[m].

    Backward pass of `gather`, with the sums for the gradients of its coefficients.

    Returns:
        out [N, d], and partial sums over the nodes [parts, ``terms.sums``, d]: Σ (A g) y, then
        Σ y^p g for p = 1, 2, ..., and with ``terms.base_dot`` Σ bases[0] y.
    """
    product = _product(rows, weight, g)
    own, others = _split(terms)
    out = terms.coef[0] * product
    sums = [(product * y).sum(0)]
    for power, c in enumerate(own):
        out = out + c * y**power * g
        sums.append((y ** (power + 1) * g).sum(0))
    for c, base in zip(others, terms.bases, strict=True):
        out = out + c * base
    if terms.base_dot:
        sums.append((terms.bases[0] * y).sum(0))
    return out, torch.stack(sums).unsqueeze(0)


def _split(terms: Terms) -> tuple[Tensor, Tensor]:
    """Coefficients of the powers and those of the bases."""
    return terms.coef[1 : 1 + terms.degree], terms.coef[1 + terms.degree :]


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Σ x y over the nodes as partial sums, [parts, 1, d]."""
    return (x * y).sum(-2, keepdim=True).unsqueeze(0)


class Pair(NamedTuple):
    """Two matrices [N, d] whose rows `edge_dots` multiplies: Σ c_m left[m], and right."""

    left: Sequence[Tensor]
    """One or two matrices."""
    right: Tensor
    coef: Tensor | None = None
    """[left, d]; without it, left is a single matrix."""

    def combined(self) -> Tensor:
        """Σ c_m left[m]."""
        if self.coef is None:
            return self.left[0]
        factors = self.coef.unsqueeze(-2).unbind(-3)
        out = factors[0] * self.left[0]
        for c, matrix in zip(factors[1:], self.left[1:], strict=True):
            out = torch.addcmul(out, c, matrix)
        return out


@one_by_one(2, 1)
def edge_dots(rows: Rows, pairs: Sequence[Pair], out: Tensor | None = None) -> Tensor:
    """out[e], if given, + Σ over the one or two pairs of left[i] · right[j], for e at (i, j)."""
    row, column = rows.numbers(), rows.column
    for pair in pairs:
        left = pair.combined().index_select(0, row)
        dots = (left * pair.right.index_select(0, column)).sum(-1)
        out = dots if out is None else out + dots
    assert out is not None
    return out


@one_by_one(3, 3)
def head_dots(rows: Rows, q: Tensor, k: Tensor) -> Tensor:
    """q[i] · k[j] for every head, [E, heads], with q [N, heads, d_k] and k [M, heads, d_k]."""
    return (q.index_select(0, rows.numbers()) * k.index_select(0, rows.column)).sum(-1)


def shares(rows: Rows, scores: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """weight[e] exp(scores[e]) of every head, normalized over each row; and the mean over heads.

    Args:
        rows: Positions of the entries.
        scores: [E, heads].
        weight: Non-negative weight of every entry, [E]; by default 1.

    Returns:
        [E, heads], zero in a row whose weights are all zero; and its mean over the heads, [E].
    """
    found = _shares(rows, scores, weight)
    return found, found.mean(-1)


@one_by_one(2, 1)
def _shares(rows: Rows, scores: Tensor, weight: Tensor | None) -> Tensor:
    row, size = rows.numbers(), (rows.start.numel() - 1, scores.size(1))
    # Entries of zero weight are excluded from the maximum: a large one would make all others
    # underflow.
    counts = scores if weight is None else scores.masked_fill(weight.unsqueeze(-1) == 0, -torch.inf)
    highest = scores.new_full(size, torch.finfo(scores.dtype).min)
    highest = highest.scatter_reduce(0, row.unsqueeze(-1).expand_as(counts), counts, "amax")
    out = (scores - highest.index_select(0, row)).clamp(max=0).exp()
    out = out if weight is None else out * weight.unsqueeze(-1)
    total = out.new_zeros(size).index_add(0, row, out)
    return out / total.masked_fill(total == 0, 1).index_select(0, row)


def attend(rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention: weight[e] exp(q[i] · k[j] / √d_k), normalized over each row; and the mean.

    Queries and keys are [N, heads, d_k]; weights and results are as in `shares`.
    """
    return shares(rows, head_dots(rows, q, k) / math.sqrt(q.size(-1)), weight)


@one_by_one(2, 0)
def attend_back(rows: Rows, attention: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the scores: attention ⊙ (grad − its attention-weighted mean over the row).

    Args:
        rows: Positions (i, j) where i attends to j.
        attention: Result of `attend` or `shares`, [E, heads].
        grad: Its gradient: [E, heads], or [E] if all heads share it.
    """
    row = rows.numbers()
    grad = grad if grad.dim() == 2 else grad.unsqueeze(-1)
    part = attention * grad
    mean = part.new_zeros(rows.start.numel() - 1, part.size(1)).index_add(0, row, part)
    return part - attention * mean.index_select(0, row)


@one_by_one(2, 3, 1)
def gather_heads(rows: Rows, weight: Tensor, y: Tensor, order: Tensor | None = None) -> Tensor:
    """out[i, head] = Σ over the entries e of row i of weight[e, head] · y[j, head].

    Args:
        rows: Positions of the entries.
        weight: [E, heads].
        y: [M, heads, d_k].
        order: Index in ``weight`` of every entry, [E]; by default they have the same order.
    """
    weight = weight if order is None else weight[order]
    messages = weight.unsqueeze(-1) * y.index_select(0, rows.column)
    out = y.new_zeros(rows.start.numel() - 1, *y.shape[1:])
    return out.index_add(0, rows.numbers(), messages)


def dropout(x: Tensor, seed: Tensor, rate: float | Tensor) -> Tensor:
    """x with every element set to zero with probability ``rate``, the others divided by 1 − rate.

    A hash of the element index n and the seed decides. It needs no state, is the same on every
    device, and the backward pass needs no mask.

    Args:
        x: Any shape with fewer than 2³² elements.
        seed: One int64 number on the device of x, 0 ≤ seed < 2³¹.
        rate: Probability in [0, 1). A float64 tensor [members] has one rate per member, along the
            first axis of x; the seed then has the same shape.
    """
    if not isinstance(rate, Tensor):
        return x * (hashed(seed, x.numel()).view(x.shape) >= threshold(rate)) / (1 - rate)
    flat = x.reshape(len(x), -1)
    bits = hashed(seed.unsqueeze(-1), flat.size(1))
    keep = (1 - rate).to(x.dtype).unsqueeze(-1)
    return (flat * (bits >= (rate * 2**32).long().unsqueeze(-1)) / keep).view(x.shape)


def draw(numbers: Tensor, place: Tensor, rate: Tensor) -> Tensor:
    """Next number of each member, [members]; members whose rate is zero keep their place.

    Args:
        numbers: [members, count].
        place: Index of the next number, [members]; updated in place.
        rate: [members].
    """
    found = numbers.gather(1, place.unsqueeze(1)).squeeze(1)
    place += rate > 0
    return found


class Batch(NamedTuple):
    """Batch normalization over the nodes, with values for each channel, [d]."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    momentum: float
    eps: float
    training: bool
    """Whether to normalize by the statistics of the state and update the running statistics."""


def mix(terms: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """Σ_i Z_i C_i + b, with the matrices C_i stacked vertically.

    Args:
        terms: Z_i, [N, in_i].
        weight: C, [Σ in_i, out].
        bias: b, [out].
    """
    joined = terms[0] if len(terms) == 1 else torch.cat(list(terms), -1)
    return (torch.addmm if joined.dim() == 2 else torch.baddbmm)(bias.unsqueeze(-2), joined, weight)


def mix_back(
    grad: Tensor, terms: Sequence[Tensor], weight: Tensor
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Gradients of the terms, of C and of b, from that of `mix`, [N, out]."""
    parts = weight.split([z.size(-1) for z in terms], -2)
    outer = torch.cat([outer_sum(z, grad) for z in terms], -2)
    return [grad @ part.mT for part in parts], outer, grad.sum(-2)


BLOCKS = 2**11
"""Number of thread blocks that fill a GPU. cuBLAS uses one per 32 × 32 elements of a product."""
FEWEST_ROWS = 256
"""Smallest number of rows of a part of `outer_sum`."""


def outer_sum(h: Tensor, g: Tensor) -> Tensor:
    """hᵀ g, a sum of N outer products.

    The result is small, and cuBLAS does not split the sums of a batched product. The rows are
    therefore divided into parts, and the products of the parts form a larger batch.
    """
    if h.dim() == 2:
        return h.mT @ g
    members, n, width = h.shape
    blocks = members * -(-width // 32) * -(-g.size(-1) // 32)
    parts = max(min(BLOCKS // blocks, n // FEWEST_ROWS), 1)
    parts = 1 << (parts.bit_length() - 1)
    if n & -n >= max(parts // 4, 1):  # a nearby divisor of N avoids copies
        parts = min(parts, n & -n)
    batched = torch.bmm(_in_parts(h, parts).mT, _in_parts(g, parts))
    return batched.view(members, parts, width, -1).sum(1)


def _in_parts(h: Tensor, parts: int) -> Tensor:
    """[members, N, d] as [members · parts, rows, d], with rows of zeros at the end if needed."""
    rest = -h.size(1) % parts
    filled = pad(h, (0, 0, 0, rest)) if rest else h  # `pad` copies in any case
    return filled.reshape(len(h) * parts, -1, h.size(-1))


def activate(
    h: Tensor, relu: bool, seed: Tensor | None, rate: float | Tensor, batch: Batch | None
) -> tuple[Tensor, Tensor | None]:
    """Dropout(φ(s h + t)), with s h + t = (h − μ) / √(σ² + ε) · w + b.

    Args:
        h: [N, d].
        relu: Whether φ is ReLU; otherwise φ(h) = h.
        seed: As in `dropout`; None for no dropout.
        rate: As in `dropout`.
        batch: w, b, and the source of μ and σ²; None for s = 1 and t = 0.

    Returns:
        The result, and s, t, μ and 1 / √(σ² + ε), [4, d], for `activate_back`.

    For several members, h, the values of ``batch`` and s to 1 / √(σ² + ε) have an axis of members
    before their last ones, and seed and rate have one value per member.
    """
    scales = None if batch is None else _updated(h, batch)
    out = _affine(h, scales)
    if relu:
        out = torch.relu(out)
    return out if seed is None else dropout(out, seed, rate), scales


def activate_back(
    grad: Tensor,
    h: Tensor,
    relu: bool,
    seed: Tensor | None,
    rate: float | Tensor,
    scales: Tensor | None,
    training: bool,
) -> tuple[Tensor, Tensor | None]:
    """Gradients of h, and of w and b, [2, d].

    With g = Dropout(∂) φ'(s h + t) and x = (h − μ) / √(σ² + ε), ∂w = Σ x g, ∂b = Σ g and ∂h = s g.
    In training, ∂h = s (g − (∂b + x ∂w) / N), as μ and σ² depend on h.

    Args:
        grad: ∂, [N, d].
        h: As in `activate`.
        relu: As in `activate`.
        seed: As in `activate`.
        rate: As in `activate`.
        scales: Second result of `activate`.
        training: As in `Batch`.
    """
    g = grad if seed is None else dropout(grad, seed, rate)
    if relu:
        g = g * (_affine(h, scales) > 0)
    if scales is None:
        return g, None
    scale, _, mean, inverse = scales.unsqueeze(-2)
    x = (h - mean) * inverse
    sums = torch.stack([(x * g).sum(-2), g.sum(-2)])
    if training:
        grad_weight, grad_bias = sums.unsqueeze(-2)
        g = g - (grad_bias + x * grad_weight) / h.size(-2)
    return scale * g, sums


def statistics(h: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """μ, σ² and 1 / √(σ² + ε) of every channel."""
    variance, mean = torch.var_mean(h, -2, correction=0)
    return mean, variance, (variance + eps).rsqrt()


def scales_of(weight: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    """s, t, μ and 1 / √(σ² + ε) of `activate`."""
    scale = weight * inverse
    return torch.stack([scale, torch.addcmul(bias, mean, scale, value=-1), mean, inverse])


def _updated(h: Tensor, batch: Batch) -> Tensor:
    """The scales of `activate`, after an update of the running statistics."""
    if batch.training:
        mean, variance, inverse = statistics(h, batch.eps)
        with torch.no_grad():
            batch.running_mean.lerp_(mean, batch.momentum)
            batch.running_var.lerp_(variance * unbiased(h.size(-2)), batch.momentum)
    else:
        mean, inverse = batch.running_mean, (batch.running_var + batch.eps).rsqrt()
    return scales_of(batch.weight, batch.bias, mean, inverse)


def unbiased(count: int) -> float:
    """Factor from σ² of ``count`` nodes to the unbiased estimate."""
    return count / max(count - 1, 1)


def _affine(h: Tensor, scales: Tensor | None) -> Tensor:
    """s h + t."""
    return (
        h if scales is None else torch.addcmul(scales[1].unsqueeze(-2), h, scales[0].unsqueeze(-2))
    )


def drop_gather(
    rows: Rows,
    values: Tensor,
    seed: Tensor,
    rate: float,
    y: Tensor,
    order: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """A y + b for the matrix A with entries Dropout(values), [M, d] to [N, d].

    Args:
        rows: The matrix A.
        values: Its entries before dropout, [E].
        seed: As in `dropout`.
        rate: As in `dropout`.
        y: [M, d].
        order: Index in ``values`` of every entry, [E]; by default they have the same order.
        bias: b, [d]; by default 0.
    """
    entries = dropout(values, seed, rate)
    out = _product(rows, entries if order is None else entries[order], y)
    return out if bias is None else out + bias


def drop_cross_entropy(
    x: Tensor, seed: Tensor, rate: float, weight: Tensor, bias: Tensor, target: Tensor, scale: float
) -> Tensor:
    """scale · Σ_i −log softmax(z_i)[target_i] of the logits z = Dropout(x) Wᵀ + b.

    Args:
        x: [N, d].
        seed: As in `dropout`.
        rate: As in `dropout`.
        weight: W, [k, d].
        bias: b, [k].
        target: Class of every row, [N]; rows with a negative class are ignored.
        scale: Factor of the sum.
    """
    counts = (target >= 0).nonzero().squeeze(1)
    logits = linear(dropout(x, seed, rate), weight, bias)[counts]
    return scale * cross_entropy(logits, target[counts], reduction="sum")


def log_loss(x: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_i w_i · −log softmax(x_i)[target_i] as partial sums [parts], and its gradient.

    Args:
        x: Logits, [N, k]; for several members [members, N, k], with sums [parts, members].
        target: Class of every row, [N]; it may be negative where the weight is 0.
        weight: Weight of every row, [N], or [members, N].
    """
    logs, classes = x.log_softmax(-1), target.clamp(min=0).expand(x.shape[:-1]).unsqueeze(-1)
    grad = logs.exp().scatter_add(-1, classes, -torch.ones_like(logs[..., :1]))
    counts = weight.unsqueeze(-1)
    own = torch.where(counts == 0, 0, -counts * logs.gather(-1, classes))
    return own.sum((-2, -1)).unsqueeze(0), torch.where(counts == 0, 0, counts * grad)


def score(x: Tensor, bias: Tensor | None, target: Tensor, sets: Tensor, counts: Tensor) -> Tensor:
    """Sums over the rows for an evaluation of the logits z = x + b, [sets + 1].

    Element s is Σ_i sets[s, i] over the rows whose highest logit, the first on ties, is that of
    their target. The last element is Σ_i counts_i · −log softmax(z_i)[target_i]. If a logit is not
    finite, all elements are NaN.

    Args:
        x: [N, k].
        bias: b, [k]; by default 0.
        target: Class of every row, [N]; it may be negative where ``counts`` is 0.
        sets: Weight of every row in every set, [sets, N].
        counts: Weight of every row in the loss, [N].

    For several members, x and the weights have a leading axis, and so has the result.
    """
    logits = x if bias is None else x + bias
    undefined = (0 * logits).sum((-2, -1)).unsqueeze(-1)
    right = (logits.argmax(-1) == target).to(x.dtype)
    loss = log_loss(logits, target, counts)[0].sum(0)
    found = (sets @ right.unsqueeze(-1)).squeeze(-1)
    return torch.cat([found, loss.unsqueeze(-1)], -1) + undefined


def threshold(rate: float) -> int:
    """32-bit threshold: elements with a smaller hash are dropped."""
    return math.floor(rate * 2**32)


def hashed(seed: Tensor, count: int) -> Tensor:
    """32-bit hashes of the numbers 0 to count − 1, as int64.

    x = n · 0x9E3779B9 + seed · 0x85EBCA6B, then twice xor-shift and multiply, then xor-shift; all
    modulo 2³².
    """
    low = 0xFFFFFFFF
    n = torch.arange(count, device=seed.device)
    x = (n * 0x9E3779B9 + seed * 0x85EBCA6B) & low
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & low
    x = ((x ^ (x >> 15)) * 0x846CA68B) & low
    return x ^ (x >> 16)


def run(program: Program, matrix: Matrix, inputs: Sequence[Tensor], coef: Tensor) -> None:
    """Return None: programs run pass by pass."""


def _product(rows: Rows, weight: Tensor, y: Tensor) -> Tensor:
    """A y, [N, d]: every row is a weighted sum of rows of y, as in `embedding_bag`."""
    return embedding_bag(
        rows.column.long(),
        y,
        rows.start,
        mode="sum",
        per_sample_weights=weight,
        include_last_offset=True,
    )
