"""Measure one sparse product on a GPU with several divisions of its rows.

    python -m studies.measure_products [GRAPH ...] [--repeats 20] [--attention] [--check]

Run it in the repository's root. Every graph has the width and the adjacency of the published
settings. The time is that of one of ``--repeats`` products in a replayed CUDA graph, so inputs are
in the L2 cache as in an epoch. Several processes compile the kernels first. The error is the
largest difference from the product in double precision, divided by the largest element.
``--attention`` measures the kernels of the soft adjacency instead. ``--check`` prints the relative
error of logits and gradients of whole models instead.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

import gread
from gread.bench.machine import machine
from gread.graph.adjacency import edges_of
from gread.kernels import gpu, pattern as patterns, reference
from gread.kernels.pattern import BY_LENGTH, Rows, remember, rows_by_length
from gread.kernels.reference import Pair, Terms
from gread.models.stacking import stack
from studies.measure_speed import prepared

WIDTHS = {"film": 64, "pubmed": 64, "chameleon": 256, "squirrel": 256, "minesweeper": 64}
LOOPS = {"film": 0.0, "pubmed": 1.0, "chameleon": 1.0, "squirrel": 1.0, "minesweeper": 1.0}
SOFT = ("film", "pubmed", "chameleon")
"""Graphs with a soft adjacency."""
HEADS, HEAD_CHANNELS = 4, 16
MEMBERS = {"minesweeper": 10}
CLASSES = {"film": 5, "pubmed": 3}
"""Numbers of classes, which are the widths of products of logits."""


class Variant(NamedTuple):
    """A division of the rows; see the constants of `gread.kernels.gpu`."""

    channels: int = 32
    warps: int = 2
    at_once: int = 8
    light: int = 128
    """Maximum entries of a row that one warp computes, on any graph; 0: rows are not ordered."""
    registers: int = 0
    """Limit of registers; 0 for none."""
    piece: int = 32
    """Maximum entries of a part of a row."""
    long: int = 4
    """Warps of a program of kernels with heads."""


VARIANTS = [
    Variant(),
    *(Variant(at_once=count) for count in (4, 16)),
    *(Variant(warps=count) for count in (1, 4, 8)),
    *(Variant(light=count) for count in (0, 32, 64, 256)),
    *(Variant(registers=count) for count in (48, 64)),
    *(Variant(channels=count, warps=4) for count in (64, 128)),
]

ATTENTION = [
    Variant(warps=4),
    *(Variant(warps=4, at_once=count) for count in (4, 16)),
    *(Variant(warps=4, piece=count) for count in (16, 64)),
    *(Variant(warps=4, long=count) for count in (2, 8, 16)),
    *(Variant(warps=count) for count in (1, 2, 8)),
]
"""Divisions for attention: scores use ``warps``, and all other kernels use ``long``."""


@contextmanager
def divided(variant: Variant) -> Iterator[None]:
    """Context manager in which kernels use a division."""
    original = gpu._tile_of

    def limited(*arguments: Any, **options: Any) -> Any:
        tile = original(*arguments, **options)
        if variant.registers:
            tile.options["maxnreg"] = variant.registers
        return tile

    with (
        patch.multiple(gpu, CHANNELS=variant.channels, SLICE=variant.channels),
        patch.multiple(gpu, WARPS_PER_TILE=variant.warps, WARPS_PER_SLICE=variant.warps),
        patch.multiple(gpu, AT_ONCE=variant.at_once, WARPS_PER_LONG=variant.long),
        patch.object(gpu, "_tile_of", limited),
    ):
        yield


def pattern(name: str, variant: Variant) -> Rows:
    """Rows of the adjacency of a graph, with the order of a division."""
    data = gread.load(name).to("cuda")
    known = edges_of(data.edge_index, None, torch.zeros(data.num_nodes, 1).cuda(), LOOPS[name])
    rows = Rows(known.pattern.rows.start.clone(), known.pattern.rows.column)
    with patch.multiple(patterns, MOST_LIGHT=variant.light, PIECE=variant.piece, FEW=1e-9):
        order = rows_by_length(rows.start)
    if variant.light:
        remember(rows.start, BY_LENGTH, lambda: order)
    return rows


Works = dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]]
"""Kernels on random states, each with its reference in double precision."""


def attention_works(rows: Rows) -> Works:
    """Kernels of a step with a soft adjacency; ``scores`` is a part of ``attend``."""
    torch.manual_seed(0)
    shape = rows.start.numel() - 1, HEADS, HEAD_CHANNELS
    q, k = (torch.randn(shape, device="cuda") for _ in range(2))
    wide = q.double(), k.double()
    exact = reference.attend(rows, *wide)[0]
    found, grad = exact.float(), torch.randn(rows.column.numel(), device="cuda")
    order = rows.column.argsort(stable=True)
    return {
        "scores": (lambda: gpu.head_dots(rows, q, k), lambda: reference.head_dots(rows, *wide)),
        "attend": (lambda: gpu.attend(rows, q, k)[0], lambda: exact),
        "back": (
            lambda: gpu.attend_back(rows, found, grad),
            lambda: reference.attend_back(rows, exact, grad.double()),
        ),
        "rows": (
            lambda: gpu.gather_heads(rows, found, k),
            lambda: reference.gather_heads(rows, exact, wide[1]),
        ),
        "columns": (
            lambda: gpu.gather_heads(rows, found, q, order),
            lambda: reference.gather_heads(rows, exact, wide[0], order),
        ),
    }


def works(name: str, rows: Rows, attention: bool = False) -> Works:
    """Kernels to measure on a graph."""
    if attention:
        return attention_works(rows)
    torch.manual_seed(0)
    members = (MEMBERS[name],) if name in MEMBERS else ()
    n, d = rows.start.numel() - 1, WIDTHS[name]
    x, y, z = (torch.randn(*members, n, d, device="cuda") for _ in range(3))
    weight = torch.rand(rows.column.numel(), device="cuda")
    terms = Terms(torch.randn(*members, 4, d, device="cuda"), [y, z])
    pairs = [Pair([x, y], z, torch.randn(2, d, device="cuda")),
             Pair([y], x, torch.randn(1, d, device="cuda"))]  # fmt: skip

    def double(terms: Terms) -> Terms:
        return Terms(terms.coef.double(), [base.double() for base in terms.bases], terms.degree)

    w = weight.double()
    found: Works = {
        "product": (
            lambda: gpu.gather(rows, weight, x),
            lambda: reference.gather(rows, w, x.double()),
        ),
        "pull": (
            lambda: gpu.pull(rows, weight, x, y, terms)[0],
            lambda: reference.pull(rows, w, x.double(), y.double(), double(terms))[0],
        ),
    }
    if name in SOFT:
        wide = [Pair([a.double() for a in p.left], p.right.double(), p.coef.double())
                for p in pairs if p.coef is not None]  # fmt: skip
        found["entries"] = (
            lambda: gpu.edge_dots(rows, pairs),
            lambda: reference.edge_dots(rows, wide),
        )
    if name in CLASSES:
        narrow = x[:, : CLASSES[name]].contiguous()
        found["logits"] = (
            lambda: gpu.gather(rows, weight, narrow),
            lambda: reference.gather(rows, w, narrow.double()),
        )
    return found


def worst_of_model(name: str) -> float:
    """Largest relative error of logits and gradients of the published model, in single precision.

    The reference is the plain path in double precision. Neither uses dropout.
    """
    model, data, _ = prepared(name, "cuda", 1)
    exact = copy.deepcopy(model).double()

    def outcome(made: torch.nn.Module, dtype: torch.dtype) -> list[Tensor]:
        logits = made.eval()(data.x.to(dtype), data.edge_index)
        logits.square().mean().backward()
        return [logits.detach(), *(p.grad for p in made.parameters() if p.grad is not None)]

    ours = outcome(model, torch.float32)
    with gread.plain_only():
        expected = outcome(exact, torch.float64)
    # Some gradients are zero up to rounding, such as those of the biases of keys.
    scales = [expected[0].norm()] + [max(b.norm() for b in expected[1:])] * (len(ours) - 1)
    pairs = zip(ours, expected, scales, strict=True)
    return max(float((a - b).norm() / scale) for a, b, scale in pairs)


def worst_of_members() -> float:
    """Largest relative error of three stacked GREAD-X on Minesweeper, in single precision.

    It includes the logits and one gradient. The reference is each model alone, on the plain path
    in double precision.
    """
    data = gread.load("minesweeper").to("cuda")
    torch.manual_seed(0)
    models = [gread.GREADX(7, 64, 2, num_steps=4, dropout=0.0).cuda() for _ in range(3)]
    exact = [copy.deepcopy(model).double() for model in models]
    stacked: Any = stack(models).cuda()
    logits = stacked.train()(data.x, data.edge_index)
    logits.square().mean().backward()
    ours = [logits.detach(), next(stacked.encoder.parameters()).grad]
    with gread.plain_only():
        alone = [model.train()(data.x.double(), data.edge_index) for model in exact]
        torch.stack(alone).square().mean().backward()
    first: list[Any] = [next(model.encoder.parameters()).grad for model in exact]
    grads = torch.stack(first)
    pairs = zip(ours, [torch.stack(alone).detach(), grads], strict=True)
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


def run_all(name: str, variants: Sequence[Variant], attention: bool) -> None:
    """Compile the kernels of some divisions in a worker process."""
    for variant in variants:
        rows = pattern(name, variant)
        with divided(variant):
            for work, _ in works(name, rows, attention).values():
                work()
    torch.cuda.synchronize()


def microseconds(work: Callable[[], Tensor], repeats: int) -> float:
    """Time of one call: the median over replays of a CUDA graph with ``repeats`` calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            work()
    times = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * begin.elapsed_time(end) / repeats)
    return sorted(times)[4]


