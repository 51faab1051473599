"""Measure the time of the GREAD rows of Table 4, computed from scratch.

    python -m studies.measure_table [DATASET ...] [--device cuda] [--workers 14]

Run it in the repository's root. The seven reactions are trained on ten splits of each dataset with
the settings of the table, in a store that is deleted afterwards. Prints the total time, and the
time by dataset and by function as in `studies.profile_search`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from gread.bench.machine import machine
from gread.experiments.accuracy import specs
from gread.experiments.protocol import DATASETS
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.store import ResultStore
from studies.profile_search import Profiled, rows, spent


def main() -> None:
    """Measure the given datasets, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="DATASET", default=DATASETS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    runs = [one for one in specs() if one.dataset in chosen.names and one.seed == 0]
    counts, seconds, ends = Counter[str](), Counter[str](), Counter[str]()
    start = time.perf_counter()

    def note(result: Result) -> None:
        name = result.spec.dataset
        counts[name] += 1
        seconds[name] += result.seconds
        ends[name] = time.perf_counter() - start

    with tempfile.TemporaryDirectory() as folder:
        executor = Profiled(folder)
        launch(
            runs,
            ResultStore(Path(folder, "store")),
            executor=executor,
            devices=[chosen.device],
            workers=chosen.workers,
            histories=False,
            on_result=note,
        )
        total = time.perf_counter() - start
        found = spent(folder)
    for subject, value in machine(chosen.device).items():
        print(f"- {subject}: {value}")
    jobs, grouping = len(executor.groups), executor.began - start
    print(f"\n{len(runs)} runs as {jobs} jobs took {total:.1f} s, and {grouping:.1f} s to group.\n")
    print("| dataset | runs | s in all processes | last result after s |")
    print("| --- | ---: | ---: | ---: |")
    for name in sorted(counts, key=lambda name: -seconds[name]):
        print(f"| {name} | {counts[name]} | {seconds[name]:.1f} | {ends[name]:.1f} |")
    print("\n" + "\n".join(rows(found)))


if __name__ == "__main__":
    main()
