"""The kernels with their gradients.

The product with a fixed matrix is also registered as a custom operator, which torch.compile does
not trace: Inductor of torch 2.13 reorders chains of ``index_add`` and gives wrong numbers.

For several members, arguments that differ between them and the result have a leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gread.kernels import reference as plain
from gread.kernels.backend import backend_for, fast
from gread.kernels.pattern import Pattern, Rows
from gread.kernels.reference import Batch, Pair


def product(
    pattern: Pattern, weight: Tensor, y: Tensor, transposed: Callable[[], Tensor] | None = None
) -> Tensor:
    """A y, for the matrix A with entries ``weight`` [E] at the positions of ``pattern``.

    ``transposed`` returns the entries in column order, if they are known and fixed.
    """
    weight, y = _alike(weight, y)
    if torch.compiler.is_compiling():
        return _product(_places(pattern), weight, y)
    return _Product.apply(pattern, weight, y, transposed)


def _alike(*tensors: Tensor | None) -> Any:
    """Convert all tensors to the widest of their types, because kernels need one type."""
    types = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(types) == 1:
        return tensors
    widest = reduce(torch.promote_types, types)
    return tuple(tensor if tensor is None else tensor.to(widest) for tensor in tensors)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        pattern: Pattern,
        weight: Tensor,
        y: Tensor,
        transposed: Callable[[], Tensor] | None,
    ) -> Tensor:
        ctx.pattern, ctx.transposed = pattern, transposed
        # The backward pass needs y only for the gradient of the entries.
        ctx.save_for_backward(weight, y if ctx.needs_input_grad[1] else None)
        return _gather(pattern.rows, weight, y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """∂y is the product with the transpose, ∂weight a dot product for every entry."""
        weight, y = ctx.saved_tensors
        pattern, grad = ctx.pattern, grad.contiguous()
        grad_weight = grad_y = None
        if ctx.needs_input_grad[1]:
            grad_weight = _edge_dots(*pattern.rows, grad, y).sum_to_size(weight.shape)
        if ctx.needs_input_grad[2]:
            if ctx.transposed is None:
                back = weight.index_select(-1, pattern.order)
            else:
                back = ctx.transposed().to(weight.dtype)
            if torch.is_grad_enabled():  # for a second derivative
                grad_y = _product(_transposed(_places(pattern)), back, grad)
            else:
                grad_y = _gather(pattern.columns, back, grad)
        return None, grad_weight, grad_y, None


def _gather(rows: Rows, weight: Tensor, y: Tensor) -> Tensor:
    return backend_for(y).gather(rows, weight, y)


def _places(pattern: Pattern) -> list[Tensor]:
    """A pattern as arguments of an operator: rows, columns, and the orders of their entries."""
    return [*pattern.rows, *pattern.columns, *pattern.orders]


def _transposed(places: list[Tensor]) -> list[Tensor]:
    start, column, back_start, back_column, order, back_order = places
    return [back_start, back_column, start, column, back_order, order]


@torch.library.custom_op(
    "gread::product", mutates_args=(), schema="(Tensor[] places, Tensor weight, Tensor y) -> Tensor"
)
def _product(places: list[Tensor], weight: Tensor, y: Tensor) -> Tensor:
    return _gather(Rows(places[0], places[1]), weight, y)


@_product.register_fake
def _(places: list[Tensor], weight: Tensor, y: Tensor) -> Tensor:
    return y.new_empty(*y.shape[:-2], places[0].size(0) - 1, y.size(-1))


def _plain_product(places: list[Tensor], weight: Tensor, y: Tensor) -> Tensor:
    return plain.gather(Rows(places[0], places[1]), weight, y)


PLAIN: dict[Any, Callable[..., Tensor]] = {torch.ops.gread.product.default: _plain_product}
"""Operators of gread as PyTorch operators, for ``ExportedProgram.run_decompositions``."""


@torch.library.custom_op("gread::edge_dots", mutates_args=())
def _edge_dots(start: Tensor, column: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return backend_for(a).edge_dots(Rows(start, column), [Pair([a], b)])


@_edge_dots.register_fake
def _(start: Tensor, column: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(*a.shape[:-2], column.size(0))


def _product_back(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """∂y is the product with the transpose, ∂weight a dot product for every entry."""
    *places, weight, y = ctx.saved_tensors
    grad = grad.contiguous()
    grad_weight = grad_y = None
    if ctx.needs_input_grad[1]:
        grad_weight = _edge_dots(places[0], places[1], grad, y).sum_to_size(weight.shape)
    if ctx.needs_input_grad[2]:
        grad_y = _product(_transposed(places), weight.index_select(-1, places[4]), grad)
    return [None] * len(places), grad_weight, grad_y


_product.register_autograd(
    _product_back,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[0], *inputs[1:]),
)


def _edge_dots_back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Backward pass of `edge_dots` in plain PyTorch, for second derivatives of users."""
    start, column, a, b = ctx.saved_tensors
    row, factor = Rows(start, column).numbers(), grad.unsqueeze(-1)
    grad_a = torch.zeros_like(a).index_add(0, row, factor * b.index_select(0, column))
    grad_b = torch.zeros_like(b).index_add(0, column, factor * a.index_select(0, row))
    return None, None, grad_a, grad_b


