"""The kernels in C, compiled at first use and cached.

Tensors are passed to C as addresses. The library is linked to the OpenMP runtime of PyTorch,
because two runtimes would compete for the cores.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import platformdirs
import torch
from torch import Tensor

from gread.kernels.pattern import Rows
from gread.kernels.program import FIELDS, KINDS, Matrix, Program, Ran
from gread.kernels.reference import (
    Batch,
    Pair,
    Terms,
    dot as dot,
    draw as draw,
    log_loss as log_loss,
    mix as mix,
    mix_back as mix_back,
    one_by_one,
    threshold,
)

SOURCES = tuple(Path(__file__).with_name(name) for name in ("cpu.c", "program.c"))
HEADER = Path(__file__).with_name("rows.h")
FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fPIC")
PARTS = 64
"""Number of blocks of rows that are distributed over threads."""


class NoCompiler(ImportError):
    """The kernels cannot be compiled; the message gives the reason."""


@one_by_one(1, 2, 2)
def gather(rows: Rows, weight: Tensor, y: Tensor, terms: Terms | None = None) -> Tensor:
    """See `gread.kernels.reference.gather`."""
    coef, bases, degree, _ = terms or Terms(y.new_ones(1, y.size(1)), degree=0)
    out = y.new_empty(rows.start.numel() - 1, y.size(1))
    _call("gather", y, *rows, weight, y, coef, list(bases), out, *out.shape, weight.numel(),
          degree, len(bases))  # fmt: skip
    return out


@one_by_one(1, 2, 2, 2)
def pull(rows: Rows, weight: Tensor, g: Tensor, y: Tensor, terms: Terms) -> tuple[Tensor, Tensor]:
    """See `gread.kernels.reference.pull`."""
    coef, bases, degree, base_dot = terms
    out = torch.empty_like(y, memory_format=torch.contiguous_format)
    sums = y.new_zeros(PARTS, terms.sums, y.size(1))
    _call("pull", y, *rows, weight, g, y, coef, list(bases), out, sums, *out.shape,
          weight.numel(), degree, len(bases), base_dot)  # fmt: skip
    return out, sums[:1]  # the kernel has reduced the partial sums into the first part


@one_by_one(2, 1)
def edge_dots(rows: Rows, pairs: Sequence[Pair], out: Tensor | None = None) -> Tensor:
    """See `gread.kernels.reference.edge_dots`."""
    left, right = [pair.combined() for pair in pairs], [pair.right for pair in pairs]
    a = left[0]
    out = a.new_zeros(rows.column.numel()) if out is None else out
    _call("edge_dots", a, *rows, left, right, out, *a.shape, out.numel(), len(pairs))
    return out


@one_by_one(3, 3)
def head_dots(rows: Rows, q: Tensor, k: Tensor) -> Tensor:
    """See `gread.kernels.reference.head_dots`."""
    out = q.new_empty(rows.column.numel(), q.size(1))
    _call("head_dots", q, *rows, q, k, out, *q.shape, out.size(0))
    return out


def shares(rows: Rows, scores: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """See `gread.kernels.reference.shares`."""
    found = _shares(rows, scores, weight)
    return found, found.mean(-1)


@one_by_one(2, 1)
def _shares(rows: Rows, scores: Tensor, weight: Tensor | None) -> Tensor:
    out = scores.clone(memory_format=torch.contiguous_format)
    n, (entries, heads) = rows.start.numel() - 1, out.shape
    _call("shares", out, rows.start, weight, out, n, heads, entries)
    return out


def attend(rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """See `gread.kernels.reference.attend`."""
    found = _attend(rows, q, k, weight)
    return found, found.mean(-1)


@one_by_one(3, 3, 1)
def _attend(rows: Rows, q: Tensor, k: Tensor, weight: Tensor | None) -> Tensor:
    out = q.new_empty(rows.column.numel(), q.size(1))
    _call("attend", q, *rows, q, k, weight, out, *q.shape, out.size(0))
    return out


@one_by_one(2, 0)
def attend_back(rows: Rows, attention: Tensor, grad: Tensor) -> Tensor:
    """See `gread.kernels.reference.attend_back`."""
    out = torch.empty_like(attention, memory_format=torch.contiguous_format)
    n, heads = rows.start.numel() - 1, attention.size(1)
    step = 1 if grad.dim() == 1 else heads
    _call("attend_back", out, rows.start, attention, grad, out, n, heads, step, out.size(0))
    return out


@one_by_one(2, 3, 1)
def gather_heads(rows: Rows, weight: Tensor, y: Tensor, order: Tensor | None = None) -> Tensor:
    """See `gread.kernels.reference.gather_heads`."""
    weight = weight if order is None else weight.index_select(0, order)
    out = y.new_empty(rows.start.numel() - 1, *y.shape[1:])
    _call("gather_heads", y, *rows, weight, y, out, *out.shape, weight.size(0))
    return out


def dropout(x: Tensor, seed: Tensor, rate: float | Tensor) -> Tensor:
    """See `gread.kernels.reference.dropout`."""
    if isinstance(rate, Tensor):
        return torch.stack(list(map(dropout, x, seed, rate.tolist())))
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    _call("dropout", x, x, seed, out, x.numel(), threshold(rate), 1.0 - rate)
    return out


def activate(
    h: Tensor, relu: bool, seed: Tensor | None, rate: float | Tensor, batch: Batch | None
) -> tuple[Tensor, Tensor | None]:
    """See `gread.kernels.reference.activate`."""
    *members, n, d = h.shape
    out = torch.empty_like(h, memory_format=torch.contiguous_format)
    scales = None if batch is None else h.new_empty(*members, 4, d)
    *values, momentum, eps, training = batch or (None, None, None, None, 0.0, 0.0, False)
    for one, *others, p in _each(h, h, *values, seed, out, scales, rate):
        _call("activate", h, one, *others, h.new_zeros(PARTS, 2, d), n, d, int(relu),
              int(training), threshold(p), 1.0 - p, momentum, eps)  # fmt: skip
    return out, None if scales is None else scales.movedim(-2, 0)


def activate_back(
    grad: Tensor,
    h: Tensor,
    relu: bool,
    seed: Tensor | None,
    rate: float | Tensor,
    scales: Tensor | None,
    training: bool,
) -> tuple[Tensor, Tensor | None]:
    """See `gread.kernels.reference.activate_back`."""
    *members, n, d = h.shape
    out = torch.empty_like(h, memory_format=torch.contiguous_format)
    sums = None if scales is None else h.new_empty(*members, 2, d)
    scales = None if scales is None else scales.movedim(0, -2)
    for one, *others, p in _each(h, grad, h, scales, seed, out, sums, rate):
        _call("activate_back", h, one, *others, h.new_zeros(PARTS, 2, d), n, d,
              int(relu), int(training), threshold(p), 1.0 - p)  # fmt: skip
    return out, None if sums is None else sums.movedim(-2, 0)


def _each(h: Tensor, *values: Any) -> Iterator[list[Any]]:
    """Yield the values of each member, the last one as a float."""
    for own in [...] if h.dim() == 2 else range(len(h)):
        each = [value[own] if isinstance(value, Tensor) else value for value in values]
        yield [*each[:-1], float(each[-1])]


def drop_cross_entropy(
    x: Tensor, seed: Tensor, rate: float, weight: Tensor, bias: Tensor, target: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `gread.kernels.reference.drop_cross_entropy`; also the gradients of x, W and b."""
    n, d, k = *x.shape, len(bias)
    out = x.new_empty(()), x.new_empty(n, d), x.new_empty(k, d), x.new_empty(k)
    sums = x.new_zeros(PARTS, 1 + k * (d + 1))
    _call("drop_cross_entropy", x, x, seed, weight, bias, target, *out, sums, n, d, k,
          threshold(rate), 1.0 - rate, scale)  # fmt: skip
    return out


