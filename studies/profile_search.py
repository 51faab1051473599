"""Profile the stages of a search.

    python studies/profile_search.py [DATASET] [--trials 500] [--device cuda] [--workers 8]

Run it in the repository's root. It searches the shipped space in a store that is deleted
afterwards. It prints when each stage ended, and the seconds that all processes together spent in
the functions of `FUNCTIONS`. With an empty ``TRITON_CACHE_DIR`` these include the compilation of
all kernels.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gread.runs.executors.job import Job, Outcome
from gread.runs.executors.local import Local
from gread.runs.result import Result
from gread.runs.run import Graph
from gread.runs.store import ResultStore
from gread.search.search import SearchProgress, search
from gread.search.study import import_optuna

FUNCTIONS = {
    "build models": ("run.py", "built"),
    "stack models": ("stacking.py", "stack"),
    "compile a Triton kernel": ("compiler.py", "compile"),
    "record a CUDA graph": ("cuda_graph.py", "_record"),
    "train": ("loop.py", "several"),
    "follow the numbers": ("loop.py", "follow"),
    "copy parameters back": ("stacking.py", "unstack"),
    "make results": ("run.py", "_result"),
}
"""Functions by purpose, as file name and function name. A function may call another."""

JOBS = "all jobs"


@dataclass(frozen=True, eq=False)
class ProfiledJob(Job):
    """Job that writes its profile and its duration to a folder."""

    folder: str

    def compute(self, graph: Graph | None = None) -> list[Result]:
        start = time.perf_counter()
        with cProfile.Profile() as profile:
            results = super().compute(graph)
        path = Path(self.folder, f"{time.time_ns()}.profile")
        profile.dump_stats(path)
        path.with_suffix(".seconds").write_text(str(time.perf_counter() - start), "utf-8")
        return results


class Profiled(Local):
    """Local executor that profiles every job."""

    def __init__(self, folder: str):
        super().__init__()
        self.folder = folder
        self.groups: list[int] = []
        self.began = 0.0

    def compute(
        self, jobs: Sequence[Job], workers: int | None, imports: Sequence[str]
    ) -> Generator[Outcome, None, None]:
        self.began = self.began or time.perf_counter()
        self.groups += [len(job.specs) for job in jobs]
        profiled = [ProfiledJob(**vars(job), folder=self.folder) for job in jobs]
        yield from super().compute(profiled, workers, imports)


def spent(folder: str) -> dict[str, float]:
    """Seconds in each of the functions, and in all jobs.

    A function that the profiler did not record has 0, such as ``train`` on a GPU with Python 3.12.
    """
    paths = map(str, Path(folder).glob("*.profile"))
    stats = pstats.Stats(*paths).stats  # type: ignore[attr-defined]
    found = dict.fromkeys(FUNCTIONS, 0.0)
    for (file, _, function), (*_, cumulative, _) in stats.items():
        for what, (end, name) in FUNCTIONS.items():
            if function == name and Path(file).name == end:
                found[what] += cumulative
    found[JOBS] = sum(float(path.read_text("utf-8")) for path in Path(folder).glob("*.seconds"))
    return found


def rows(found: dict[str, float]) -> list[str]:
    """Lines of a table of `spent`."""
    lines = ["| function | s in all processes |", "| --- | ---: |"]
    texts = {what: f"{seconds:.1f}" if seconds else "" for what, seconds in found.items()}
    return lines + [f"| {what} | {text} |" for what, text in texts.items()]


def main() -> None:
    """Search, and print the stages and functions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset", nargs="?", default="texas")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int)
    chosen = parser.parse_args()
    import_optuna().logging.set_verbosity(30)
    marks: dict[str, float] = {}

    def tell(progress: SearchProgress) -> None:
        if progress.runs:
            marks.setdefault("first results", time.perf_counter())

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        executor = Profiled(folder)
        search(
            chosen.dataset,
            trials=chosen.trials,
            store=ResultStore(Path(folder, "store")),
            executor=executor,
            devices=[chosen.device],
            workers=chosen.workers,
            on_progress=tell,
        )
        marks["all results"] = time.perf_counter()
        found = spent(folder)
    marks = {"settings are drawn, runs are grouped": executor.began, **marks}
    print("| stage | ends after s |\n| --- | ---: |")
    for stage, moment in marks.items():
        print(f"| {stage} | {moment - start:.1f} |")
    print(f"\n{len(executor.groups)} populations of {min(executor.groups)} to "
          f"{max(executor.groups)} members\n")  # fmt: skip
    print("\n".join(rows(found)))


if __name__ == "__main__":
    main()
