"""Compare sparse and dense products with Ã on small graphs, for a population.

    python studies/measure_dense.py [DEVICE]

Prints the milliseconds of the forward product Ã H for 64 channels and several members, with the
kernels of this library and with a dense matrix in single precision. On a GPU the products are
replayed from a CUDA graph, as in a population; otherwise launch overhead would dominate.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from operator import matmul

import torch

import gread
from gread.graph.adjacency import OriginalAdjacency

MEMBERS = (1, 10, 100)


def milliseconds(product: Callable[[], torch.Tensor], device: str) -> float:
    """Time per product in the fastest of several rounds of about a tenth of a second each."""
    if device != "cpu":
        return milliseconds_replayed(product)

    def seconds(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            product()
        return time.perf_counter() - begin

    seconds(3)
    count = max(1, int(0.1 / max(seconds(3) / 3, 1e-6)))
    return 1e3 * min(seconds(count) for _ in range(5)) / count


def milliseconds_replayed(product: Callable[[], torch.Tensor], count: int = 50) -> float:
    """Time per product in the fastest of several replays of a CUDA graph of ``count`` products."""
    product()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            product()
    found = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / count)
    return min(found)


def main(device: str = "cpu") -> None:
    """Print a table."""
    print("| graph | nodes | members | sparse (ms) | dense (ms) | dense / sparse |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in ("texas", "cornell", "wisconsin", "chameleon", "cora"):
        data = gread.load(name).to(device)
        adjacency = OriginalAdjacency()(data.x, data.edge_index, data.edge_weight)
        dense = adjacency @ torch.eye(data.num_nodes, device=device)
        for members in MEMBERS:
            h = torch.randn(members, data.num_nodes, 64, device=device)
            sparse_ms = milliseconds(partial(matmul, adjacency, h), device)
            dense_ms = milliseconds(partial(matmul, dense, h), device)
            cells = name, data.num_nodes, members, f"{sparse_ms:.3f}", f"{dense_ms:.3f}"
            print("|", " | ".join(map(str, cells)), f"| {dense_ms / sparse_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