def score(x: Tensor, bias: Tensor | None, target: Tensor, sets: Tensor, counts: Tensor) -> Tensor:
    """See `gread.kernels.reference.score`."""
    bias = x.new_zeros(x.size(1)) if bias is None else bias
    out, count = x.new_empty(len(sets) + 1), len(sets)
    _call("score", x, x, bias, target, sets, counts, out, x.new_zeros(PARTS, count + 1), *x.shape,
          count)  # fmt: skip
    return out


def drop_gather(
    rows: Rows,
    values: Tensor,
    seed: Tensor,
    rate: float,
    y: Tensor,
    order: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """See `gread.kernels.reference.drop_gather`."""
    n, (d, entries) = rows.start.numel() - 1, (y.size(1), values.numel())
    out, ends = y.new_empty(n, d), rows.start.new_empty(n)
    room = torch.empty_like(rows.column), torch.empty_like(values)
    _call("drop_gather", y, *rows, order, values, seed, y, _ones(d, y.dtype), bias, out, *room,
          ends, n, d, entries, threshold(rate), 1.0 - rate)  # fmt: skip
    return out


@lru_cache(maxsize=64)
def _ones(d: int, dtype: torch.dtype) -> Tensor:
    return torch.ones(d, dtype=dtype)


LINE = 64
"""Bytes of channels that a thread of `run` processes at a time. With enough channels, a thread
processes two or four times as many; with few channels, one register."""

FEW = 2**20
"""Number of products (entries times channels) below which one thread is as fast as several."""


def run(program: Program, matrix: Matrix, inputs: Sequence[Tensor], coef: Tensor) -> Ran | None:
    """Run a program; every thread processes some channels through all passes.

    Return None if there are too few channels for all threads, so that pass by pass is faster.
    """
    *members, n, d = inputs[0].shape
    count, entries, rows = math.prod(members), matrix.pattern.rows.column.numel(), coef.size(-2)
    width = _block_width(count, d, entries, coef.dtype, threads := torch.get_num_threads())
    if width is None:
        return None
    blocks = -(-d // width)
    workers = min(threads, count * blocks)
    room = (program.slots * n + rows + program.sums + 4) * width
    outputs = [inputs[0].new_empty(inputs[0].shape) for _ in range(program.outputs)]
    sums = coef.new_empty(*members, program.sums, d)
    dots = None
    if "edge_dots" in program.kinds:
        dots = coef.new_zeros(*members, blocks, entries)
    back: tuple[Tensor | None, ...] = (None, None, None)
    if program.kinds & {"pull", "back"}:
        back = (*matrix.pattern.columns, matrix.transposed_weight)
    _call("run", coef, program.code, *matrix.pattern.rows, matrix.weight, *back, list(inputs),
          outputs, coef, coef.new_empty(workers * room), sums, dots, len(program.passes), n, d,
          entries, program.slots, rows, program.sums, program.pull_sums, room,
          width * coef.element_size(), count, entries if matrix.weight.dim() > 1 else 0,
          workers)  # fmt: skip
    return Ran(outputs, sums, None if dots is None else dots.sum(-2))


@lru_cache(maxsize=64)
def _block_width(count: int, d: int, entries: int, dtype: torch.dtype, threads: int) -> int | None:
    """Number of channels that a thread of `run` processes at a time; None if there are too few."""
    if entries * count * d >= FEW and count * d * dtype.itemsize // LINE < threads:
        return None
    share, pack = min(count * d // threads, d) * dtype.itemsize, library(dtype).pack_bytes()
    one_pack_each = threads > 1 and count * d * dtype.itemsize <= threads * pack
    block = next((k for k in (4 * LINE, 2 * LINE) if share >= k), pack if one_pack_each else LINE)
    return int(block // dtype.itemsize)


@cache
def library(dtype: torch.dtype = torch.float32) -> ctypes.CDLL:
    """Return the compiled kernels for a dtype, from the cache if possible.

    Raises:
        NoCompiler: There is no compiler, or it fails.
    """
    if os.name != "posix":
        raise NoCompiler(f"the C kernels do not support {platform.system()}")
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        raise NoCompiler("there is no C compiler")
    source = b"".join(file.read_bytes() for file in (HEADER, *SOURCES))
    # Macros of the source: the dtype, and the encoding of a program.
    coded = {"KINDS": ",".join(KINDS).upper(), "FIELDS": ",".join(FIELDS).upper()}
    values = {"REAL": _TYPES[dtype], "PARTS": PARTS, **coded}
    defined = [f"-D{name}={value}" for name, value in values.items()]
    about = f"{compiler} {FLAGS} {defined} {torch.__version__} {_processor()}"
    name = hashlib.sha256(source + about.encode()).hexdigest()[:20]
    kept = Path(platformdirs.user_cache_dir("gread"), "kernels")
    for folder in (kept, Path(tempfile.gettempdir(), f"gread-{os.getuid()}")):
        path = folder / f"{name}.so"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                _compile([compiler, *defined], path)
            if path.stat().st_uid == os.getuid():  # in /tmp the file may belong to another user
                return ctypes.CDLL(str(path))
        except OSError:
            continue
    raise NoCompiler("there is no folder for the compiled kernels")


def _compile(compiler: list[str], path: Path) -> None:
    """Compile to ``path`` atomically, because two processes may do so at the same time."""
    openmp = [str(file) for file in (Path(torch.__file__).parent / "lib").glob("libgomp*")]
    failed = ""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        objects = [str(made.with_name(f"{source.stem}.o")) for source in SOURCES]
        # Try PyTorch's OpenMP, then the compiler's, then a single thread.
        for threads in (["-fopenmp", *openmp], ["-fopenmp"], []):
            each = [*compiler, *FLAGS, *threads[:1], "-c"]
            pairs = zip(SOURCES, objects, strict=True)
            failed = _error_of([[*each, str(source), "-o", name] for source, name in pairs])
            link = [compiler[0], "-shared", *objects, "-o", str(made), *threads, "-lm"]
            failed = failed or _error_of([link])
            if not failed:
                made.replace(path)
                return
    raise NoCompiler(f"{compiler[0]} fails: {failed}")


def _error_of(commands: list[list[str]]) -> str:
    """Run commands at the same time; return the last line of an error, or an empty string."""
    run = partial(subprocess.run, capture_output=True, text=True)
    try:
        with ThreadPoolExecutor(len(commands)) as threads:
            done = list(threads.map(run, commands))
    except OSError as error:
        raise NoCompiler(f"{commands[0][0]} does not start: {error}") from error
    failed = [one.stderr.strip() or "no message" for one in done if one.returncode]
    return failed[0].splitlines()[-1] if failed else ""


def _processor() -> str:
    """Identify the processor for -march=native: machines that share a home folder may differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    kinds = ("flags", "features", "model name", "cpu part")
    return platform.machine() + "".join(
        sorted({line for line in lines if line.lower().startswith(kinds)})
    )


def _call(name: str, like: Tensor, *arguments: Tensor | list[Tensor] | float | None) -> None:
    """Call the kernel for the dtype of ``like``.

    Tensors are made contiguous and passed as addresses. Floating-point tensors must have one dtype,
    because C would misread others and read out of bounds.
    """
    kept: list[Tensor] = []  # copies, alive during the call

    def address(tensor: Tensor) -> int:
        if tensor.dtype is not like.dtype and tensor.is_floating_point():
            raise TypeError(f"{name} needs tensors of one dtype, got {tensor.dtype}, {like.dtype}")
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
            kept.append(tensor)
        return tensor.data_ptr()

    values: list[Any] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            values.append(address(argument))
        elif isinstance(argument, list):
            values.append((ctypes.c_void_p * len(argument))(*map(address, argument)))
        else:
            values.append(argument)
    function = getattr(library(like.dtype), name)
    if function.argtypes is None:  # an argument has the same type in all calls
        function.argtypes = [_argument_type(argument) for argument in (*arguments, 0)]
    function(*values, torch.get_num_threads())


def _argument_type(argument: Tensor | list[Tensor] | float | None) -> Any:
    if isinstance(argument, float):
        return ctypes.c_double
    return ctypes.c_int64 if isinstance(argument, int) else ctypes.c_void_p


_TYPES = {torch.float32: "float", torch.float64: "double"}
