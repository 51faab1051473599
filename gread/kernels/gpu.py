"""The kernels of `gread.kernels.reference` in Triton, for one GPU.

A program processes one row, or a few in sequence. It reads the entries of a row in blocks and keeps
everything else in registers. Kernels use no atomics, so results are deterministic, and do not
synchronize, so they can be captured in a CUDA graph.

A program holds a tile [entries, heads, channels]; matrices without heads have one head.
"""

# Triton functions have no type annotations.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-decorators=False, disallow-any-unimported=False

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor
from torch.autograd.graph import increment_version

from gread.kernels.dense import mix as mix, mix_back as mix_back
from gread.kernels.pattern import BY_LENGTH, Rows, recall
from gread.kernels.reference import Batch, Pair, Terms, run as run, threshold

CHANNELS = 128
"""Largest number of channels per program of `gather`, `pull` and `dot`: one load of a warp."""
SLICE = 32
"""The same for `gather` and `pull` of a state in the L2 cache: one cache line, so that more rows of
neighbours stay in the L1 cache."""
CACHED = 2**25
"""Largest number of bytes of such a state."""
WARPS_PER_SLICE = 2
"""Warps of a program with a slice of the channels."""
WARPS_PER_TILE = 4
"""Warps of other programs that process several rows in parallel."""
AT_ONCE = 8
"""Entries of a row that a thread reads at once, each into separate registers."""
WARPS_PER_LONG = 4
"""Warps of a program of kernels with heads. All of them share a row with more than `PIECE` entries,
because there are few programs and such rows determine the time."""
PROGRAMS = 2**13
"""Programs of `pull`, each of which writes its sums: enough to fill the GPU three times."""
DOT_PARTS = 2**9
"""Largest number of parts of the nodes in `dot`, and in the sums of `activate`."""
LOWEST: tl.constexpr = tl.constexpr(-3e38)
"""About the lowest number in single precision."""
WORDS = 2**11
"""Words of a program of `Keeper`, and elements of a program of `adam`."""
CONTIGUOUS = torch.contiguous_format
EVERY = 2**31 - 1
"""Largest number of programs of a launch."""


def gather(rows: Rows, weight: Tensor, y: Tensor, terms: Terms | None = None) -> Tensor:
    """out = A y, or c₀ (A y) + c₁ y + ... + c_degree y^degree + Σ_m c_{degree+m} bases[m]."""
    return _combine(rows, weight, y, None, terms)[0]