def table(name: str, variants: Sequence[Variant], repeats: int, attention: bool) -> list[str]:
    """Lines of the table of a graph."""
    lines: list[str] = []
    expected: dict[str, Tensor] = {}
    for variant in variants:
        rows = pattern(name, variant)
        found, worst = {}, 0.0
        with divided(variant):
            for what, (work, exact) in works(name, rows, attention).items():
                expected[what] = expected[what] if what in expected else exact()
                difference = (work().double() - expected[what]).abs().max()
                worst = max(worst, float(difference / expected[what].abs().max()))
                found[what] = microseconds(work, repeats)
        if not lines:
            heads = [*Variant._fields, *(f"{what} µs" for what in found), "error"]
            lines = [f"| {' | '.join(heads)} |", f"|{' ---: |' * len(heads)}"]
        cells = [*map(str, variant), *(f"{each:.1f}" for each in found.values()), f"{worst:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Compile, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="GRAPH", default=list(WIDTHS))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--attention", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--processes", type=int, default=12)
    chosen = parser.parse_args()
    for subject, value in machine("cuda").items():
        print(f"- {subject}: {value}")
    if chosen.check:
        for name in chosen.names:
            found = worst_of_members() if name == "minesweeper" else worst_of_model(name)
            print(f"{name}: relative error {found:.1e}", flush=True)
        return
    variants, names = VARIANTS, chosen.names
    if chosen.attention:
        variants, names = ATTENTION, [name for name in names if name in SOFT]
    share = math.ceil(len(variants) * len(names) / chosen.processes)
    with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
        tasks = [
            pool.submit(partial(run_all, name, variants[at : at + share], chosen.attention))
            for name in names
            for at in range(0, len(variants), share)
        ]
        for task in tasks:
            task.result()
    for name in names:
        width = HEADS * HEAD_CHANNELS if chosen.attention else WIDTHS[name]
        print(f"\n{name}, {width} channels\n")
        print("\n".join(table(name, variants, chosen.repeats, chosen.attention)), flush=True)


if __name__ == "__main__":
    main()
