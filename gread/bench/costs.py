"""Costs of an epoch: memory, scaling, parts and bandwidth."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from gread.bench import naive
from gread.bench.epochs import EULER, RK4, WIDE
from gread.bench.pictures import grouped_bars, memory_curves, shares_of_one, time_an_edge
from gread.bench.section import BENCHES, Row, Section
from gread.bench.timing import (
    SLOWLY,
    Side,
    call_seconds,
    fitted,
    graph,
    interleave,
    small_graph,
    synchronize,
)
from gread.data.splits import random_splits
from gread.graph.adjacency import OriginalAdjacency
from gread.kernels.cuda_graph import Recording
from gread.models.gread import GREAD
from gread.runs.presets import find_preset
from gread.training.memory import bytes_held


@BENCHES.register("memory")
def memory(device: str, quick: bool) -> Section:
    """Memory kept for the backward pass, in states of N · d floats."""
    size, width = (60, 4) if quick else (2500, 64)
    steps = (1, 2, 4) if quick else (1, 2, 4, 8, 16, 32, 64)
    data = small_graph(size).to(device)
    fixed: dict[str, Any] = {"adjacency": "original", "alpha": "scalar", "beta": "scalar"}
    rows: list[Row] = []
    for reaction, solver, count in product(("f", "bs"), ("euler", "rk4"), steps):
        hyper = fixed | {"reaction": reaction, "solver": solver, "step_size": 1 / count}
        ours, theirs = (
            states_held(build(8, width, 5, input_dropout=0.0, **hyper).to(device), data, width)
            for build in (GREAD, naive.NaiveGREAD)
        )
        row: Row = {"reaction": reaction.upper(), "solver": solver, "steps": count}
        rows.append(row | {"ratio": theirs / ours, "ours states": ours, "naive states": theirs})
    note = f"One state is N · d floats, N = {size}, d = {width}; T = 1, OA, SC, no dropout. "
    note += "Tensors saved for backward by the whole model, without its parameters and inputs."
    return Section("Memory held for backward", rows, note, memory_curves(rows))


def states_held(model: nn.Module, data: Data, channels: int) -> float:
    """Memory that autograd keeps after a forward pass, in states of N · d numbers."""
    state = data.num_nodes * channels * data.x.element_size()
    return bytes_held(model, data.x, data.edge_index) / state


NEIGHBOURS = 10
"""Number of entries per row of the random graphs."""


@BENCHES.register("scale")
def scale(device: str, quick: bool) -> Section:
    """Time per edge, which is constant if the time is linear in the number of edges."""
    on_gpu = torch.device(device).type == "cuda"
    sizes = [10**k for k in (range(3, 5) if quick else range(5, 9 if on_gpu else 8))]
    fitting = [n for n in sizes if _needed(n // NEIGHBOURS, n, 64) < _memory(device)]
    sides = {str(n): _uniform_epochs(n // NEIGHBOURS, n, 64, device) for n in fitting}
    times = interleave(sides, quick)
    base = "1000000" if "1000000" in times else str(fitting[0])
    rows: list[Row] = []
    for edges in fitting:
        seconds = times[str(edges)]
        an_edge = [1e9 * one / edges for one in seconds]
        pairs = zip(seconds, times[base], strict=True)
        row: Row = {"edges": edges, "nodes": edges // NEIGHBOURS, "d": 64}
        row["per edge, relative"] = median(b * int(base) / (a * edges) for b, a in pairs)
        row |= {"ns per edge": median(an_edge), "lowest": min(an_edge), "highest": max(an_edge)}
        rows.append(row | {"epoch ms": 1000 * median(seconds)})
    picture = time_an_edge(rows)
    if on_gpu and not quick:
        del sides
        rows.append(_products_size(device))
    note = f"BS, Euler, T = 3, τ = 1, OA, uniform random graphs. Relative to {int(base):,} edges."
    if left_out := sizes[len(fitting) :]:
        note += f" Left out for lack of memory: {', '.join(f'{n:,}' for n in left_out)}."
    return Section("Time per edge", rows, note, picture)


def _products_size(device: str) -> Row:
    """Measure a graph of the size of ogbn-products, alone on the GPU."""
    nodes, edges, width = 2_400_000, 120_000_000, 128
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    data = _uniform_graph(nodes, edges, device)
    epoch = fitted(_euler(width), data, SLOWLY)(5)
    step = step_seconds(_euler(width)().to(device), data, 5)
    peak = torch.cuda.max_memory_allocated() / 1e9
    row: Row = {"edges": edges, "nodes": nodes, "d": width, "ns per edge": 1e9 * epoch / edges}
    return row | {"epoch ms": 1000 * epoch, "step ms": 1000 * step, "peak GB": peak}


def step_seconds(model: nn.Module, data: Data, steps: int) -> float:
    """Mean seconds of a training step without an evaluation."""
    mask = data.train_mask[:, 0]
    optimizer = torch.optim.Adam(model.parameters(), lr=SLOWLY.lr, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(data.x, data.edge_index)[mask], data.y[mask]).backward()
        optimizer.step()

    call_seconds(step, 2)  # warm-up: compiles the kernels
    return call_seconds(step, steps)


def _uniform_epochs(nodes: int, edges: int, width: int, device: str) -> Side:
    """Epochs on a graph with uniform random edges in both directions."""
    return fitted(_euler(width), _uniform_graph(nodes, edges, device), SLOWLY)


def _euler(width: int) -> Callable[[], GREAD]:
    """GREAD-BS of this width for a uniform graph."""
    hyper = {**EULER, "hidden_channels": width}
    return lambda: GREAD(32, out_channels=4, **hyper)


def _uniform_graph(nodes: int, edges: int, device: str) -> Data:
    """Uniform random edges in both directions, 32 random features and four classes."""
    torch.manual_seed(0)
    half = torch.randint(nodes, (2, edges // 2), device=device)
    y = torch.randint(4, (nodes,), device=device)
    names = ("train_mask", "val_mask", "test_mask")
    masks = dict(zip(names, random_splits(y.cpu(), num_splits=1), strict=True))
    x, edge_index = torch.randn(nodes, 32, device=device), torch.cat([half, half.flip(0)], dim=1)
    return Data(x=x, edge_index=edge_index, y=y, **masks).to(device)


def _needed(nodes: int, edges: int, width: int) -> int:
    """Upper bound of bytes: twenty states, and the messages of all edges in plain PyTorch."""
    return 4 * width * (20 * nodes + edges) + 64 * edges


def _memory(device: str) -> float:
    """Available bytes, with a reserve for other processes."""
    if torch.device(device).type == "cuda":
        return 0.9 * torch.cuda.mem_get_info(device)[0]
    return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@BENCHES.register("shares")
def shares(device: str, quick: bool) -> Section:
    """Time of encoder, reaction-diffusion, output and optimiser in a training step."""
    settings: dict[str, tuple[str, Mapping[str, Any]]] = {
        "Cora, BS, Euler, d = 64": ("cora", EULER),
        "Cora, BS, RK4, d = 64": ("cora", RK4),
        "Cora, BS as published": ("cora", find_preset("gread-bs", "cora", "published").hyper),
        "Squirrel, BS, Euler, d = 256": ("squirrel", WIDE),
    }
    rows: list[Row] = []
    bars = {}
    for name, (dataset, hyper) in settings.items():
        data = graph(dataset, device, quick)
        model = GREAD(data.num_features, out_channels=int(data.y.max()) + 1, **hyper).to(device)
        times = seconds_by_part(model, data, steps=2 if quick else 30)
        whole = sum(times.values())
        bars[name] = {part: seconds / whole for part, seconds in times.items()}
        percent = {part: 100 * share for part, share in bars[name].items()}
        rows.append({"work": name, **percent, "step ms": 1000 * whole})
    note = "Percent, forward and backward of each part together, without the evaluation"
    note += (
        "; on a GPU without a CUDA graph, which cannot be split into parts."
        if "cuda" in device
        else "."
    )
    return Section("Parts of a training step", rows, note, shares_of_one(bars))


def seconds_by_part(model: GREAD, data: Data, steps: int) -> dict[str, float]:
    """Median seconds of each part of a training step, its forward and backward together."""
    mask = data.train_mask[:, 0]
    optimizer = torch.optim.Adam(model.parameters(), fused=True)  # as in gread.fit
    found: dict[str, list[float]] = {}
    for _ in range(steps):
        optimizer.zero_grad()
        watch = _Watch()
        h0 = model.encoder(data.x)
        watch("encoder")
        start = h0.detach().requires_grad_()
        final = model.layer(start, data.edge_index)
        watch("reaction-diffusion")
        end = final.detach().requires_grad_()
        cross_entropy(model.decoder(end)[mask], data.y[mask]).backward()
        watch("output")
        final.backward(end.grad)
        watch("reaction-diffusion")
        h0.backward(start.grad)
        watch("encoder")
        optimizer.step()
        watch("optimiser")
        for part, seconds in watch.spent.items():
            found.setdefault(part, []).append(seconds)
    return {part: median(seconds) for part, seconds in found.items()}


class _Watch:
    """Stopwatch: a call with a part adds the time since the last call to that part."""

    def __init__(self) -> None:
        synchronize()
        self.spent: dict[str, float] = {}
        self.last = perf_counter()

    def __call__(self, part: str) -> None:
        synchronize()
        now = perf_counter()
        self.spent[part] = self.spent.get(part, 0.0) + now - self.last
        self.last = now


@BENCHES.register("bandwidth")
def bandwidth(device: str, quick: bool) -> Section:
    """Bandwidth of the sparse product compared with a copy."""
    big = torch.randn(10**4 if quick else 2**26, device=device)
    copy = torch.empty_like(big)
    rows: list[Row] = []
    bars: dict[str, dict[str, float]] = {}
    for name, width in {"Cora": 64, "PubMed": 64, "Squirrel": 256}.items():
        data = graph(name.lower(), device, quick)
        h = torch.randn(data.num_nodes, width, device=device)
        adjacency = OriginalAdjacency()(h, data.edge_index)
        source, target = data.edge_index
        edges = int((source != target).sum()) + data.num_nodes  # every node has one loop
        multiply = partial(adjacency.__matmul__, h)
        # On a GPU, replay a CUDA graph as training does: otherwise the launch would be measured.
        works = {
            "product": Recording(multiply) if h.is_cuda else multiply,
            "copy": partial(copy.copy_, big),
        }
        sides = {side: partial(call_seconds, work) for side, work in works.items()}
        times = interleave(sides, quick)
        moved = edges * (4 * width + 8) + 4 * data.num_nodes * width
        multiplied = [moved / seconds / 1e9 for seconds in times["product"]]
        copied = [2 * 4 * big.numel() / seconds / 1e9 for seconds in times["copy"]]
        ratios = [a / b for a, b in zip(multiplied, copied, strict=True)]
        speeds = {"copy": median(copied), "product": median(multiplied)}
        bars[f"{name}, d = {width}"] = speeds
        row: Row = {"graph": name, "d": width, "product / copy": median(ratios)}
        row |= {"lowest": min(ratios), "highest": max(ratios)}
        row |= {"product GB/s": speeds["product"], "copy GB/s": speeds["copy"]}
        rows.append(row | {"product ms": 1000 * median(times["product"])})
    note = "Bytes of the product: for every entry its row of H, column and value; for every row "
    note += "its result. A graph that fits the cache may beat the copy, which does not."
    title = "Sparse product against a copy"
    picture = grouped_bars({"": bars}, ylabel="GB/s", title=title)
    return Section(title, rows, note, picture)
