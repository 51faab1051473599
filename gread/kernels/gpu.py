"""The kernels of `gread.kernels.reference` in Triton, for one GPU.

A program processes one row, or a few in sequence. It reads the entries of a row in blocks and keeps
everything else in registers. Kernels use no atomics, so results are deterministic, and do not
synchronize, so they can be captured in a CUDA graph.

A program holds a tile [entries, heads, channels]; matrices without heads have one head.
"""

# Triton's functions carry no types.
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

from gread.kernels.pattern import BY_LENGTH, LONGEST, Rows, recall
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
"""Warps of other programs of rows side by side."""
AT_ONCE = 8
"""Entries of a row that a thread reads at once, each into other registers."""
IN_FLIGHT = 128
"""Bytes in flight per thread: with the sums, two thirds of 96 registers, and 20 warps fit."""
SMALL = 2**14
"""Largest number of rows for which four warps per row still fit on the GPU at once, nearly."""
MANY = 2**19
"""Smallest number of entries for which a second launch for heavy rows is worthwhile."""
HEAVY = 512
"""Number of entries above which a row goes to the second launch, because it would run longest."""
WARPS = 2**11
"""Number of warps that run at a time. A row uses several of them while there are fewer rows."""
LONG = 64
"""Smallest number of blocks of entries in the longest row of a small graph for a second launch. It
has the rows with more than a quarter as many blocks. On an H200 a block took a warp 0.4 µs."""
PROGRAMS = 2**13
"""Programs of `pull`, each of which writes its sums: enough to fill the GPU three times."""
DOT_PARTS = 2**9
"""Largest number of parts of the nodes in `dot`, and in the sums of `activate`."""
LOWEST: tl.constexpr = tl.constexpr(-3e38)
"""About the lowest number in single precision."""
WORDS = 2**11
"""Words of a program of `Keeper`."""
CONTIGUOUS = torch.contiguous_format
EVERY = 2**31 - 1
"""Largest number of entries of a row, and of programs of a launch."""


def gather(rows: Rows, weight: Tensor, y: Tensor, terms: Terms) -> Tensor:
    """out = c₀ (A y) + c₁ y + ... + c_degree y^degree + Σ_m c_{degree+m} bases[m]."""
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
    order = recall(rows.start, BY_LENGTH)
    places, count = (
        (rows.column, _count(rows)) if order is None else (order.pieces, len(order.pieces))
    )
    side = _side_of(_ceil2(d), out.element_size(), WARPS_PER_TILE)
    if count:
        _edge_dots_kernel[(triton.cdiv(count, side), math.prod(members))](
            out, *rows, places, *arguments, _count(rows), length, rows.column.numel(), count,
            D=d, PAIRS=len(pairs), LEFT=len(first.left), LEFT_2=len(second.left),
            SCALED=first.coef is not None, ADDS=adds, BLOCK_D=_ceil2(d), ROWS=side,
            BLOCK=AT_ONCE, ORDERED=order is not None, num_warps=WARPS_PER_TILE,
        )  # fmt: skip
    return out


def head_dots(rows: Rows, q: Tensor, k: Tensor) -> Tensor:
    """q[i] · k[j] of every head, for every entry (i, j)."""
    *members, length, heads, d = k.shape
    block = {"BLOCK_H": _ceil2(heads), "BLOCK_D": _ceil2(d)}
    out = q.new_empty(*members, rows.column.numel(), heads)
    for launch in _launches(rows, math.prod(block.values()) * q.element_size(), math.prod(members)):
        _head_dots_kernel[(launch.programs, math.prod(members))](
            out, *rows, q.contiguous(), k.contiguous(), _count(rows), length, rows.column.numel(),
            HEADS=heads, D=d, **block, **launch.options,
        )  # fmt: skip
    return out


def shares(rows: Rows, scores: Tensor, weight: Tensor | None = None) -> Tensor:
    """weight[e] exp(scores[e]) of every head, every row divided by its sum."""
    scores = scores.contiguous()
    return _attend(rows, torch.empty_like(scores), scores, scores, weight, 1, given=True)


