"""Insufficient memory, with real limits and allocations, on CPU and GPU."""

import resource
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import torch

from studies.soak.commands import HIDDEN, TRAIN, gread, in_fresh_process, prepared, sentence
from studies.soak.rows import SCRIPTS, Row

FAULT = "Out of memory, host and GPU"
MUST_HOLD = (
    "the population is halved, the graph is partitioned, or a one-line error says what to reduce"
)
SCRIPT = "studies/soak/memory.py"
ROOM = 150 * 2**20
"""Bytes that a population may use in addition to a small one."""

LIMIT = """
import resource
import gread.cli, torch
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 500 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""


@SCRIPTS.register("memory")
def memory(times: int | None) -> list[Row]:
    """Run the cases with RLIMIT_AS on a CPU, and with PyTorch's limit per process on a GPU."""
    rows = []
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        sizes = in_fresh_process(_population, device)
        found = f"tried with {', '.join(map(str, sizes))} members; every run has its result"
        rows.append(_row(f"a population that does not fit, on {device}", len(sizes), found))
    parts = in_fresh_process(_parts)
    found = f"trains in {parts} parts, chosen by the limit, and prints it"
    rows.append(_row("`GraphClassifier` on 20,000 nodes with 100 MB of free memory", 1, found))
    rows.append(_row("`gread train` and `gread fit` that cannot fit", *_commands()))
    return rows


def _row(tried: str, count: int, found: str) -> Row:
    return Row(FAULT, MUST_HOLD, tried, count, found, SCRIPT)


def _population(device: str) -> list[int]:
    """Sizes of populations that were tried, with a much too high memory estimate."""
    from gread.runs import grouping
    from gread.runs.executors import job as executors
    from gread.runs.launch import launch
    from gread.runs.run import run_together
    from gread.runs.spec import RunSpec
    from gread.runs.store import ResultStore
    from gread.training.config import TrainConfig

    specs = [
        RunSpec(
            dataset="csbm",
            model="gread-bs",
            seed=seed,
            hyper={"hidden_channels": 64, "time": 8.0},
            train=TrainConfig(epochs=2),
            options={"num_nodes": 2000, "degree": 4, "homophily": 0.8},
        )
        for seed in range(40)
    ]
    sizes = []

    def watched(members: list[RunSpec], **options: object) -> object:
        sizes.append(len(members))
        return run_together(members, **options)  # type: ignore[arg-type]

    executors.run_together = watched  # type: ignore[assignment]
    grouping.CPU_BYTES, grouping.SHARE = 2**40, 1e6
    with tempfile.TemporaryDirectory() as folder:
        launch(specs[:2], ResultStore(Path(folder, "warm-up")), devices=[device], together=True)
        sizes.clear()
        ballast = []
        if device == "cpu":
            ballast = _ballast()
        else:
            total = torch.cuda.mem_get_info()[1]
            used = torch.cuda.memory_reserved()
            torch.cuda.set_per_process_memory_fraction((used + ROOM) / total)
        store = ResultStore(folder)
        launch(specs, store, devices=[device], together=True)
        del ballast
        assert [result.status for result in store] == ["ok"] * len(specs)
    assert sizes[0] == len(specs) and sizes[1] == len(specs) // 2, sizes
    return sizes


def _parts() -> int:
    """Number of parts of the graph."""
    import gread

    data = gread.load("csbm", num_nodes=20_000, degree=5, homophily=0.8)
    small = gread.load("csbm", num_nodes=100)
    settings = {"epochs": 2, "hidden_channels": 64, "time": 4.0}
    gread.GraphClassifier(settings=settings, device="cpu").fit(small)
    _limit(100 * 2**20)
    classifier = gread.GraphClassifier(settings=settings, device="cpu")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        classifier.fit(data)
    parts = classifier.config_.parts
    assert parts > 1 and any(f"{parts} parts" in str(one.message) for one in said)
    assert 0.4 < classifier.score() <= 1
    return parts


def _commands() -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        work = prepared(Path(folder))
        wide = ("--set", "hidden_channels=1000000", "--set", "parts=1")
        own = ("--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "topic")
        tried = ((*TRAIN, *wide), ("fit", *own, "--out", "wide", *wide))
        said = ""
        for command in tried:
            # CPU only, because CUDA reserves address space.
            done = gread(*command, cwd=work, before=LIMIT, **HIDDEN)
            said = sentence(done.returncode, done.stderr)
            assert "memory" in said and "choose" in said, said
        assert not (work / "wide").exists()
    return len(tried), f"a one-line error each; the last: {said.removeprefix('gread: ')}"


def _limit(room: int) -> None:
    """Limit this process to a number of additional bytes."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def _ballast() -> list[torch.Tensor]:
    """Allocate the reserved memory of the allocator, so that `ROOM` is left."""
    _limit(0)
    blocks: list[torch.Tensor] = []
    with suppress(RuntimeError):
        while True:
            blocks.append(torch.empty(2**24, dtype=torch.uint8))
    _limit(ROOM)
    return blocks
