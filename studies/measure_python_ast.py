"""Train on half a million nodes, as a whole graph and partitioned (docs/own-graph.md).

    python studies/measure_python_ast.py [EPOCHS]

Run it in the repository's root. All trainings start from the same parameters.
"""

import multiprocessing
import resource
import sys
import time

import torch

import gread

PARTS = (1, 8)


def train(parts: int, epochs: int) -> None:
    data = gread.load("python-ast")
    torch.manual_seed(0)
    model = gread.GREAD(data.num_features, 64, int(data.y.max()) + 1, adjacency="original")
    start = time.perf_counter()
    fit = gread.fit(model, data, gread.TrainConfig(epochs=epochs, lr=0.02, parts=parts))
    seconds = (time.perf_counter() - start) / epochs
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found = f"{100 * fit.best.val:.2f} | {100 * fit.best.test:.2f} | {fit.best.number}"
    print(f"| {parts} | {found} | {seconds:.1f} | {peak:.1f} |", flush=True)


if __name__ == "__main__":
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| parts | validation | test | chosen epoch | s an epoch | peak GB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for parts in PARTS:  # each in a separate process, to measure its peak
        process = multiprocessing.get_context("spawn").Process(target=train, args=(parts, epochs))
        process.start()
        process.join()