def pull(rows: Rows, weight: Tensor, g: Tensor, y: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
    """out = c₀ (A g) + c₁ g + c₂ y g + ... + Σ_m c_{degree+m} bases[m], and the sums."""
    return _combine(rows, weight, g, y, terms)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Σ x y over the nodes as partial sums, [parts, 1, d]."""
    *members, n, d = x.shape
    parts, each, side, channels = _parts(n, d)
    out = x.new_empty(parts, *members, 1, d)
    if parts:
        grid = (parts, triton.cdiv(d, channels), math.prod(members))
        _dot_kernel[grid](
            out, x.contiguous(), y.contiguous(), n, each, D=d, BLOCK_D=channels, ROWS=side
        )
    return out


def edge_dots(rows: Rows, pairs: Sequence[Pair], out: Tensor | None = None) -> Tensor:
    """out[e], if given, + Σ over the one or two pairs of left[i] · right[j], for e at (i, j)."""
    first, second = pairs[0], pairs[-1]
    adds = out is not None
    *members, length, d = first.right.shape
    out = first.right.new_empty(*members, rows.column.numel()) if out is None else out
    arguments = []
    for pair in (first, second):
        left = [matrix.contiguous() for matrix in pair.left]
        coef = left[0] if pair.coef is None else pair.coef.contiguous()
        arguments += [left[0], left[-1], pair.right.contiguous(), coef]
    places, count, programs, options = _pieces_of(rows, _ceil2(d), out.element_size())
    if count:
        _edge_dots_kernel[(programs, math.prod(members))](
            out, *rows, places, *arguments, _count(rows), length, rows.column.numel(), count,
            D=d, PAIRS=len(pairs), LEFT=len(first.left), LEFT_2=len(second.left),
            SCALED=first.coef is not None, ADDS=adds, BLOCK_D=_ceil2(d), **options,
        )  # fmt: skip
    return out


def head_dots(rows: Rows, q: Tensor, k: Tensor) -> Tensor:
    """q[i] · k[j] of every head, for every entry (i, j)."""
    return _head_dots(rows, q, k, 1.0)


def _head_dots(rows: Rows, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """`head_dots` multiplied by a number."""
    *members, length, heads, d = k.shape
    block = {"BLOCK_H": _ceil2(heads), "BLOCK_D": _ceil2(d)}
    out = q.new_empty(*members, rows.column.numel(), heads)
    places, count, programs, options = _pieces_of(rows, math.prod(block.values()), q.element_size())
    if count:
        _head_dots_kernel[(programs, math.prod(members))](
            out, *rows, places, q.contiguous(), k.contiguous(), _count(rows), length,
            rows.column.numel(), count, SCALE=scale, HEADS=heads, D=d, **block, **options,
        )  # fmt: skip
    return out


def shares(rows: Rows, scores: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """weight[e] exp(scores[e]) of every head, normalized over each row; and the mean over heads."""
    scores = scores.contiguous()
    return _shares(rows, scores, weight, torch.empty_like(scores))


def _shares(
    rows: Rows, scores: Tensor, weight: Tensor | None, out: Tensor
) -> tuple[Tensor, Tensor]:
    """`shares` written to ``out``, which may be the scores."""
    *members, entries, heads = scores.shape
    mean = out.new_empty(out.shape[:-1])
    if entries:
        tile = _tile_of(
            rows, AT_ONCE * _ceil2(heads), out.element_size(), WARPS_PER_LONG, longest_apart=True
        )
        _shares_kernel[(tile.programs, math.prod(members))](
            out, mean, rows.start, tile.places, scores,
            out if weight is None else weight.contiguous(), _count(rows), entries,
            entries if weight is not None and weight.dim() > 1 else 0, tile.heavy,
            WEIGHTED=weight is not None, HEADS=heads, BLOCK_H=_ceil2(heads),
            **tile.options,
        )  # fmt: skip
    return out, mean


def attend(rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention: weight[e] exp(q[i] · k[j] / √d_k), normalized over each row; and the mean.

    Scores do not depend on each other, so a separate launch computes them in pieces of rows. The
    softmax then reads only the scores of a row.
    """
    scores = _head_dots(rows, q, k, 1 / math.sqrt(q.size(-1)))
    return _shares(rows, scores, weight, scores)


def attend_back(rows: Rows, attention: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the scores: attention ⊙ (grad − its attention-weighted mean over the row)."""
    attention = attention.contiguous()
    out = torch.empty_like(attention)
    *members, entries, heads = attention.shape
    # Strides, because a gradient that all heads share is stored once.
    shared = grad.dim() < attention.dim()
    grad = (grad.unsqueeze(-1) if shared else grad).contiguous()
    if entries:
        tile = _tile_of(
            rows, AT_ONCE * _ceil2(heads), out.element_size(), WARPS_PER_LONG, longest_apart=True
        )
        _attend_back_kernel[(tile.programs, math.prod(members))](
            out, rows.start, tile.places, attention, grad, _count(rows), entries, tile.heavy,
            STRIDE_E=1 if shared else heads, STRIDE_H=0 if shared else 1, HEADS=heads,
            BLOCK_H=_ceil2(heads), **tile.options,
        )  # fmt: skip
    return out


def gather_heads(rows: Rows, weight: Tensor, y: Tensor, order: Tensor | None = None) -> Tensor:
    """out[i, head] = Σ over the entries e of row i of weight[e, head] · y[j, head].

    The kernel reads entries by ``order``: a reordered copy would take longer than the product.
    """
    *members, length, heads, d = y.shape
    block = {"BLOCK_H": _ceil2(heads), "BLOCK_D": _ceil2(d)}
    out = y.new_empty(*members, _count(rows), heads, d)
    if out.numel():
        width = math.prod(block.values())
        tile = _tile_of(rows, width, y.element_size(), WARPS_PER_LONG, longest_apart=True)
        _gather_heads_kernel[(tile.programs, math.prod(members))](
            out, *rows, tile.places, rows.column if order is None else order, weight.contiguous(),
            y.contiguous(), _count(rows), length, rows.column.numel(), tile.heavy,
            HEADS=heads, D=d, REORDERED=order is not None, **block, **tile.options,
        )  # fmt: skip
    return out


def dropout(x: Tensor, seed: Tensor, rate: float | Tensor) -> Tensor:
    """x with every element zero with probability ``rate``, the others divided by 1 − rate."""
    x = x.contiguous()
    out = torch.empty_like(x)
    members = rate.numel() if isinstance(rate, Tensor) else 1
    count = x.numel() // max(members, 1)
    if x.numel():
        block = 1024
        how, kind = _dropout_of(x, seed, rate)
        _dropout_kernel[(triton.cdiv(count, block), members)](
            out, x, *how, count, DROPS=kind, BLOCK=block
        )
    return out


def _dropout_of(
    x: Tensor, seed: Tensor | None, rate: float | Tensor
) -> tuple[tuple[Tensor, Tensor, int, float, float], int]:
    """Arguments of kernels for dropout, and its kind: 0 none, 1 one rate, 2 a rate per member."""
    if seed is None:
        return (x, x, 0, 1.0, 0.0), 0
    if isinstance(rate, Tensor):
        return (seed, rate, 0, 1.0, 0.0), 2
    scale = 1 / (1 - rate)
    high = float(np.float32(scale))  # Triton passes floats in single precision
    return (seed, x, threshold(rate), high, scale - high), 1


def draw(numbers: Tensor, place: Tensor, rate: Tensor) -> Tensor:
    """Next number of each member; members whose rate is zero keep their place."""
    out = torch.empty_like(place)
    _draw_kernel[(len(place),)](out, numbers, place, rate, numbers.size(1))
    return out


def activate(
    h: Tensor, relu: bool, seed: Tensor | None, rate: float | Tensor, batch: Batch | None
) -> tuple[Tensor, Tensor | None]:
    """Dropout(φ(s h + t)), and s, t, μ and 1 / √(σ² + ε)."""
    h = h.contiguous()
    *members, n, d = h.shape
    out = torch.empty_like(h)
    if not h.numel():
        return out, None if batch is None else h.new_zeros(4, *members, d)
    scales = None if batch is None else _scales(h, batch)
    how, drops = _dropout_of(h, seed, rate)
    channels = min(_ceil2(d), CHANNELS)
    side = 1024 // channels
    _activate_kernel[(triton.cdiv(n, side), triton.cdiv(d, channels), math.prod(members))](
        out, h, h if scales is None else scales, *how, n, RELU=relu, DROPS=drops,
        SCALED=scales is not None, D=d, BLOCK_D=channels, ROWS=side,
    )  # fmt: skip
    return out, scales


def _scales(h: Tensor, batch: Batch) -> Tensor:
    """s, t, μ and 1 / √(σ² + ε), after an update of the running statistics."""
    *members, n, d = h.shape
    count = math.prod(members)
    scales = h.new_empty(4, *members, d)
    parts, each, side, channels = _parts(n, d)
    moments = h.new_empty(parts, *members, 2, d) if batch.training else h
    if batch.training:
        _moments_kernel[(parts, triton.cdiv(d, channels), count)](
            moments, h, n, each, D=d, BLOCK_D=channels, ROWS=side
        )
    few = min(_ceil2(d), 16)  # one or two programs for each cache line of the moments
    _scales_kernel[(triton.cdiv(d, few), count)](
        scales, moments, batch.weight.contiguous(), batch.bias.contiguous(), batch.running_mean,
        batch.running_var, n, each * side, parts, TRAINING=batch.training,
        MOMENTUM=batch.momentum, EPS=batch.eps, D=d, BLOCK_D=few, BLOCK=1024 // few,
    )  # fmt: skip
    if batch.training:  # as PyTorch does for its own writes
        increment_version((batch.running_mean, batch.running_var))
    return scales


def activate_back(
    grad: Tensor,
    h: Tensor,
    relu: bool,
    seed: Tensor | None,
    rate: float | Tensor,
    scales: Tensor | None,
    training: bool,
) -> tuple[Tensor, Tensor | None]:
    """Gradients of h, and of w and b, [2, d]: with sums over the nodes, in two passes."""
    grad, h = grad.contiguous(), h.contiguous()
    *members, n, d = h.shape
    out = torch.empty_like(h)
    if not h.numel():
        return out, None if scales is None else h.new_zeros(2, *members, d)
    how, drops = _dropout_of(h, seed, rate)
    options = {"RELU": relu, "DROPS": drops, "D": d}
    parts, each, side, channels = _parts(n, d)
    blocks, count = triton.cdiv(d, channels), math.prod(members)
    sums = None
    if scales is not None:
        partial = h.new_empty(parts, 2, *members, d)
        _slopes_kernel[(parts, blocks, count)](
            partial, grad, h, scales, *how, n, each, **options, BLOCK_D=channels, ROWS=side
        )
        sums = partial.sum(0)
    side = 1024 // channels
    _activate_back_kernel[(triton.cdiv(n, side), blocks, count)](
        out, grad, h, h if scales is None else scales, h if sums is None else sums, *how, n,
        **options, SCALED=scales is not None, TRAINING=training, BLOCK_D=channels, ROWS=side,
    )  # fmt: skip
    return out, sums


def _parts(n: int, d: int) -> tuple[int, int, int, int]:
    """Division of the nodes into parts, for sums over nodes.

    Returns:
        Number of parts, blocks of rows of each, and rows and channels of a block.
    """
    channels = min(_ceil2(d), CHANNELS)
    side = 2048 // channels
    blocks = triton.cdiv(n, side)
    each = max(triton.cdiv(blocks, DOT_PARTS), 1)
    return triton.cdiv(blocks, each), each, side, channels


def log_loss(x: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_i w_i · −log softmax(x_i)[target_i] as partial sums [parts], and its gradient."""
    *members, n, k = x.shape
    side = _side(k)
    parts = triton.cdiv(n, side)
    sums, grad = x.new_empty(parts, *members), torch.empty_like(x, memory_format=CONTIGUOUS)
    if parts:
        _log_loss_kernel[(parts, math.prod(members))](
            sums, grad, x.contiguous(), target, weight.contiguous(), n,
            n if weight.dim() > 1 else 0, K=k, BLOCK_K=_ceil2(k), ROWS=side,
        )  # fmt: skip
    return sums, grad


def score(x: Tensor, bias: Tensor | None, target: Tensor, sets: Tensor, counts: Tensor) -> Tensor:
    """Sums over the rows for an evaluation of the logits z = x + b, [sets + 1].

    For several members, all but b and the targets may have a leading axis.
    """
    *members, n, k = x.shape
    side, number = _side(k), sets.size(-2)
    parts = triton.cdiv(n, side)
    out = x.new_empty(parts, *members, number + 1)
    if parts:
        _score_kernel[(parts, math.prod(members))](
            out, x.contiguous(), x if bias is None else bias, target, sets.contiguous(),
            counts.contiguous(), n, number * n if sets.dim() > 2 else 0,
            n if counts.dim() > 1 else 0,
            K=k, SETS=number, BIASED=bias is not None, BLOCK_K=_ceil2(k), ROWS=side,
        )  # fmt: skip
    return out.sum(0)


def _side(k: int) -> int:
    """Number of rows of logits per program."""
    return max(min(1024 // _ceil2(k), 128), 1)


class Keeper:
    """Copies the tensors of flagged members, with one launch per word size.

    Args:
        kept: Destinations, contiguous, with a leading axis of members if there are several.
        now: Sources of the same shapes and dtypes, whose memory addresses do not change.
        members: Number of members.
    """

    def __init__(self, kept: Sequence[Tensor], now: Sequence[Tensor], members: int):
        self.tables: dict[torch.dtype, Tensor] = {}
        chunks: dict[torch.dtype, list[list[int]]] = {}
        for one, other in zip(kept, now, strict=True):
            size = one.numel() * one.element_size() // members
            word = torch.int8 if size % 4 else torch.int32
            count = size // word.itemsize
            for first in range(0, count, WORDS):
                places = [t.data_ptr() + first * word.itemsize for t in (one, other)]
                chunks.setdefault(word, []).append([*places, count, min(count - first, WORDS)])
        for word, found in chunks.items():
            self.tables[word] = torch.tensor(found, device=kept[0].device)
        self.members = members

    def __call__(self, better: Tensor) -> None:
        """Copy the tensors of the members for which ``better`` [members] is True."""
        for word, table in self.tables.items():
            _keep_kernel[(len(table), self.members)](
                table, better, SMALL=word is torch.int8, BLOCK=WORDS
            )


def adam_table(parameters: Sequence[Tensor], numbers: Sequence[int], places: Sequence[int],
               members: int) -> Tensor:  # fmt: skip
    """Chunks of parameters for `adam`, int64.

    Args:
        parameters: Contiguous, with a leading axis of members if there are several.
        numbers: Index of each among all parameters.
        places: Offset of the moments of each in a row of the moments of all parameters.
        members: Number of members.
    """
    rows, begin = [], 0
    for one, number, place in zip(parameters, numbers, places, strict=True):
        count = one.numel() // members
        for first in range(0, count, WORDS):
            at = one.data_ptr() + first * one.element_size()
            left = min(count - first, WORDS)
            rows.append([at, count, left, place + first, begin + first, number])
        begin += count
    return torch.tensor(rows, device=parameters[0].device)


def adam(
    table: Tensor, grads: Tensor, means: Tensor, squares: Tensor, rates: Tensor, powers: Tensor,
    betas: tuple[float, float], eps: float,
) -> None:  # fmt: skip
    """One step of Adam for the parameters of `adam_table`.

    Args:
        table: Result of `adam_table`.
        grads: Concatenated gradients of these parameters, [members, ...].
        means: First moments of all parameters, [members, ...].
        squares: Second moments of all parameters, [members, ...].
        rates: Learning rate and weight decay, [parameters, members, 2].
        powers: Powers of the two βs after this step, [parameters, 2], in double precision.
        betas: β₁ and β₂.
        eps: ε.
    """
    _adam_kernel[(len(table), len(grads))](
        table, grads, means, squares, rates, powers, grads.size(1), means.size(1),
        MEAN=betas[0], SQUARE=betas[1], EPS=eps, DOUBLE=grads.dtype == torch.float64, BLOCK=WORDS,
    )  # fmt: skip


def look(
    numbers: Tensor, sign: int, limits: Tensor, val: Tensor, number: Tensor, epoch: Tensor,
    running: Tensor,
) -> Tensor:  # fmt: skip
    """Update the state of `gread.training.loop.Best`, and return which members have improved."""
    better = torch.empty_like(running)
    _look_kernel[(len(running),)](
        better, numbers.contiguous(), limits.contiguous(), val, number, epoch, running,
        len(running), SIGN=sign, NUMBERS=numbers.size(1), BLOCK=_ceil2(numbers.size(1)),
    )  # fmt: skip
    return better


def _combine(
    rows: Rows, weight: Tensor, x: Tensor, y: Tensor | None, terms: Terms | None
) -> tuple[Tensor, Tensor]:
    """Compute `gather` of x, or `pull` of x and y; and the sums of every program of `pull`."""
    scaled = terms is not None
    coef, bases, degree, _ = terms or Terms(x, degree=0)  # x is a placeholder and not read
    *members, length, d = x.shape
    n, count = _count(rows), math.prod(members)
    cached = x.numel() * x.element_size() <= CACHED
    widest, warps = (SLICE, WARPS_PER_SLICE) if cached else (CHANNELS, WARPS_PER_TILE)
    channels = min(_ceil2(d), widest)
    blocks = triton.cdiv(d, channels)
    most = EVERY if y is None else max(PROGRAMS // max(blocks * count, 1), 1)
    tile = _tile_of(rows, channels, x.element_size(), warps, most)
    out = x.new_empty(*members, n, d)
    sums = 0 if y is None or terms is None else terms.sums
    partial = x.new_empty(tile.programs, *members, sums, d)
    x = x.contiguous()
    if n:
        _combine_kernel[(tile.programs, blocks, count)](
            out, partial, *rows, tile.places, weight.contiguous(), x,
            x if y is None else y.contiguous(), coef.contiguous(),
            *[base.contiguous() for base in bases], *[x] * (5 - len(bases)), n, length,
            rows.column.numel() if weight.dim() > 1 else 0,
            coef.size(-2) if coef.dim() > 2 else 0, tile.heavy, tile.each,
            D=d, SCALED=scaled, DEGREE=degree, BASES=len(bases), SUMS=sums, BLOCK_D=channels,
            **tile.options,
        )  # fmt: skip
    return out, partial


class _Tile(NamedTuple):
    """Division of the rows among the programs of a launch."""

    places: Tensor
    """The order of the rows, see `gread.kernels.pattern.RowOrder`; without one, any tensor."""
    heavy: int
    """Number of rows at the front of ``places`` that all warps of a program read together. Each of
    the first programs processes one such row."""
    each: int
    """Number of blocks of rows of every other program."""
    programs: int
    options: dict[str, int]


def _tile_of(
    rows: Rows, channels: int, size: int, warps: int, most: int = EVERY, longest_apart: bool = False
) -> _Tile:
    """Divide the rows among programs, from values that are known without synchronization.

    Args:
        rows: The matrix.
        channels: Channels of a program, a power of two.
        size: Bytes of a number.
        warps: Warps of a program.
        most: Largest number of programs for rows that are not heavy.
        longest_apart: Whether rows with more than `PIECE` entries count as heavy.
    """
    side = _side_of(channels, size, warps)
    order = recall(rows.start, BY_LENGTH)
    places, heavy = rows.column, 0
    if order is not None:
        places, heavy = order.places, order.long if longest_apart else order.heavy
    heavy = 0 if side == 1 else heavy
    blocks = triton.cdiv(_count(rows) - heavy, side)
    each = max(triton.cdiv(blocks, most), 1)
    options = {
        "ROWS": side,
        "BLOCK": AT_ONCE,
        "ORDERED": order is not None,
        "HEAVY": heavy > 0,
        "num_warps": warps,
    }
    return _Tile(places, heavy, each, heavy + triton.cdiv(blocks, each), options)


def _pieces_of(rows: Rows, channels: int, size: int) -> tuple[Tensor, int, int, dict[str, int]]:
    """Divide pieces of rows among programs, for kernels with a result for each entry.

    Returns:
        The pieces, see `gread.kernels.pattern.RowOrder`, their number, the number of programs, and
        options of the kernel. Without an order, the pieces are the rows.
    """
    side = _side_of(channels, size, WARPS_PER_TILE)
    order = recall(rows.start, BY_LENGTH)
    places, count = rows.column, _count(rows)
    if order is not None:
        places, count = order.pieces, len(order.pieces)
    options = {
        "ROWS": side,
        "BLOCK": AT_ONCE,
        "ORDERED": order is not None,
        "num_warps": WARPS_PER_TILE,
    }
    return places, count, triton.cdiv(count, side), options


def _side_of(channels: int, size: int, warps: int) -> int:
    """Number of rows that a program processes in parallel.

    A thread processes 16 bytes of one row, so a warp processes several narrow rows, and a sum over
    the entries needs no other thread.
    """
    threads = 32 * warps
    return max(min(threads * 16 // (channels * size), threads), 1)


def _count(rows: Rows) -> int:
    """Number of rows."""
    return rows.start.numel() - 1


def _ceil2(number: int) -> int:
    """Smallest power of two that is at least ``number``."""
    return 1 << max(number - 1, 0).bit_length()


@triton.jit
def _polynomial(y, coef, channel, there, D: tl.constexpr, DEGREE: tl.constexpr):
    """c₁ + c₂ y + ... + c_degree y^(degree-1)."""
    value = tl.load(coef + DEGREE * D + channel, mask=there, other=0)
    for less in tl.static_range(1, DEGREE):
        value = value * y + tl.load(coef + (DEGREE - less) * D + channel, mask=there, other=0)
    return value


@triton.jit
def _blocks(heavies, each):
    """Return whether this program has a heavy row, and the range of its blocks of rows.

    Heavy rows come first, since they take longest.
    """
    shared = tl.program_id(0) < heavies
    first = tl.maximum(tl.program_id(0) - heavies, 0) * each
    return shared, first, tl.where(shared, first + 1, first + each)


@triton.jit
def _side_by_side(
    start, places, heavies, shared, block, n,
    ROWS: tl.constexpr, ORDERED: tl.constexpr, HEAVY: tl.constexpr, EACH: tl.constexpr = 1,
):  # fmt: skip
    """ROWS rows of a block, or one heavy row in ROWS parts; each of them EACH times in sequence.

    Return the index of each row, whether it exists, its first entry and its number of entries.
    """
    side = tl.arange(0, ROWS * EACH) // EACH
    place = (block * ROWS + side).to(tl.int64)
    if HEAVY:
        place = tl.where(shared, tl.program_id(0), heavies + place)
    mine = place < n
    if ORDERED:
        row = tl.load(places + 3 * place, mask=mine, other=0).to(tl.int64)
        begin = tl.load(places + 3 * place + 1, mask=mine, other=0).to(tl.int64)
        count = tl.load(places + 3 * place + 2, mask=mine, other=0).to(tl.int32)
    else:
        row = place
        begin = tl.load(start + row, mask=mine, other=0)
        count = (tl.load(start + row + 1, mask=mine, other=0) - begin).to(tl.int32)
    if HEAVY:
        part = tl.where(shared, (count + ROWS - 1) // ROWS, 0)
        begin += side * part
        count = tl.where(shared, tl.minimum(count - side * part, part), count)
    return row, mine, begin, count


@triton.jit(do_not_specialize=["n", "length", "weight_step", "coef_rows", "heavies", "each"])
def _combine_kernel(
    out, partial, start, column, places, weight, x, y, coef, base_0, base_1, base_2, base_3, base_4,
    n, length, weight_step, coef_rows, heavies, each,
    D: tl.constexpr, SCALED: tl.constexpr, DEGREE: tl.constexpr, BASES: tl.constexpr,
    SUMS: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ORDERED: tl.constexpr, HEAVY: tl.constexpr,
):  # fmt: skip
    """out = c₀ (A x) + (c₁ + c₂ y + ...) x + Σ c bases, and SUMS sums; in `gather`, y is x.

    Without SCALED, c₀ is one. `pull` has 1 + DEGREE sums, or one more for Σ base_0 y; `gather` has
    none.
    """
    bases = (base_0, base_1, base_2, base_3, base_4)
    member = tl.program_id(2).to(tl.int64)
    out += member * n * D
    x += member * length * D
    y += member * length * D
    weight += member * weight_step
    coef += member * coef_rows * D
    own_bases = member * n * D
    channel = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    valid = channel < D
    zero = tl.zeros([ROWS, BLOCK_D], x.dtype.element_ty)
    sum_0, sum_1, sum_2, sum_3, base_sum = zero, zero, zero, zero, zero
    entry = tl.arange(0, BLOCK)[None, :]
    shared, first, last = _blocks(heavies, each)
    for block in range(first, last):
        row, mine, begin, count = _side_by_side(
            start, places, heavies, shared, block, n, ROWS, ORDERED, HEAVY
        )
        if HEAVY:
            mine = mine & ((tl.arange(0, ROWS) == 0) | (not shared))
        there = mine[:, None] & valid
        at = row[:, None] * D + channel
        # Other terms come first, so their loads overlap with those of the entries.
        value = zero
        own = zero
        other = zero
        if DEGREE > 0:
            own = tl.load(x + at, mask=there, other=0)
            other = tl.load(y + at, mask=there, other=0) if SUMS else own
            value = own * _polynomial(other, coef, channel, valid, D, DEGREE)
        for m in tl.static_range(BASES):
            c = tl.load(coef + (1 + DEGREE + m) * D + channel, mask=valid, other=0)
            base = tl.load(bases[m] + own_bases + at, mask=there, other=0)
            value += c * base
            if m == 0 and SUMS > 1 + DEGREE:
                base_sum += base * other
        product = zero
        known = entry < count[:, None]
        place = begin[:, None] + entry
        node = tl.load(column + place, mask=known, other=0)
        for _ in range(0, tl.max(count, axis=0), BLOCK):
            factor = tl.load(weight + place, mask=known, other=0)
            values = x + (node.to(tl.int64)[:, :, None] * D + channel[:, None, :])
            tile = tl.load(values, mask=known[:, :, None] & valid[:, None, :], other=0)
            # Prefetch the next columns together with the tile: one wait per block, not two.
            count -= BLOCK
            place += BLOCK
            known = entry < count[:, None]
            node = tl.load(column + place, mask=known, other=0)
            product += tl.sum(factor[:, :, None] * tile, axis=1)
        if HEAVY:  # noqa: SIM102, a compile-time constant
            if shared:
                product = tl.where(mine[:, None], tl.sum(product, axis=0)[None, :], 0)
        scale = tl.load(coef + channel, mask=valid, other=0) if SCALED else 1.0
        value += scale * product
        tl.store(out + at, value, mask=there)
        if SUMS:
            sum_0 += product * other
            sum_1 += own * other
            if DEGREE > 1:
                sum_2 += own * other * other
            if DEGREE > 2:
                sum_3 += own * other * other * other
    if SUMS:
        sums = (sum_0, sum_1, sum_2, sum_3)
        for m in tl.static_range(SUMS):
            part = tl.program_id(0) * tl.num_programs(2) + member
            total = tl.sum(sums[m] if m <= DEGREE else base_sum, axis=0)[None, :]
            tl.store(partial + (part * SUMS + m) * D + channel, total, mask=valid)


@triton.jit
def _heads(HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_H: tl.constexpr,
           BLOCK_D: tl.constexpr):  # fmt: skip
    """Head of every line of a tile with the heads of some rows, its channels, and their mask.

    Each head has a separate line, so a thread has 16 bytes of one head, as for rows without heads.
    """
    head = tl.arange(0, ROWS * BLOCK_H) % BLOCK_H
    channel = tl.arange(0, BLOCK_D)[None, :]
    return head, head[:, None] * D + channel, (head < HEADS)[:, None] & (channel < D)


@triton.jit(do_not_specialize=["n", "length", "entries", "heavies"])
def _gather_heads_kernel(
    out, start, column, places, order, weight, y, n, length, entries, heavies,
    HEADS: tl.constexpr, D: tl.constexpr, REORDERED: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ORDERED: tl.constexpr,
    HEAVY: tl.constexpr,
):  # fmt: skip
    stride: tl.constexpr = HEADS * D
    member = tl.program_id(1).to(tl.int64)
    out += member * n * stride
    y += member * length * stride
    weight += member * entries * HEADS
    head, lane, valid = _heads(HEADS, D, ROWS, BLOCK_H, BLOCK_D)
    shared, block, _ = _blocks(heavies, 1)
    row, mine, begin, count = _side_by_side(
        start, places, heavies, shared, block, n, ROWS, ORDERED, HEAVY, BLOCK_H
    )
    count = tl.where(head < HEADS, count, 0)
    entry = tl.arange(0, BLOCK)[None, :]
    known = entry < count[:, None]
    place = begin[:, None] + entry
    node = tl.load(column + place, mask=known, other=0)
    own = tl.load(order + place, mask=known, other=0) if REORDERED else place
    total = tl.zeros([ROWS * BLOCK_H, BLOCK_D], y.dtype.element_ty)
    for _ in range(0, tl.max(count, axis=0), BLOCK):
        factor = tl.load(weight + own * HEADS + head[:, None], mask=known, other=0)
        values = y + (node.to(tl.int64)[:, :, None] * stride + lane[:, None, :])
        tile = tl.load(values, mask=known[:, :, None] & valid[:, None, :], other=0)
        # Prefetch the next columns together with the tile: one wait per block, not two.
        count -= BLOCK
        place += BLOCK
        known = entry < count[:, None]
        node = tl.load(column + place, mask=known, other=0)
        own = tl.load(order + place, mask=known, other=0) if REORDERED else place
        total += tl.sum(factor[:, :, None] * tile, axis=1)
    if HEAVY:
        mine = mine & ((tl.arange(0, ROWS * BLOCK_H) < BLOCK_H) | (not shared))
        if shared:
            parts = tl.reshape(total, (ROWS, BLOCK_H, BLOCK_D))
            parts = tl.broadcast_to(tl.sum(parts, axis=0)[None, :, :], (ROWS, BLOCK_H, BLOCK_D))
            total = tl.reshape(parts, (ROWS * BLOCK_H, BLOCK_D))
    tl.store(out + row[:, None] * stride + lane, total, mask=mine[:, None] & valid)


@triton.jit
def _left(
    a, b, coef, row, channel, mine, D: tl.constexpr, LEFT: tl.constexpr, SCALED: tl.constexpr
):
    """Rows of c₀ a, or of c₀ a + c₁ b."""
    at, there = row[:, None] * D + channel, mine[:, None] & (channel < D)
    value = tl.load(a + at, mask=there, other=0)
    if SCALED:
        value = value * tl.load(coef + channel, mask=channel < D, other=0)
    if LEFT == 2:
        c = tl.load(coef + D + channel, mask=channel < D, other=0)
        value += c * tl.load(b + at, mask=there, other=0)
    return value


@triton.jit(do_not_specialize=["n", "length", "entries", "pieces"])
def _edge_dots_kernel(
    out, start, column, places, left, left_b, right, coef, left_2, left_b_2, right_2, coef_2, n,
    length, entries, pieces,
    D: tl.constexpr, PAIRS: tl.constexpr, LEFT: tl.constexpr, LEFT_2: tl.constexpr,
    SCALED: tl.constexpr, ADDS: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, ORDERED: tl.constexpr,
):  # fmt: skip
    """out[e] = left[i] · right[j], for one pair or two; a program processes pieces of rows."""
    member = tl.program_id(1).to(tl.int64)
    out += member * entries
    left += member * n * D
    left_b += member * n * D
    right += member * length * D
    coef += member * LEFT * D
    left_2 += member * n * D
    left_b_2 += member * n * D
    right_2 += member * length * D
    coef_2 += member * LEFT_2 * D
    channel = tl.arange(0, BLOCK_D)[None, :]
    valid = channel < D
    entry = tl.arange(0, BLOCK)[None, :]
    row, mine, begin, count = _side_by_side(
        start, places, 0, False, tl.program_id(0), pieces, ROWS, ORDERED, False
    )
    own = _left(left, left_b, coef, row, channel, mine, D, LEFT, SCALED)
    second = own
    if PAIRS == 2:
        second = _left(left_2, left_b_2, coef_2, row, channel, mine, D, LEFT_2, SCALED)
    known = entry < count[:, None]
    place = begin[:, None] + entry
    node = tl.load(column + place, mask=known, other=0)
    for _ in range(0, tl.max(count, axis=0), BLOCK):
        at = node.to(tl.int64)[:, :, None] * D + channel[:, None, :]
        there = known[:, :, None] & valid[:, None, :]
        value = own[:, None, :] * tl.load(right + at, mask=there, other=0)
        if PAIRS == 2:
            value += second[:, None, :] * tl.load(right_2 + at, mask=there, other=0)
        dots = tl.sum(value, axis=2)
        if ADDS:
            dots += tl.load(out + place, mask=known, other=0)
        tl.store(out + place, dots, mask=known)
        count -= BLOCK
        place += BLOCK
        known = entry < count[:, None]
        node = tl.load(column + place, mask=known, other=0)


@triton.jit(do_not_specialize=["n", "each"])
def _dot_kernel(
    out, x, y, n, each, D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Σ x y over ``each`` blocks of rows."""
    member = tl.program_id(2).to(tl.int64)
    x += member * n * D
    y += member * n * D
    channel = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    total = tl.zeros([ROWS, BLOCK_D], x.dtype.element_ty)
    first = tl.program_id(0) * each
    for block in range(first, first + each):
        row = (block * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
        at, there = row * D + channel, (row < n) & (channel < D)
        total += tl.load(x + at, mask=there, other=0) * tl.load(y + at, mask=there, other=0)
    part = tl.program_id(0) * tl.num_programs(2) + member
    tl.store(out + part * D + channel, tl.sum(total, axis=0)[None, :], mask=channel < D)


@triton.jit(do_not_specialize=["n", "length", "entries", "pieces"])
def _head_dots_kernel(
    out, start, column, places, q, k, n, length, entries, pieces,
    SCALE: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ORDERED: tl.constexpr,
):  # fmt: skip
    """Scores of some pieces of rows."""
    stride: tl.constexpr = HEADS * D
    member = tl.program_id(1).to(tl.int64)
    q += member * n * stride
    k += member * length * stride
    out += member * entries * HEADS
    head, lane, valid = _heads(HEADS, D, ROWS, BLOCK_H, BLOCK_D)
    row, mine, begin, count = _side_by_side(
        start, places, 0, False, tl.program_id(0), pieces, ROWS, ORDERED, False, BLOCK_H
    )
    count = tl.where(head < HEADS, count, 0)
    at = row[:, None] * stride + lane
    query = tl.load(q + at, mask=mine[:, None] & valid, other=0) * SCALE
    entry = tl.arange(0, BLOCK)[None, :]
    known = entry < count[:, None]
    place = begin[:, None] + entry
    node = tl.load(column + place, mask=known, other=0)
    for _ in range(0, tl.max(count, axis=0), BLOCK):
        values = k + (node.to(tl.int64)[:, :, None] * stride + lane[:, None, :])
        keys = tl.load(values, mask=known[:, :, None] & valid[:, None, :], other=0)
        dots = tl.sum(query[:, None, :] * keys, axis=2)
        tl.store(out + place * HEADS + head[:, None], dots, mask=known)
        count -= BLOCK
        place += BLOCK
        known = entry < count[:, None]
        node = tl.load(column + place, mask=known, other=0)


@triton.jit(do_not_specialize=["n", "entries", "weight_step", "heavies"])
def _shares_kernel(
    out, mean, start, places, scores, weight, n, entries, weight_step, heavies,
    WEIGHTED: tl.constexpr, HEADS: tl.constexpr, BLOCK_H: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, ORDERED: tl.constexpr, HEAVY: tl.constexpr,
):  # fmt: skip
    """Compute the maximum of the scores and the sum of their exponentials, then the quotients.

    Every lane first accumulates over its own entries, so a block waits for no other lane.

    Entries of zero weight are excluded from the maximum: a large one would make all others
    underflow.
    """
    member = tl.program_id(1).to(tl.int64)
    out += member * entries * HEADS
    mean += member * entries
    scores += member * entries * HEADS
    weight += member * weight_step
    head = tl.arange(0, BLOCK_H)[None, None, :]
    shared, block, _ = _blocks(heavies, 1)
    _, _, begin, count = _side_by_side(
        start, places, heavies, shared, block, n, ROWS, ORDERED, HEAVY
    )
    most = tl.max(count, axis=0)
    # Entries are the first axis: Triton then assigns adjacent entries to the lanes of a warp.
    lane = tl.arange(0, BLOCK)[:, None, None]
    begin, count = begin[None, :, None], count[None, :, None]
    # The lowest number instead of −∞: in a row whose weights are all zero, −∞ − (−∞) would be NaN.
    highest = tl.full([BLOCK, ROWS, BLOCK_H], LOWEST, scores.dtype.element_ty)
    total = tl.zeros([BLOCK, ROWS, BLOCK_H], scores.dtype.element_ty)
    for first in range(0, most, BLOCK):
        entry = first + lane
        place, mask = begin + entry, (entry < count) & (head < HEADS)
        score = tl.load(scores + place * HEADS + head, mask=mask, other=float("-inf"))
        if WEIGHTED:
            share = tl.load(weight + place, mask=entry < count, other=0)
            score = tl.where(share != 0, score, float("-inf"))
        higher = tl.maximum(highest, score)
        part = tl.exp(score - higher)
        if WEIGHTED:
            part *= share
        total = total * tl.exp(highest - higher) + part
        highest = higher
    top = tl.max(highest, axis=0)
    total = tl.sum(total * tl.exp(highest - top[None, :, :]), axis=0)
    if HEAVY:  # noqa: SIM102, a compile-time constant
        if shared:
            own = top
            top = tl.broadcast_to(tl.max(own, axis=0)[None, :], (ROWS, BLOCK_H))
            total = tl.sum(total * tl.exp(own - top), axis=0)[None, :]
            total = tl.broadcast_to(total, (ROWS, BLOCK_H))
    total = tl.where(total == 0, 1, total)
    # ``out`` may be the scores, which other threads may still read.
    tl.debug_barrier()
    for first in range(0, most, BLOCK):
        entry = first + lane
        place, mask = begin + entry, (entry < count) & (head < HEADS)
        score = tl.load(scores + place * HEADS + head, mask=mask, other=0)
        value = tl.exp(tl.minimum(score - top[None, :, :], 0)) / total[None, :, :]
        if WEIGHTED:
            value *= tl.load(weight + place, mask=entry < count, other=0)
        tl.store(out + place * HEADS + head, value, mask=mask)
        value = tl.sum(tl.where(mask, value, 0), axis=2, keep_dims=True) / HEADS
        tl.store(mean + place, value, mask=entry < count)


@triton.jit(do_not_specialize=["n", "entries", "heavies"])
def _attend_back_kernel(
    out, start, places, attention, grad, n, entries, heavies,
    STRIDE_E: tl.constexpr, STRIDE_H: tl.constexpr, HEADS: tl.constexpr, BLOCK_H: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ORDERED: tl.constexpr, HEAVY: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    out += member * entries * HEADS
    attention += member * entries * HEADS
    grad += member * entries * STRIDE_E
    head = tl.arange(0, BLOCK_H)[None, None, :]
    shared, block, _ = _blocks(heavies, 1)
    _, _, begin, count = _side_by_side(
        start, places, heavies, shared, block, n, ROWS, ORDERED, HEAVY
    )
    most = tl.max(count, axis=0)
    lane = tl.arange(0, BLOCK)[:, None, None]  # entries first, as in `_shares_kernel`
    begin, count = begin[None, :, None], count[None, :, None]
    total = tl.zeros([BLOCK, ROWS, BLOCK_H], out.dtype.element_ty)
    for first in range(0, most, BLOCK):
        place, mask = begin + first + lane, (first + lane < count) & (head < HEADS)
        share = tl.load(attention + place * HEADS + head, mask=mask, other=0)
        total += share * tl.load(grad + place * STRIDE_E + head * STRIDE_H, mask=mask, other=0)
    mean = tl.sum(total, axis=0)
    if HEAVY:  # noqa: SIM102, a compile-time constant
        if shared:
            mean = tl.broadcast_to(tl.sum(mean, axis=0)[None, :], (ROWS, BLOCK_H))
    for first in range(0, most, BLOCK):
        place, mask = begin + first + lane, (first + lane < count) & (head < HEADS)
        share = tl.load(attention + place * HEADS + head, mask=mask, other=0)
        slope = tl.load(grad + place * STRIDE_E + head * STRIDE_H, mask=mask, other=0)
        tl.store(out + place * HEADS + head, share * (slope - mean[None, :, :]), mask=mask)


@triton.jit
def _dropped(value, number, seed, rates, limit, high, low, member, DROPS: tl.constexpr):
    """Dropout of the elements with these indices, see `_dropout_of`."""
    if DROPS > 0:
        first = tl.load(seed + member).to(tl.uint32) * 0x85EBCA6B
        hashed = number.to(tl.uint32) * 0x9E3779B9 + first
        hashed = (hashed ^ (hashed >> 16)) * 0x7FEB352D
        hashed = (hashed ^ (hashed >> 15)) * 0x846CA68B
        hashed = hashed ^ (hashed >> 16)
        if DROPS == 2:
            rate = tl.load(rates + member)
            stays = hashed >= (rate * 4294967296.0).to(tl.int64).to(tl.uint32)
            scale = 1 / (1 - rate)
        else:
            stays = hashed >= limit
            scale = tl.full([], high, tl.float64) + tl.full([], low, tl.float64)
        value = tl.where(stays, value * scale.to(value.dtype), 0)
    return value


@triton.jit(do_not_specialize=["limit", "high", "low"])  # avoid one kernel per rate
def _dropout_kernel(
    out, x, seed, rates, limit, high, low, count, DROPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    x += member * count
    out += member * count
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = number < count
    value = tl.load(x + number, mask=there, other=0)
    value = _dropped(value, number, seed, rates, limit, high, low, member, DROPS)
    tl.store(out + number, value, mask=there)


@triton.jit(do_not_specialize=["count"])
def _draw_kernel(out, numbers, place, rate, count):
    member = tl.program_id(0)
    at = tl.load(place + member)
    tl.store(out + member, tl.load(numbers + member * count + at))
    tl.store(place + member, at + (tl.load(rate + member) > 0).to(tl.int64))


@triton.jit
def _elements(block, n, D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr):
    """Offsets of the elements of a block of rows in the matrix of a member, and their mask."""
    channel = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    row = (block * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    return row * D + channel, (row < n) & (channel < D)


@triton.jit
def _of_channels(x, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Values for the channels of this program."""
    channel = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    return tl.load(x + channel, mask=channel < D, other=0)


@triton.jit(do_not_specialize=["limit", "high", "low", "n"])
def _activate_kernel(
    out, h, scales, seed, rates, limit, high, low, n,
    RELU: tl.constexpr, DROPS: tl.constexpr, SCALED: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(2).to(tl.int64)
    at, there = _elements(tl.program_id(0), n, D, BLOCK_D, ROWS)
    z = tl.load(h + member * n * D + at, mask=there, other=0)
    if SCALED:
        scales += member * D
        scale = _of_channels(scales, D, BLOCK_D)
        z = scale * z + _of_channels(scales + tl.num_programs(2) * D, D, BLOCK_D)
    if RELU:
        z = tl.where(z < 0, 0, z)  # NaN stays
    value = _dropped(z, at, seed, rates, limit, high, low, member, DROPS)
    tl.store(out + member * n * D + at, value, mask=there)


@triton.jit(do_not_specialize=["n", "each"])
def _moments_kernel(
    moments, h, n, each, D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Mean of a part of the rows, and the sum of squared deviations from it.

    Every thread first accumulates over its own rows by Welford's algorithm.
    """
    member = tl.program_id(2).to(tl.int64)
    h += member * n * D
    zero = tl.zeros([ROWS, BLOCK_D], h.dtype.element_ty)
    mean, spread, count = zero, zero, zero
    first = tl.program_id(0) * each
    for block in range(first, first + each):
        at, there = _elements(block, n, D, BLOCK_D, ROWS)
        off = tl.where(there, tl.load(h + at, mask=there, other=0) - mean, 0)
        count += there.to(count.dtype)
        step = off / tl.maximum(count, 1)
        mean += step
        spread += off * (off - step)
    total = tl.maximum(tl.sum(count, axis=0), 1)[None, :]
    middle = tl.sum(count * mean, axis=0)[None, :] / total
    off = mean - middle
    spread = tl.sum(spread + count * off * off, axis=0)[None, :]
    channel = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    place = (tl.program_id(0) * tl.num_programs(2) + member) * 2 * D + channel
    tl.store(moments + place, middle, mask=channel < D)
    tl.store(moments + place + D, spread, mask=channel < D)


@triton.jit(do_not_specialize=["n", "rows", "parts"])
def _scales_kernel(
    scales, moments, weight, bias, running_mean, running_var, n, rows, parts,
    TRAINING: tl.constexpr, MOMENTUM: tl.constexpr, EPS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Combine the moments of parts with ``rows`` rows each, and compute the scales."""
    members, member = tl.num_programs(1), tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    valid = channel < D
    own = member * D + channel
    kind = scales.dtype.element_ty
    mean = tl.load(running_mean + own, mask=valid, other=0)
    variance = tl.load(running_var + own, mask=valid, other=0)
    if TRAINING:
        before, spread_before = mean, variance
        side = tl.arange(0, BLOCK)[:, None]
        total = tl.zeros([BLOCK, BLOCK_D], kind)
        for first in range(0, parts, BLOCK):
            part = first + side
            there = (part < parts) & valid
            share = tl.minimum(n - part * rows, rows).to(kind) / n
            at = moments + (part * members + member) * 2 * D + channel
            total += share * tl.load(at, mask=there, other=0)
        mean = tl.sum(total, axis=0)[None, :]
        total = tl.zeros([BLOCK, BLOCK_D], kind)
        for first in range(0, parts, BLOCK):
            part = first + side
            there = (part < parts) & valid
            share = tl.minimum(n - part * rows, rows).to(kind) / n
            at = moments + (part * members + member) * 2 * D + channel
            off = tl.where(there, tl.load(at, mask=there, other=0) - mean, 0)
            total += tl.load(at + D, mask=there, other=0) / n + share * off * off
        variance = tl.sum(total, axis=0)[None, :]
        unbiased = variance * (n / tl.maximum(n - 1, 1).to(kind))
        moved = before + MOMENTUM * (mean - before)
        tl.store(running_mean + own, moved, mask=valid)
        moved = spread_before + MOMENTUM * (unbiased - spread_before)
        tl.store(running_var + own, moved, mask=valid)
    inverse = 1 / tl.sqrt(variance + EPS)
    scale = tl.load(weight + own, mask=valid, other=0) * inverse
    shift = tl.load(bias + own, mask=valid, other=0) - mean * scale
    size = members * D
    tl.store(scales + own, scale, mask=valid)
    tl.store(scales + size + own, shift, mask=valid)
    tl.store(scales + 2 * size + own, mean, mask=valid)
    tl.store(scales + 3 * size + own, inverse, mask=valid)


@triton.jit(do_not_specialize=["limit", "high", "low", "n", "each"])
def _slopes_kernel(
    partial, grad, h, scales, seed, rates, limit, high, low, n, each,
    RELU: tl.constexpr, DROPS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Σ x g and Σ g over ``each`` blocks of rows, see `gread.kernels.reference.activate_back`."""
    members, member = tl.num_programs(2), tl.program_id(2).to(tl.int64)
    grad += member * n * D
    h += member * n * D
    scales += member * D
    size = members * D
    scale = _of_channels(scales, D, BLOCK_D)
    shift = _of_channels(scales + size, D, BLOCK_D)
    mean = _of_channels(scales + 2 * size, D, BLOCK_D)
    inverse = _of_channels(scales + 3 * size, D, BLOCK_D)
    with_x = tl.zeros([ROWS, BLOCK_D], h.dtype.element_ty)
    total = with_x
    first = tl.program_id(0) * each
    for block in range(first, first + each):
        at, there = _elements(block, n, D, BLOCK_D, ROWS)
        own = tl.load(h + at, mask=there, other=0)
        g = tl.load(grad + at, mask=there, other=0)
        g = _dropped(g, at, seed, rates, limit, high, low, member, DROPS)
        if RELU:
            g = tl.where(scale * own + shift > 0, g, 0)
        with_x += (own - mean) * g
        total += g
    channel = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    place = (2 * tl.program_id(0) * members + member) * D + channel
    with_x = inverse * tl.sum(with_x, axis=0)[None, :]
    tl.store(partial + place, with_x, mask=channel < D)
    tl.store(partial + place + size, tl.sum(total, axis=0)[None, :], mask=channel < D)


@triton.jit(do_not_specialize=["limit", "high", "low", "n"])
def _activate_back_kernel(
    out, grad, h, scales, sums, seed, rates, limit, high, low, n,
    RELU: tl.constexpr, DROPS: tl.constexpr, SCALED: tl.constexpr, TRAINING: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(2).to(tl.int64)
    start = member * n * D
    at, there = _elements(tl.program_id(0), n, D, BLOCK_D, ROWS)
    own = tl.load(h + start + at, mask=there, other=0)
    g = tl.load(grad + start + at, mask=there, other=0)
    g = _dropped(g, at, seed, rates, limit, high, low, member, DROPS)
    if SCALED:
        size = tl.num_programs(2) * D
        scales += member * D
        scale = _of_channels(scales, D, BLOCK_D)
        if RELU:
            shift = _of_channels(scales + size, D, BLOCK_D)
            g = tl.where(scale * own + shift > 0, g, 0)
        if TRAINING:
            sums += member * D
            inverse = _of_channels(scales + 3 * size, D, BLOCK_D)
            x = (own - _of_channels(scales + 2 * size, D, BLOCK_D)) * inverse
            grad_weight = _of_channels(sums, D, BLOCK_D)
            g -= (_of_channels(sums + size, D, BLOCK_D) + x * grad_weight) / n
        g *= scale
    elif RELU:
        g = tl.where(own > 0, g, 0)
    tl.store(out + start + at, g, mask=there)


@triton.jit
def _logits(x, member, n, K: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr):
    """Rows of this program, whether they exist, and offsets of their logits with a mask."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK_K)[None, :]
    mine = row < n
    at = (member * n + row)[:, None] * K + channel
    return row, mine, at, mine[:, None] & (channel < K)


@triton.jit
def _log_softmax(logits, target, K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Highest logits, probabilities, −log probabilities of the targets, and mask of the targets."""
    channel = tl.arange(0, BLOCK_K)[None, :]
    highest = tl.max(tl.where(channel < K, logits, float("-inf")), axis=1)
    powers = tl.where(channel < K, tl.exp(logits - highest[:, None]), 0)
    total = tl.sum(powers, axis=1)
    own = channel == target[:, None]
    value = tl.sum(tl.where(own, logits, 0), axis=1)
    return highest, powers / total[:, None], tl.log(total) + highest - value, own


@triton.jit(do_not_specialize=["n", "weight_step"])
def _log_loss_kernel(
    sums, grad, x, target, weight, n, weight_step,
    K: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    row, mine, at, there = _logits(x, member, n, K, BLOCK_K, ROWS)
    logits = tl.load(x + at, mask=there, other=0)
    aim = tl.load(target + row, mask=mine, other=0)
    share = tl.load(weight + member * weight_step + row, mask=mine, other=0)
    _, chance, loss, own = _log_softmax(logits, aim, K, BLOCK_K)
    counts = share != 0
    slope = share[:, None] * tl.where(own, chance - 1, chance)
    tl.store(grad + at, tl.where(counts[:, None], slope, 0), mask=there)
    part = tl.program_id(0) * tl.num_programs(1) + member
    tl.store(sums + part, tl.sum(tl.where(counts, share * loss, 0), axis=0))


@triton.jit(do_not_specialize=["n", "sets_step", "counts_step"])
def _score_kernel(
    out, x, bias, target, sets, counts, n, sets_step, counts_step,
    K: tl.constexpr, SETS: tl.constexpr, BIASED: tl.constexpr, BLOCK_K: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    row, mine, at, there = _logits(x, member, n, K, BLOCK_K, ROWS)
    channel = tl.arange(0, BLOCK_K)[None, :]
    logits = tl.load(x + at, mask=there, other=0)
    if BIASED:
        logits += tl.load(bias + channel, mask=channel < K, other=0)
    aim = tl.load(target + row, mask=mine, other=0)
    share = tl.load(counts + member * counts_step + row, mask=mine, other=0)
    highest, _, loss, _ = _log_softmax(logits, aim, K, BLOCK_K)
    found = tl.min(tl.where(there & (logits == highest[:, None]), channel, BLOCK_K), axis=1)
    # NaN if a logit is not finite.
    undefined = tl.sum(tl.sum(tl.where(there, 0 * logits, 0), axis=1), axis=0)
    part = (tl.program_id(0) * tl.num_programs(1) + member) * (SETS + 1)
    for one in tl.static_range(SETS):
        weight = tl.load(sets + member * sets_step + one * n + row, mask=mine, other=0)
        right = tl.sum(tl.where(found == aim, weight, 0), axis=0)
        tl.store(out + part + one, right + undefined)
    tl.store(out + part + SETS, tl.sum(tl.where(share != 0, share * loss, 0), axis=0) + undefined)


@triton.jit
def _keep_kernel(table, better, SMALL: tl.constexpr, BLOCK: tl.constexpr):
    """Copy one chunk of one member."""
    member = tl.program_id(1).to(tl.int64)
    if tl.load(better + member):
        at = table + tl.program_id(0) * 4
        word: tl.constexpr = tl.int8 if SMALL else tl.int32
        kept = tl.load(at).to(tl.pointer_type(word))
        now = tl.load(at + 1).to(tl.pointer_type(word))
        lane = tl.arange(0, BLOCK)
        place, mask = member * tl.load(at + 2) + lane, lane < tl.load(at + 3)
        tl.store(kept + place, tl.load(now + place, mask=mask), mask=mask)


@triton.jit(do_not_specialize=["members"])
def _look_kernel(
    better, numbers, limits, val, number, epoch, running, members,
    SIGN: tl.constexpr, NUMBERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    every = tl.load(numbers + member * NUMBERS + lane, mask=lane < NUMBERS, other=0)
    infinite = (tl.abs(every) < float("inf")) == 0
    runs = tl.load(running + member) & (tl.sum(infinite.to(tl.int32), axis=0) == 0)
    found = (SIGN * tl.load(numbers + member * NUMBERS + 2)).to(tl.float64)
    known, now = tl.load(val + member), tl.load(epoch + member)
    best = runs & (found > known)
    chosen = tl.where(best, now, tl.load(number + member))
    tl.store(better + member, best)
    tl.store(val + member, tl.where(best, found, known))
    tl.store(number + member, chosen)
    runs = runs & (now - chosen < tl.load(limits + members + member))
    tl.store(epoch + member, now + 1)
    tl.store(running + member, runs & (now + 1 < tl.load(limits + member)))


@triton.jit(do_not_specialize=["grads_step", "moments_step"])
def _adam_kernel(
    table, grads, means, squares, rates, powers, grads_step, moments_step,
    MEAN: tl.constexpr, SQUARE: tl.constexpr, EPS: tl.constexpr, DOUBLE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Update one chunk of a parameter of one member."""
    member = tl.program_id(1).to(tl.int64)
    row = table + tl.program_id(0) * 6
    kind: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    lane = tl.arange(0, BLOCK)
    mask = lane < tl.load(row + 2)
    at = tl.load(row).to(tl.pointer_type(kind)) + member * tl.load(row + 1) + lane
    moment = member * moments_step + tl.load(row + 3) + lane
    number = tl.load(row + 5)
    rate = rates + 2 * (number * tl.num_programs(1) + member)
    x = tl.load(at, mask=mask, other=0)
    slope = tl.load(grads + member * grads_step + tl.load(row + 4) + lane, mask=mask, other=0)
    slope += tl.load(rate + 1) * x
    mean = tl.load(means + moment, mask=mask, other=0)
    square = tl.load(squares + moment, mask=mask, other=0)
    mean = mean * MEAN + slope * (1 - MEAN)
    square = square * SQUARE + slope * slope * (1 - SQUARE)
    tl.store(means + moment, mean, mask=mask)
    tl.store(squares + moment, square, mask=mask)
    first = (1 - tl.load(powers + 2 * number)).to(kind)
    second = tl.sqrt(1 - tl.load(powers + 2 * number + 1)).to(kind)
    step = tl.load(rate) / first
    tl.store(at, x - step * mean / (tl.sqrt(square) / second + EPS), mask=mask)
