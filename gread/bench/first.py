"""The first call of a user: imports, the graph, compilation and the first epoch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter

from gread.bench.pictures import grouped_bars
from gread.bench.section import BENCHES, Row, Section
from gread.data.files import data_root

SCRIPT = """
import json, sys, time
device, name = sys.argv[1:]
marks = [time.perf_counter()]
import gread, torch
marks.append(time.perf_counter())
import torch_geometric
marks.append(time.perf_counter())
from gread import GREAD, TrainConfig, fit, load
marks.append(time.perf_counter())
data = load(name).to(device)
marks.append(time.perf_counter())
model = GREAD(data.num_features, 64, int(data.y.max()) + 1, adjacency="original", solver="euler")
fit(model.to(device), data, TrainConfig(epochs=1))
marks.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""

PARTS = ("torch", "PyG", "gread", "graph", "first epoch")
"""Parts of the script between two readings of the clock; ``python`` is the remaining time."""

WARM_RUNS = 3


@BENCHES.register("first-call")
def first_call(device: str, quick: bool) -> Section:
    """Seconds from the start of Python to the end of the first epoch, in new processes."""
    name = "csbm" if quick else "cora"
    with tempfile.TemporaryDirectory() as caches:
        cold = _seconds(device, name, caches)
        runs = [_seconds(device, name, caches) for _ in range(1 if quick else WARM_RUNS)]
    warm = {part: median(run[part] for run in runs) for part in cold}
    rows: list[Row] = []
    for kernels, parts, most in (("compiled", cold, 4.0), ("cached", warm, 1.5)):
        seconds: Row = {f"{part} s": value for part, value in parts.items()}
        ours = parts["gread"] + parts["graph"] + parts["first epoch"]
        about: Row = {"total s": sum(parts.values()), "without torch and PyG s": ours}
        rows.append({"kernels": kernels, **seconds, **about, "at most": most})
    note = f"GREAD-BS on {name}, OA, Euler, d = 64, one epoch. Compiled: the cache of kernels was "
    note += f"empty. Cached: the median of {len(runs)} later processes."
    bars = {part: {"compiled": cold[part], "cached": warm[part]} for part in cold}
    title = "The first call"
    return Section(title, rows, note, grouped_bars({"": bars}, ylabel="s", title=title))


def _seconds(device: str, name: str, caches: str) -> dict[str, float]:
    """Seconds of each part in a new process that keeps compiled kernels in ``caches``."""
    environment = {
        **os.environ,
        "GREAD_DATA": str(data_root(None)),
        "XDG_CACHE_HOME": caches,
        "TRITON_CACHE_DIR": os.path.join(caches, "triton"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", SCRIPT, device, name]
    began = perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    whole = perf_counter() - began
    parts = dict(zip(PARTS, json.loads(done.stdout), strict=True))
    return {"python": whole - sum(parts.values()), **parts}
