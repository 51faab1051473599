"""Measure 100,000 nodes and a million edges from CSV to predictions (docs/own-graph.md).

    python studies/measure_own.py [NODES] [FOLDER]

Run it in the repository's root. It writes the files and measures both commands as a user runs them.
"""

import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import gread

WORDS = ("river", "stone", "engine", "paper", "music", "garden", "signal", "winter", "market")
NEIGHBOURS = 20


def write_files(folder: Path, nodes: int) -> int:
    """Write columns of every type with missing values; a third of the classes is unknown."""
    data = gread.csbm(
        nodes, 5, homophily=0.6, degree=NEIGHBOURS, num_features=12, mean=0.15, sigma=1.0
    )
    random = np.random.default_rng(0)
    x, y = data.x.numpy(), data.y.numpy()
    city = np.where(random.random(nodes) < 0.3, y, random.integers(5, size=nodes))
    words = random.choice(WORDS, size=(nodes, 4))
    known, gap = random.random((2, nodes)) < [[0.67], [0.05]]
    with (folder / "nodes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "topic", *(f"x{k}" for k in range(12)), "active", "city", "text"])
        for k in range(nodes):
            numbers = [f"{value:.4f}" for value in x[k]]
            numbers[0] = "" if gap[k] else numbers[0]
            topic = f"topic {y[k]}" if known[k] else ""
            about = str(bool(x[k, 1] > 0)).lower(), f"city {city[k]}", " ".join(words[k])
            rows.writerow([f"n{k}", topic, *numbers, *about])
    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].tolist()
    with (folder / "edges.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["source", "target"])
        rows.writerows((f"n{a}", f"n{b}") for a, b in zip(source, target, strict=True))
    return len(source)


def call(*arguments: object) -> tuple[dict, float]:
    """Output and duration of a command."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "gread", *map(str, arguments), "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(told), time.perf_counter() - start


def main(nodes: int, folder: Path) -> None:
    edges = write_files(folder, nodes)
    sizes = [(folder / name).stat().st_size / 1e6 for name in ("nodes.csv", "edges.csv")]
    print(f"{nodes:,} nodes ({sizes[0]:.0f} MB), {edges:,} edges ({sizes[1]:.0f} MB)\n", flush=True)
    files = "--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv"
    fitted, fitting = call("fit", *files, "--label", "topic", "--out", folder / "model")
    _, predicting = call("predict", folder / "model", "--out", folder / "predictions.csv")
    print("| part | seconds |\n| --- | ---: |")
    for name, seconds in fitted["seconds"].items():
        print(f"| {name} | {seconds:.1f} |")
    print(f"| `gread fit`, all of it | {fitting:.1f} |\n| `gread predict` | {predicting:.1f} |\n")
    for name, scores in fitted["scores"].items():
        print(f"{name}: {100 * scores['accuracy']:.2f}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s on a CPU, peak {used.ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        main(nodes, Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(nodes, Path(folder))
