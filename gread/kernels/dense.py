"""`mix` of `gread.kernels.reference` on a GPU.

Several terms of equal width are multiplied by one Triton kernel. The backward pass has a kernel for
the terms and one for their matrices. Tensor cores compute a product in single precision as three
TF32 products, with an error similar to that of single precision. If PyTorch allows TF32, one TF32
product is used. The gradients of the matrices are sums over the nodes. The memory layout of their
arguments does not suit tensor cores, so they use ordinary arithmetic.

Other terms are multiplied by cuBLAS, as in the reference.
"""

# Triton functions have no type annotations.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-decorators=False, disallow-any-unimported=False

import math
from collections.abc import Sequence

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from gread.kernels import reference as plain

MOST_TERMS = 5
"""Largest number of terms that the kernels support."""
SIDE = 64
"""Largest number of channels of a program."""
FORWARD = {"ROWS": 64, "DEPTH": 32, "num_warps": 4}
"""Rows of a program of `mix`, and channels that it multiplies at once."""
BACKWARD = {"ROWS": 128, "DEPTH": 64, "num_warps": 8}
"""The same for the gradients of the terms."""
OUTER = {"ROWS": 32, "num_warps": 4}
"""Rows that a program of the gradients of the matrices reads at once."""
PROGRAMS = 2**10
"""Programs of the gradients of the matrices: enough to fill the GPU."""