_edge_dots.register_autograd(
    _edge_dots_back, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)


def attention(pattern: Pattern, q: Tensor, k: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean over heads of weight[e] exp(q[i] · k[j] / √d_k), normalized over each row.

    Args:
        pattern: Positions (i, j) where i attends to j.
        q: Queries [N, heads, d_k].
        k: Keys [N, heads, d_k].
        weight: Non-negative weight of every entry, [E]; by default 1. It gets a gradient only if it
            requires one.

    Returns:
        [E].
    """
    q, k, weight = _alike(q, k, weight)
    if torch.compiler.is_compiling() or (weight is not None and weight.requires_grad):
        return plain.attend(pattern.rows, q, k, weight)[1]
    return _Attention.apply(pattern, q, k, weight)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, q: Tensor, k: Tensor, weight: Tensor | None) -> Tensor:
        found, mean = backend_for(q).attend(pattern.rows, q, k, weight)
        ctx.pattern = pattern
        ctx.save_for_backward(q, k, found)
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, found = ctx.saved_tensors
        heads, size = q.shape[-2:]
        rows, scaled = ctx.pattern.rows, grad / (heads * size**0.5)
        slope = backend_for(q).attend_back(rows, found, scaled)
        return None, *_through_scores(ctx.pattern, slope, q, k), None


def scores(pattern: Pattern, q: Tensor, k: Tensor) -> Tensor:
    """q[i] · k[j] for every entry and head, [E, heads]: attention scores before the softmax.

    The arguments are as in `attention`.
    """
    q, k = _alike(q, k)
    if torch.compiler.is_compiling():
        return plain.head_dots(pattern.rows, q, k)
    return _Scores.apply(pattern, q, k)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, q: Tensor, k: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(q, k)
        return backend_for(q).head_dots(pattern.rows, q, k)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_through_scores(ctx.pattern, grad.contiguous(), *ctx.saved_tensors)


def _through_scores(pattern: Pattern, slope: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of q and k from those of the scores, [E, heads]."""
    gather_heads = backend_for(q).gather_heads
    grad_k = gather_heads(pattern.columns, slope, q, pattern.order)
    return gather_heads(pattern.rows, slope, k), grad_k


def shares(
    pattern: Pattern,
    score: Tensor,
    weight: Tensor | None = None,
    by_row: bool = True,
    mean: bool = True,
) -> Tensor:
    """weight[e] exp(score[e]) of every head, normalized over each row or column.

    Args:
        pattern: Positions of the entries.
        score: [E, heads].
        weight: As in `attention`.
        by_row: Normalize rows if True, columns otherwise.
        mean: Whether to return the mean over the heads.

    Returns:
        [E], or [E, heads] without the mean.
    """
    score, weight = _alike(score, weight)
    if by_row:
        return _shares(pattern.rows, score, weight, mean)
    there, back = pattern.orders
    weight = weight if weight is None else permuted(weight, -1, there, back)
    found = _shares(pattern.columns, permuted(score, -2, there, back), weight, mean)
    return permuted(found, -1 if mean else -2, back, there)


def _shares(rows: Rows, score: Tensor, weight: Tensor | None, mean: bool) -> Tensor:
    if torch.compiler.is_compiling() or (weight is not None and weight.requires_grad):
        return plain.shares(rows, score, weight)[mean]
    return _Shares.apply(rows, score, weight, mean)


class _Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Rows, score: Tensor, weight: Tensor | None, mean: bool) -> Tensor:
        found, average = backend_for(score).shares(rows, score, weight)
        ctx.rows, ctx.mean = rows, mean
        ctx.save_for_backward(found)
        return average if mean else found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (found,) = ctx.saved_tensors
        grad = grad / found.size(-1) if ctx.mean else grad
        return None, backend_for(found).attend_back(ctx.rows, found, grad), None, None


