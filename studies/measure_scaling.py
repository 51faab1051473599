"""Train on a mesh of two million nodes over 1, 2 and 4 processes (docs/scaling.md).

    python studies/measure_scaling.py [NODES] [EPOCHS] [PROCESSES...]

Run it in the repository's root. The mesh is written to shards in random order, and every process
reads its own shard. Losses must agree. Peak memory is that of a whole process, including PyTorch.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import gread
from gread.base.files import whole_folder
from gread.distributed.exchange import processes
from gread.distributed.fit import fit_shard
from gread.distributed.launch import run_processes
from gread.distributed.shards import ShardWriter, read_shard
from gread.graph.partition import neighbours
from gread.training.config import TrainConfig

FEATURES, HIDDEN, CLASSES = 8, 32, 4
STEPS = 4
SETTINGS = {"reaction": "bs", "adjacency": "original", "solver": "euler", "input_dropout": 0.0}


def write_mesh(folder: Path, nodes: int, shards: int) -> None:
    """Write a square mesh with random node numbers, partitioned by the Cuthill-McKee order."""
    width = int(nodes**0.5)
    nodes = width * width
    random = np.random.default_rng(0)
    number = random.permutation(nodes).reshape(width, width)
    pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
    source, target = (np.concatenate([one[k].ravel() for one in pairs]) for k in (0, 1))
    ends = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    sizes = {"nodes": nodes, "features": FEATURES, "splits": 1}
    with whole_folder(folder) as part:
        writer = ShardWriter(
            part, shards, "cuthill-mckee", lambda: neighbours(ends, nodes), **sizes
        )
        writer.add_edges(*ends)
        for first in range(0, nodes, 2**18):
            rows = np.arange(first, min(first + 2**18, nodes))
            draw = np.random.default_rng(first)
            y = draw.integers(CLASSES, size=len(rows))
            x = draw.standard_normal((len(rows), FEATURES), dtype=np.float32)
            x[:, 0] += y
            part = draw.integers(3, size=len(rows))
            writer.add_nodes(rows, x, y, np.stack([part == k for k in range(3)])[..., None])
        writer.finish(CLASSES)


def status(name: str) -> float:
    """Memory of this process in GB: VmHWM is the peak, VmRSS the current use."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e6


def over_loopback() -> int:
    """Bytes sent over the loopback device."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.strip().startswith("lo:"))


def train(folder: Path, epochs: int) -> dict[str, float]:
    """Train in one process, and return its costs."""
    began = status("VmRSS")
    torch.set_num_threads(1)
    shard = read_shard(folder)
    torch.manual_seed(0)
    model = gread.GREAD(FEATURES, HIDDEN, CLASSES, time=1.0 * STEPS, **SETTINGS)
    with torch.no_grad():
        model(shard.x, shard)  # caches one-time computations of the graph
    border, before = shard.border, over_loopback()
    found = fit_shard(model, shard, TrainConfig(epochs=epochs))
    loopback = over_loopback() - before
    # Two products per step in forward, backward and evaluation.
    predicted = 6 * STEPS * epochs * sum(border.send_counts) * HIDDEN * 4
    state = torch.zeros(border.own, HIDDEN)
    start = time.perf_counter()
    for _ in range(10):
        border.fetch(state).wait()
    return {
        "loss": found.fit.history[-1].loss,
        "halo": border.halo,
        "base": began,
        "peak": status("VmHWM"),
        "seconds": found.seconds / epochs,
        "waited": found.waited / found.seconds,
        "sent": found.sent / epochs,
        "predicted": predicted / epochs,
        "loopback": loopback / epochs,
        "exchange": (time.perf_counter() - start) / 10 if processes() > 1 else 0.0,
        "rows": found.sent / epochs / max(1, found.exchanges / epochs),
    }


def main(nodes: int, epochs: int, counts: list[int]) -> None:
    print(
        "| processes | halo | peak GB | of one | s an epoch | waiting | MB sent | predicted | "
        "over loopback | loss |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
        "---: |",
        flush=True,
    )
    alone = None
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            write_mesh(Path(folder, "mesh"), nodes, count)
            ranks = run_processes(
                train, (Path(folder, "mesh"), epochs), processes=count, seconds=600
            )
        worst = {name: max(rank[name] for rank in ranks) for name in ranks[0]}
        alone = alone or worst["peak"]
        sent, predicted = (
            sum(rank[name] for rank in ranks) / 1e6 for name in ("sent", "predicted")
        )
        print(
            f"| {count} | {worst['halo']:.0f} | {worst['peak']:.2f} | {worst['peak'] / alone:.0%} "
            f"| {worst['seconds']:.1f} | {worst['waited']:.0%} | {sent:.2f} | {predicted:.2f} "
            f"| {worst['loopback'] / 1e6:.2f} | {worst['loss']:.7f} |",
            flush=True,
        )
        print(
            f"    base {worst['base']:.2f} GB, one exchange {1e3 * worst['exchange']:.2f} ms for "
            f"{worst['rows'] / 1e3:.0f} kB",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(
        given[0] if given else 2_000_000, given[1] if len(given) > 1 else 2, given[2:] or [1, 2, 4]
    )