def attend(rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None = None) -> Tensor:
    """Attention of every head: weight[e] exp(q[i] · k[j] / √d_k), every row divided by its sum."""
    *members, _, heads, d = q.shape
    out = q.new_empty(*members, rows.column.numel(), heads)
    return _attend(rows, out, q.contiguous(), k.contiguous(), weight, d, given=False)


def _attend(
    rows: Rows, out: Tensor, q: Tensor, k: Tensor, weight: Tensor | None, d: int, given: bool
) -> Tensor:
    """Fill ``out`` [E, heads] from q and k, or from scores passed as q."""
    *members, entries, heads = out.shape
    block = {"BLOCK_H": _ceil2(heads), "BLOCK_D": _ceil2(d)}
    for launch in _launches(
        rows, math.prod(block.values()) * out.element_size(), math.prod(members)
    ):
        _attend_kernel[(launch.programs, math.prod(members))](
            out, *rows, q, k, out if weight is None else weight.contiguous(), _count(rows), entries,
            entries if weight is not None and weight.dim() > 1 else 0,
            HEADS=heads, D=d, SCALE=1 / math.sqrt(d), GIVEN=given, WEIGHTED=weight is not None,
            **block, **launch.options,
        )  # fmt: skip
    return out


def attend_back(rows: Rows, attention: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the scores, attention ⊙ (grad − its mean over the row under attention)."""
    attention = attention.contiguous()
    out = torch.empty_like(attention)
    *members, entries, heads = attention.shape
    # Strides, because a gradient that all heads share is stored once.
    shared = grad.dim() < attention.dim()
    grad = (grad.unsqueeze(-1) if shared else grad).contiguous()
    width = _ceil2(heads) * attention.element_size()
    for launch in _launches(rows, width, math.prod(members), in_flight=16):
        _attend_back_kernel[(launch.programs, math.prod(members))](
            out, *rows, attention, grad, _count(rows), entries,
            STRIDE_E=1 if shared else heads, STRIDE_H=0 if shared else 1, HEADS=heads,
            BLOCK_H=_ceil2(heads), **launch.options,
        )  # fmt: skip
    return out


def gather_heads(rows: Rows, weight: Tensor, y: Tensor, order: Tensor | None = None) -> Tensor:
    """out[i, head] = Σ over the entries e of row i of weight[e, head] · y[j, head].

    A copy of the entries in another order takes longer than their product.
    """
    *members, length, heads, d = y.shape
    block = {"BLOCK_H": _ceil2(heads), "BLOCK_D": _ceil2(d)}
    out = y.new_empty(*members, _count(rows), heads, d)
    for launch in _launches(rows, math.prod(block.values()) * y.element_size(), math.prod(members)):
        _gather_heads_kernel[(launch.programs, math.prod(members))](
            out, *rows, rows.column if order is None else order, weight.contiguous(),
            y.contiguous(), _count(rows), length, rows.column.numel(),
            HEADS=heads, D=d, ORDERED=order is not None, **block, **launch.options,
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
    """Arguments of kernels for dropout: 0 for none, 1 for a rate, 2 for one of each member."""
    if seed is None:
        return (x, x, 0, 1.0, 0.0), 0
    if isinstance(rate, Tensor):
        return (seed, rate, 0, 1.0, 0.0), 2
    scale = 1 / (1 - rate)
    high = float(np.float32(scale))  # Triton takes numbers in single precision
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
    few = min(_ceil2(d), 16)  # a program for each cache line of the moments, or two
    _scales_kernel[(triton.cdiv(d, few), count)](
        scales, moments, batch.weight.contiguous(), batch.bias.contiguous(), batch.running_mean,
        batch.running_var, n, each * side, parts, TRAINING=batch.training,
        MOMENTUM=batch.momentum, EPS=batch.eps, D=d, BLOCK_D=few, BLOCK=1024 // few,
    )  # fmt: skip
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
    """Parts of the nodes for sums over them.

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
    """Rows of logits of a program."""
    return max(min(1024 // _ceil2(k), 128), 1)


class Keeper:
    """Copies of tensors by member where a flag is set, all in one launch.

    Args:
        kept: Where the copies go, contiguous, with members in front if there are several.
        now: Tensors of the same shapes and types, whose memory stays where it is.
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
        """Copy the parts of the members where ``better`` is True, [members]."""
        for word, table in self.tables.items():
            _keep_kernel[(len(table), self.members)](
                table, better, SMALL=word is torch.int8, BLOCK=WORDS
            )


def adam_table(parameters: Sequence[Tensor], numbers: Sequence[int], places: Sequence[int],
               members: int) -> Tensor:  # fmt: skip
    """Chunks of parameters for `adam`, int64.

    Args:
        parameters: Contiguous, with members in front if there are several.
        numbers: Number of each among all parameters.
        places: Where the moments of each begin in a row of those of all parameters.
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
        table: From `adam_table`.
        grads: Gradients of these parameters one after another, [members, ...].
        means: First moments of all parameters, [members, ...].
        squares: Second moments, likewise.
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
    """Update what `gread.training.loop.Best` has of every member, and return which are better."""
    better = torch.empty_like(running)
    _look_kernel[(len(running),)](
        better, numbers.contiguous(), limits.contiguous(), val, number, epoch, running,
        len(running), SIGN=sign, NUMBERS=numbers.size(1), BLOCK=_ceil2(numbers.size(1)),
    )  # fmt: skip
    return better


class _Launch(NamedTuple):
    """One launch of a kernel over the rows."""

    programs: int
    options: dict[str, int]
    """Arguments of every kernel over rows: the rows of a program and the block size of entries."""


def _launches(rows: Rows, width: int, repeats: int, in_flight: int = IN_FLIGHT) -> list[_Launch]:
    """Launch parameters from values that are known without synchronization.

    Args:
        rows: The matrix.
        width: Bytes of a tile per entry, a power of two.
        repeats: Number of programs with the same rows, for other channels and members.
        in_flight: Bytes in flight per thread.
    """
    n, entries = _count(rows), rows.column.numel()
    if n == 0:
        return []
    mean = entries / n
    large = n > SMALL and entries >= MANY
    longest = recall(rows.start, LONGEST) or (EVERY if large else 0)

    def block(warps: int, usual: float) -> int:
        # A block much longer than the rows wastes work.
        fitting = max(32 * warps * in_flight // width, 1)
        return min(fitting, 1024, max(16, _ceil2(math.ceil(usual))))

    def launch(
        each: int, warps: int, registers: int, usual: float, fewest: int, most: int
    ) -> _Launch:
        options = {
            "each": each,
            # A constant if no row is too short, to avoid recompilation.
            "SPAN": _ceil2(each) if fewest else 1,
            "FEWEST": fewest,
            "MOST": most,
            "BLOCK": block(warps, usual),
            "num_warps": warps,
            "maxnreg": registers,
        }
        return _Launch(triton.cdiv(n, each), options)

    # A large graph fills the GPU best with one warp per row. In a small graph with long rows, the
    # longest row determines the time. The register limit is the lowest that rarely spills.
    warps = 4 if n <= SMALL and mean >= 16 else min(max(width // 512, 1), 8)
    usual = 2 * mean
    unused = WARPS // (n * max(repeats, 1))
    if unused > warps:
        warps, usual = min(_ceil2(unused + 1) // 2, 8), max(usual, longest)
    long = LONG * block(warps, usual)
    heavy, limit = (HEAVY, HEAVY) if large else (long // 4, long)
    if longest <= limit:
        return [launch(1, warps, 96, usual, 0, EVERY)]
    return [
        launch(1, warps, 96, usual, 0, heavy),
        launch(64 if large else 8, 8, 128, 2 * HEAVY, heavy + 1, EVERY),
    ]


def _combine(
    rows: Rows, weight: Tensor, x: Tensor, y: Tensor | None, terms: Terms
) -> tuple[Tensor, Tensor]:
    """`gather` of x, or with y `pull` of x; and the sums of every program of `pull`."""
    coef, bases, degree = terms
    *members, length, d = x.shape
    n, count = _count(rows), math.prod(members)
    cached = x.numel() * x.element_size() <= CACHED
    widest, warps = (SLICE, WARPS_PER_SLICE) if cached else (CHANNELS, WARPS_PER_TILE)
    channels = min(_ceil2(d), widest)
    blocks = triton.cdiv(d, channels)
    most = EVERY if y is None else max(PROGRAMS // max(blocks * count, 1), 1)
    tile = _tile_of(rows, channels, x.element_size(), warps, most)
    out = x.new_empty(*members, n, d)
    partial = x.new_empty(0 if y is None else tile.programs, *members, 1 + degree, d)
    x = x.contiguous()
    if n:
        _combine_kernel[(tile.programs, blocks, count)](
            out, partial, *rows, tile.places, weight.contiguous(), x,
            x if y is None else y.contiguous(), coef.contiguous(),
            *[base.contiguous() for base in bases], *[x] * (5 - len(bases)), n, length,
            rows.column.numel() if weight.dim() > 1 else 0,
            coef.size(-2) if coef.dim() > 2 else 0, tile.heavy, tile.each,
            D=d, DEGREE=degree, BASES=len(bases), SUMS=y is not None, BLOCK_D=channels,
            **tile.options,
        )  # fmt: skip
    return out, partial


class _Tile(NamedTuple):
    """Division of the rows among the programs of a launch."""

    places: Tensor
    """The order of the rows, see `gread.kernels.pattern.RowOrder`; without one, any tensor."""
    heavy: int
    """Rows at the front of it that all warps of a program read together; the first programs have
    one each."""
    each: int
    """Number of blocks of rows of every other program."""
    programs: int
    options: dict[str, int]


def _tile_of(rows: Rows, channels: int, size: int, warps: int, most: int = EVERY) -> _Tile:
    """Division of the rows, from values that are known without synchronization.

    Args:
        rows: The matrix.
        channels: Channels of a program, a power of two.
        size: Bytes of a number.
        warps: Warps of a program.
        most: Largest number of programs for rows that are not heavy.
    """
    side = _side_of(channels, size, warps)
    order = recall(rows.start, BY_LENGTH)
    places, heavy = (rows.column, 0) if order is None else (order.places, order.heavy)
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


def _side_of(channels: int, size: int, warps: int) -> int:
    """Number of rows that a program has side by side.

    A thread has 16 bytes of one row, so a warp has several rows if a row is narrow, and a sum over
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
def _rows(start, n, each, FEWEST: tl.constexpr, SPAN: tl.constexpr):
    """First row of this program, and the row after its last."""
    first = tl.program_id(0).to(tl.int64) * each
    last = tl.minimum(first + each, n)
    if FEWEST > 0:
        # Heavy rows are few: compare all rows at once, and begin and stop at a heavy row.
        row = first + tl.arange(0, SPAN)
        there = row < last
        begin = tl.load(start + row, mask=there, other=0)
        heavy = there & (tl.load(start + row + 1, mask=there, other=0) - begin >= FEWEST)
        first = tl.min(tl.where(heavy, row, last), axis=0)
        last = tl.max(tl.where(heavy, row + 1, first), axis=0)
    return first, last


@triton.jit
def _entries(start, row, FEWEST: tl.constexpr, MOST: tl.constexpr):
    """Start and number of the entries of a row, and whether this launch processes the row."""
    begin = tl.load(start + row)
    count = (tl.load(start + row + 1) - begin).to(tl.int32)
    return begin, count, (count >= FEWEST) & (count <= MOST)


@triton.jit
def _heads(HEADS: tl.constexpr, D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr):
    """Offsets of the values of a node, [heads, channels], and a mask of the valid ones."""
    head = tl.arange(0, BLOCK_H)[:, None]
    channel = tl.arange(0, BLOCK_D)[None, :]
    return head * D + channel, (head < HEADS) & (channel < D)


@triton.jit
def _tile(x, node, known, lane, there, STRIDE: tl.constexpr):
    """x[node] as a tile [entries, heads, channels]; zero where a mask is false."""
    at = node.to(tl.int64)[:, None, None] * STRIDE + lane[None, :, :]
    return tl.load(x + at, mask=known[:, None, None] & there[None, :, :], other=0)


@triton.jit
def _product(
    column, order, weight, begin, count, x, lane, there,
    HEADS: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr, ORDERED: tl.constexpr,
):  # fmt: skip
    """Σ over the ``count`` entries of weight[e, head] · x[j, head], [heads, channels]."""
    head = tl.arange(0, BLOCK_H)[None, :]
    total = tl.zeros([BLOCK, BLOCK_H, BLOCK_D], x.dtype.element_ty)
    entry = tl.arange(0, BLOCK)
    column += begin
    order += begin
    node = tl.load(column + entry, mask=entry < count, other=0)
    for _ in range(0, count, BLOCK):
        known = entry < count
        place = begin + entry
        if ORDERED:
            place = tl.load(order + entry, mask=known, other=0)
        at = place[:, None] * HEADS + head
        factor = tl.load(weight + at, mask=known[:, None] & (head < HEADS), other=0)
        tile = _tile(x, node, known, lane, there, STRIDE)
        # Prefetch the next columns together with the tile: one wait per block, not two.
        entry += BLOCK
        node = tl.load(column + entry, mask=entry < count, other=0)
        total += factor[:, :, None] * tile
    return tl.sum(total, axis=0)


@triton.jit
def _polynomial(y, coef, channel, there, D: tl.constexpr, DEGREE: tl.constexpr):
    """c₁ + c₂ y + ... + c_degree y^(degree-1)."""
    value = tl.load(coef + DEGREE * D + channel, mask=there, other=0)
    for less in tl.static_range(1, DEGREE):
        value = value * y + tl.load(coef + (DEGREE - less) * D + channel, mask=there, other=0)
    return value


@triton.jit
def _blocks(heavies, each):
    """Whether this program has a heavy row, and its first block of rows and the one after its last.

    Heavy rows come first, since they take longest.
    """
    shared = tl.program_id(0) < heavies
    first = tl.maximum(tl.program_id(0) - heavies, 0) * each
    return shared, first, tl.where(shared, first + 1, first + each)


@triton.jit
def _side_by_side(
    start, places, heavies, shared, block, n,
    ROWS: tl.constexpr, ORDERED: tl.constexpr, HEAVY: tl.constexpr,
):  # fmt: skip
    """ROWS rows of a block, or one heavy row in ROWS parts.

    Returns the row of each, whether there is one, its first entry, and how many follow from there.
    """
    side = tl.arange(0, ROWS)
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
    D: tl.constexpr, DEGREE: tl.constexpr, BASES: tl.constexpr, SUMS: tl.constexpr,
    BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ORDERED: tl.constexpr,
    HEAVY: tl.constexpr,
):  # fmt: skip
    """out = c₀ (A x) + (c₁ + c₂ y + ...) x + Σ c bases; in `gather`, y is x."""
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
    sum_0, sum_1, sum_2, sum_3 = zero, zero, zero, zero
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
            value += c * tl.load(bases[m] + own_bases + at, mask=there, other=0)
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
        if HEAVY:  # noqa: SIM102, a constant of the compiler
            if shared:
                product = tl.where(mine[:, None], tl.sum(product, axis=0)[None, :], 0)
        value += tl.load(coef + channel, mask=valid, other=0) * product
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
        for m in tl.static_range(1 + DEGREE):
            part = tl.program_id(0) * tl.num_programs(2) + member
            total = tl.sum(sums[m], axis=0)[None, :]
            tl.store(partial + (part * (1 + DEGREE) + m) * D + channel, total, mask=valid)


@triton.jit(do_not_specialize=["n", "length", "entries", "each"])
def _gather_heads_kernel(
    out, start, column, order, weight, y, n, length, entries, each,
    HEADS: tl.constexpr, D: tl.constexpr, ORDERED: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr, SPAN: tl.constexpr, FEWEST: tl.constexpr, MOST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    stride: tl.constexpr = HEADS * D
    member = tl.program_id(1).to(tl.int64)
    out += member * n * stride
    y += member * length * stride
    weight += member * entries * HEADS
    lane, there = _heads(HEADS, D, BLOCK_H, BLOCK_D)
    first, last = _rows(start, n, each, FEWEST, SPAN)
    for row in range(first, last):
        begin, count, mine = _entries(start, row, FEWEST, MOST)
        if mine:
            value = _product(
                column, order, weight, begin, count, y, lane, there,
                HEADS, stride, BLOCK, BLOCK_H, BLOCK_D, ORDERED,
            )  # fmt: skip
            tl.store(out + row * stride + lane, value, mask=there)


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
    """out[e] = left[i] · right[j], for one pair or two; a program has some pieces of rows."""
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


@triton.jit(do_not_specialize=["n", "length", "entries", "each"])
def _head_dots_kernel(
    out, start, column, q, k, n, length, entries, each,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
    SPAN: tl.constexpr, FEWEST: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    stride: tl.constexpr = HEADS * D
    member = tl.program_id(1).to(tl.int64)
    q += member * n * stride
    k += member * length * stride
    out += member * entries * HEADS
    lane, there = _heads(HEADS, D, BLOCK_H, BLOCK_D)
    head = tl.arange(0, BLOCK_H)[None, :]
    first, last = _rows(start, n, each, FEWEST, SPAN)
    for row in range(first, last):
        begin, count, mine = _entries(start, row, FEWEST, MOST)
        if mine:
            query = tl.load(q + row * stride + lane, mask=there, other=0)
            for at in range(0, count, BLOCK):
                entry = at + tl.arange(0, BLOCK)
                known = entry < count
                node = tl.load(column + begin + entry, mask=known, other=0)
                keys = _tile(k, node, known, lane, there, stride)
                dots = tl.sum(query[None, :, :] * keys, axis=2)
                place = out + (begin + entry[:, None]) * HEADS + head
                tl.store(place, dots, mask=known[:, None] & (head < HEADS))


@triton.jit(do_not_specialize=["n", "entries", "weight_step", "each"])
def _attend_kernel(
    out, start, column, q, k, weight, n, entries, weight_step, each,
    HEADS: tl.constexpr, D: tl.constexpr, SCALE: tl.constexpr, GIVEN: tl.constexpr,
    WEIGHTED: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr, SPAN: tl.constexpr,
    FEWEST: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scores, their maximum and the sum of their exponentials first, then the quotients.

    The scores are computed from q and k and stored in ``out``, or are passed as q.

    Entries of zero weight are excluded from the maximum: a large one would make all others
    underflow.
    """
    stride: tl.constexpr = HEADS * D
    member = tl.program_id(1).to(tl.int64)
    out += member * entries * HEADS
    weight += member * weight_step
    if GIVEN:
        scores = q + member * entries * HEADS
    else:
        scores = out
        q += member * n * stride
        k += member * n * stride
    lane, there = _heads(HEADS, D, BLOCK_H, BLOCK_D)
    head = tl.arange(0, BLOCK_H)[None, :]
    first, last = _rows(start, n, each, FEWEST, SPAN)
    for row in range(first, last):
        begin, count, mine = _entries(start, row, FEWEST, MOST)
        if mine:
            if not GIVEN:
                query = tl.load(q + row * stride + lane, mask=there, other=0) * SCALE
            # The lowest number instead of −∞: in a row whose weights are all zero, −∞ − (−∞) would
            # be NaN.
            highest = tl.full([1, BLOCK_H], LOWEST, q.dtype.element_ty)
            total = tl.zeros([1, BLOCK_H], q.dtype.element_ty)
            lanes = begin * HEADS + head
            for at in range(0, count, BLOCK):
                entry = at + tl.arange(0, BLOCK)
                known = entry < count
                mask = known[:, None] & (head < HEADS)
                place = lanes + entry[:, None] * HEADS
                if GIVEN:
                    score = tl.load(scores + place, mask=mask, other=0)
                else:
                    node = tl.load(column + begin + entry, mask=known, other=0)
                    keys = _tile(k, node, known, lane, there, stride)
                    score = tl.sum(query[None, :, :] * keys, axis=2)
                    tl.store(scores + place, score, mask=mask)
                counts = known[:, None]
                if WEIGHTED:
                    share = tl.load(weight + begin + entry, mask=known, other=0)[:, None]
                    counts = share != 0
                score = tl.where(counts, score, float("-inf"))
                higher = tl.maximum(highest, tl.max(score, axis=0)[None, :])
                part = tl.exp(score - higher)
                if WEIGHTED:
                    part *= share
                total = total * tl.exp(highest - higher) + tl.sum(part, axis=0)[None, :]
                highest = higher
            total = tl.where(total == 0, 1, total)
            # A thread may read scores that another thread has written.
            tl.debug_barrier()
            for at in range(0, count, BLOCK):
                entry = at + tl.arange(0, BLOCK)
                known = entry < count
                mask = known[:, None] & (head < HEADS)
                place = lanes + entry[:, None] * HEADS
                score = tl.load(scores + place, mask=mask, other=0)
                value = tl.exp(tl.minimum(score - highest, 0)) / total
                if WEIGHTED:
                    value *= tl.load(weight + begin + entry, mask=known, other=0)[:, None]
                tl.store(out + place, value, mask=mask)


@triton.jit(do_not_specialize=["n", "entries", "each"])
def _attend_back_kernel(
    out, start, column, attention, grad, n, entries, each,
    STRIDE_E: tl.constexpr, STRIDE_H: tl.constexpr, HEADS: tl.constexpr, BLOCK_H: tl.constexpr,
    SPAN: tl.constexpr, FEWEST: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    out += member * entries * HEADS
    attention += member * entries * HEADS
    grad += member * entries * STRIDE_E
    head = tl.arange(0, BLOCK_H)[None, :]
    first, last = _rows(start, n, each, FEWEST, SPAN)
    for row in range(first, last):
        begin, count, mine = _entries(start, row, FEWEST, MOST)
        if mine:
            total = tl.zeros([BLOCK, BLOCK_H], out.dtype.element_ty)
            shares = attention + begin * HEADS + head
            slopes = grad + begin * STRIDE_E + head * STRIDE_H
            for at in range(0, count, BLOCK):
                entry = at + tl.arange(0, BLOCK)[:, None]
                mask = (entry < count) & (head < HEADS)
                share = tl.load(shares + entry * HEADS, mask=mask, other=0)
                total += share * tl.load(slopes + entry * STRIDE_E, mask=mask, other=0)
            mean = tl.sum(total, axis=0)[None, :]
            for at in range(0, count, BLOCK):
                entry = at + tl.arange(0, BLOCK)[:, None]
                mask = (entry < count) & (head < HEADS)
                share = tl.load(shares + entry * HEADS, mask=mask, other=0)
                slope = tl.load(slopes + entry * STRIDE_E, mask=mask, other=0)
                tl.store(out + (begin + entry) * HEADS + head, share * (slope - mean), mask=mask)


@triton.jit
def _dropped(value, number, seed, rates, limit, high, low, member, DROPS: tl.constexpr):
    """Dropout of the elements with these numbers, see `_dropout_of`."""
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


@triton.jit(do_not_specialize=["limit", "high", "low"])  # not one kernel per rate
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
    """Places of a block of rows and their mask, in the matrix of a member."""
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
    """Mean of a part of the rows, and the sum of squared distances from it.

    Every thread first has those of its own rows, updated as by Welford.
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
    """Mean and variance from those of parts with ``rows`` rows each, and from them the scales."""
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
    """Rows of this program, whether they exist, and places of their logits with a mask."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK_K)[None, :]
    mine = row < n
    at = (member * n + row)[:, None] * K + channel
    return row, mine, at, mine[:, None] & (channel < K)


@triton.jit
def _log_softmax(logits, target, K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Highest logits, probabilities, −log of those of the targets, and where these are."""
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
    # Not a number if a logit is not finite.
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