def mix(terms: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """Compute Σ_i Z_i C_i + b."""
    if not _together(terms, weight):
        return plain.mix(terms, weight, bias)
    *members, n, d = terms[0].shape
    count, k = math.prod(members), weight.size(-1)
    out = terms[0].new_empty(*members, n, k)
    if out.numel():
        side = _side(k, SIDE)
        grid = triton.cdiv(n, FORWARD["ROWS"]), triton.cdiv(k, side), count
        _mix_kernel[grid](
            out, weight, bias.contiguous(), *_filled(terms), n, *_strides(weight),
            TERMS=len(terms), IN=d, OUT=k, SIDE=side, PRECISION=_precision(),
            **_fitted(FORWARD, d),
        )  # fmt: skip
    return out


def mix_back(
    grad: Tensor, terms: Sequence[Tensor], weight: Tensor
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Gradients of the terms, of C and of b."""
    if not _together(terms, weight) or not grad.numel():
        return plain.mix_back(grad, terms, weight)
    grad = grad.contiguous()
    sums = _outer(grad, terms)
    return _back(grad, terms, weight), sums[..., :-1, :], sums[..., -1, :]


def _back(grad: Tensor, terms: Sequence[Tensor], weight: Tensor) -> list[Tensor]:
    """Gradients of the terms."""
    *members, n, d = terms[0].shape
    back = [torch.empty_like(z, memory_format=torch.contiguous_format) for z in terms]
    side = _side(d, SIDE)
    grid = triton.cdiv(n, BACKWARD["ROWS"]), len(terms) * triton.cdiv(d, side), math.prod(members)
    weight = weight.contiguous()  # tensor cores read TF32 only along the summed channels
    _mix_back_kernel[grid](
        grad, weight, *_filled(back), n, *_strides(weight),
        IN=d, OUT=weight.size(-1), SIDE=side, PRECISION=_precision(),
        **_fitted(BACKWARD, weight.size(-1)),
    )  # fmt: skip
    return back


def _outer(grad: Tensor, terms: Sequence[Tensor]) -> Tensor:
    """Gradient of C, with that of b in the last row."""
    *members, n, d = terms[0].shape
    count, k, rows = math.prod(members), grad.size(-1), OUTER["ROWS"]
    side, width = _side(d, SIDE), _side(k, SIDE)
    tiles = len(terms) * triton.cdiv(d, side) * triton.cdiv(k, width)
    parts = max(min(PROGRAMS // (tiles * count), triton.cdiv(n, 4 * rows)), 1)
    each = triton.cdiv(triton.cdiv(n, parts), rows) * rows
    parts = triton.cdiv(n, each)
    partial = grad.new_empty(parts, *members, len(terms) * d + 1, k)
    _outer_kernel[(parts, tiles, count)](
        partial, grad, *_filled(terms), n, each,
        TERMS=len(terms), IN=d, OUT=k, SIDE=side, WIDTH=width, **OUTER,
    )  # fmt: skip
    return partial.sum(0)


def _together(terms: Sequence[Tensor], weight: Tensor) -> bool:
    """Return whether the kernels support these arguments."""
    single = all(z.dtype == torch.float32 for z in (*terms, weight))
    return single and 1 < len(terms) <= MOST_TERMS and len({z.shape for z in terms}) == 1


def _filled(terms: Sequence[Tensor]) -> list[Tensor]:
    """Contiguous terms, padded to the number of tensors that the kernels take."""
    return [z.contiguous() for z in terms] + [terms[0]] * (MOST_TERMS - len(terms))


def _strides(weight: Tensor) -> tuple[int, int, int]:
    """Strides of members (0 without members), rows and columns."""
    return weight.stride(0) if weight.dim() > 2 else 0, weight.stride(-2), weight.stride(-1)


def _side(width: int, most: int) -> int:
    """Smallest power of two that is at least ``width``, from 16 to ``most``."""
    return min(max(triton.next_power_of_2(width), 16), most)


def _fitted(shape: dict[str, int], width: int) -> dict[str, int]:
    """The shape of a program for sums over ``width`` channels."""
    return shape | {"DEPTH": _side(width, shape["DEPTH"])}


def _precision() -> str:
    matmul = torch.backends.cuda.matmul
    found = getattr(matmul, "fp32_precision", None)  # since PyTorch 2.9
    allowed = matmul.allow_tf32 if found is None else found == "tf32"
    return "tf32" if allowed else "tf32x3"


@triton.jit(do_not_specialize=["n"])
def _mix_kernel(
    out, weight, bias, term_0, term_1, term_2, term_3, term_4,
    n, member_step, row_step, column_step,
    TERMS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, ROWS: tl.constexpr,
    SIDE: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """ROWS rows and SIDE columns of Σ_i Z_i C_i + b."""
    terms = (term_0, term_1, term_2, term_3, term_4)
    member = tl.program_id(2).to(tl.int64)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.program_id(1) * SIDE + tl.arange(0, SIDE)[None, :]
    weight += member * member_step + column * column_step
    total = tl.zeros([ROWS, SIDE], tl.float32)
    for i in tl.static_range(TERMS):
        for first in range(0, IN, DEPTH):
            inner = first + tl.arange(0, DEPTH)
            across, down = inner[None, :], inner[:, None]
            values = terms[i] + (member * n + row) * IN + across
            z = tl.load(values, mask=(row < n) & (across < IN), other=0)
            matrix = weight + (i * IN + down) * row_step
            c = tl.load(matrix, mask=(down < IN) & (column < OUT), other=0)
            total = tl.dot(z, c, total, input_precision=PRECISION)
    total += tl.load(bias + member * OUT + column, mask=column < OUT, other=0)
    tl.store(out + (member * n + row) * OUT + column, total, mask=(row < n) & (column < OUT))


@triton.jit
def _chosen(number, first, second, third, fourth, fifth):
    """The argument with this number."""
    found = first
    if number == 1:
        found = second
    elif number == 2:
        found = third
    elif number == 3:
        found = fourth
    elif number == 4:
        found = fifth
    return found


@triton.jit(do_not_specialize=["n"])
def _mix_back_kernel(
    grad, weight, back_0, back_1, back_2, back_3, back_4, n, member_step, row_step, column_step,
    IN: tl.constexpr, OUT: tl.constexpr, ROWS: tl.constexpr, SIDE: tl.constexpr,
    DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """ROWS rows and SIDE columns of the gradient G C_iᵀ of a term."""
    member = tl.program_id(2).to(tl.int64)
    BLOCKS: tl.constexpr = (IN + SIDE - 1) // SIDE
    number = tl.program_id(1) // BLOCKS
    back = _chosen(number, back_0, back_1, back_2, back_3, back_4)
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.program_id(1) % BLOCKS * SIDE + tl.arange(0, SIDE)[None, :]
    weight += member * member_step + (number * IN + column) * row_step
    total = tl.zeros([ROWS, SIDE], tl.float32)
    for first in range(0, OUT, DEPTH):
        inner = first + tl.arange(0, DEPTH)
        across, down = inner[None, :], inner[:, None]
        values = grad + (member * n + row) * OUT + across
        g = tl.load(values, mask=(row < n) & (across < OUT), other=0)
        c = tl.load(weight + down * column_step, mask=(down < OUT) & (column < IN), other=0)
        total = tl.dot(g, c, total, input_precision=PRECISION)
    tl.store(back + (member * n + row) * IN + column, total, mask=(row < n) & (column < IN))


@triton.jit(do_not_specialize=["n", "each"])
def _outer_kernel(
    partial, grad, term_0, term_1, term_2, term_3, term_4, n, each,
    TERMS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, ROWS: tl.constexpr,
    SIDE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """SIDE rows and WIDTH columns of Z_iᵀ G over a part of the nodes; and Σ G as the last row."""
    member = tl.program_id(2).to(tl.int64)
    ACROSS: tl.constexpr = (OUT + WIDTH - 1) // WIDTH
    DOWN: tl.constexpr = (IN + SIDE - 1) // SIDE
    number = tl.program_id(1) // ACROSS // DOWN
    term = _chosen(number, term_0, term_1, term_2, term_3, term_4)
    place = tl.program_id(1) // ACROSS % DOWN
    down = place * SIDE + tl.arange(0, SIDE)[:, None]
    across = tl.program_id(1) % ACROSS * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros([SIDE, WIDTH], tl.float32)
    sums = tl.zeros([WIDTH], tl.float32)
    first = tl.program_id(0) * each
    last = tl.minimum(first + each, n)
    for begin in range(first, last, ROWS):
        row = (begin + tl.arange(0, ROWS)).to(tl.int64)
        values = term + (member * n + row)[None, :] * IN + down
        z = tl.load(values, mask=(row < last)[None, :] & (down < IN), other=0)
        values = grad + (member * n + row)[:, None] * OUT + across
        g = tl.load(values, mask=(row < last)[:, None] & (across < OUT), other=0)
        total = tl.dot(z, g, total, input_precision="ieee")
        sums += tl.sum(g, axis=0)
    partial += (tl.program_id(0) * tl.num_programs(2) + member) * (TERMS * IN + 1) * OUT + across
    tl.store(partial + (number * IN + down) * OUT, total, mask=(down < IN) & (across < OUT))
    if (number == 0) & (place == 0):
        tl.store(partial + TERMS * IN * OUT, sums[None, :], mask=across < OUT)