def mix(terms: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """Σ_i Z_i C_i + b, with the matrices C_i stacked vertically.

    Args:
        terms: Z_i, [N, in_i], or [members, N, in_i].
        weight: C, [Σ in_i, out], or [members, Σ in_i, out].
        bias: b, [out], or [members, out].
    """
    # Autograd of the reference is as fast on a CPU, and handles dtypes under autocast.
    if not (weight.is_cuda and fast()) or torch.is_autocast_enabled(weight.device.type):
        return plain.mix(terms, weight, bias)
    found: Tensor = _Mix.apply(weight, bias, *terms)
    return found


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, *terms: Tensor) -> Tensor:
        ctx.save_for_backward(weight, *terms)
        return backend_for(weight).mix(terms, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, *terms = ctx.saved_tensors
        kernels = plain if torch.is_grad_enabled() else backend_for(grad)  # for a second derivative
        back, outer, total = kernels.mix_back(grad, terms, weight)
        return outer, total, *back


def identity(h: Tensor) -> Tensor:
    """Return h unchanged."""
    return h


def activated(
    h: Tensor,
    activation: Callable[[Tensor], Tensor],
    rate: float | Tensor = 0.0,
    seed: Tensor | None = None,
    batch: Batch | None = None,
) -> Tensor:
    """Dropout(φ(BatchNorm(h))), in one pass after the statistics.

    Args:
        h: [N, d], or [members, N, d].
        activation: φ. ``torch.relu`` and `identity` are part of that pass, other functions are
            called separately.
        rate: As in `drop`.
        seed: As in `drop`.
        batch: Batch normalization, by default none.
    """
    relu = activation is torch.relu
    if not relu and activation is not identity:
        return drop(activation(activated(h, identity, batch=batch)), rate, seed)
    if not relu and batch is None:
        return drop(h, rate, seed)
    if not isinstance(rate, Tensor) and rate == 0:
        seed = None
    elif seed is None:
        seed = new_seed(h)
    kind = h.dtype
    weight, bias = (None, None) if batch is None else (batch.weight, batch.bias)
    h, weight, bias = _alike(h, weight, bias)
    if batch is not None:
        batch = batch._replace(weight=weight, bias=bias)
    if torch.compiler.is_compiling():
        return plain.activate(h, relu, seed, rate, batch)[0].to(kind)
    found: Tensor = _Activated.apply(h, weight, bias, relu, seed, rate, batch)
    return found.to(kind)


class _Activated(torch.autograd.Function):
    """`activated`; the backward pass recomputes the mask and the activation."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        relu: bool,
        seed: Tensor | None,
        rate: float | Tensor,
        batch: Batch | None,
    ) -> Tensor:
        out, scales = backend_for(h).activate(h, relu, seed, rate, batch)
        ctx.save_for_backward(h, weight, bias, seed, scales)
        ctx.relu, ctx.rate = relu, rate
        ctx.training, ctx.eps = (False, 0.0) if batch is None else (batch.training, batch.eps)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, bias, seed, scales = ctx.saved_tensors
        kernels = backend_for(h)
        if torch.is_grad_enabled():  # for a second derivative
            kernels = plain
            if scales is not None:
                mean, inverse = scales[2:]
                if ctx.training:
                    mean, _, inverse = plain.statistics(h, ctx.eps)
                scales = plain.scales_of(weight, bias, mean, inverse)
        grad_h, sums = kernels.activate_back(
            grad, h, ctx.relu, seed, ctx.rate, scales, ctx.training
        )
        return grad_h, *((None, None) if sums is None else sums), None, None, None, None


def log_loss(x: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Σ_i w_i · −log softmax(x_i)[target_i], see `gread.kernels.reference.log_loss`; [members]."""
    found: Tensor = _LogLoss.apply(x, target, weight)
    return found


class _LogLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        sums, slope = backend_for(x).log_loss(x, target, weight)
        ctx.save_for_backward(slope)
        return sums.sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return slope * grad[..., None, None], None, None


def permuted(x: Tensor, axis: int, there: Tensor, back: Tensor) -> Tensor:
    """Apply `index_select` with a permutation; its backward pass needs no sums."""
    return _Permuted.apply(x, axis, there, back)


class _Permuted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, there: Tensor, back: Tensor) -> Tensor:
        ctx.axis = axis
        ctx.save_for_backward(there, back)
        return x.index_select(axis, there)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        there, back = ctx.saved_tensors
        return permuted(grad, ctx.axis, back, there), None, None, None


def drop(x: Tensor, rate: float | Tensor, seed: Tensor | None = None) -> Tensor:
    """Dropout by a hash of the element index and a seed, by default from PyTorch's generator.

    For several members, rate and seed have one value per member, [members].
    """
    if not isinstance(rate, Tensor) and rate == 0:
        return x
    if seed is None:
        seed = new_seed(x)
    if torch.compiler.is_compiling():
        return plain.dropout(x, seed, rate)
    return _Drop.apply(x, seed, rate)


def new_seed(x: Tensor) -> Tensor:
    """Draw a dropout seed from PyTorch's generator."""
    return torch.randint(2**31, (1,), device=x.device)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: Tensor, rate: float | Tensor) -> Tensor:
        ctx.save_for_backward(seed)
        ctx.rate = rate
        return backend_for(x).dropout(x, seed, rate)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (seed,) = ctx.saved_tensors
        return _Drop.apply(grad, seed, ctx.rate), None, None
