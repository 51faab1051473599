"""Missing GPU, busy GPU, wrong build, and determinism.

Some cases need no GPU; the others run only if there is one.
"""

import tempfile
from pathlib import Path

import torch

from gread.runs.launch import launch
from gread.runs.run import run
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.config import TrainConfig
from studies.soak.commands import HIDDEN, gread, in_fresh_process, prepared, sentence
from studies.soak.rows import SCRIPTS, Row

FAULT = "GPU: none, busy, wrong build, `--deterministic`"
MUST_HOLD = "falls back or prints an error; identical bytes twice with `--deterministic`"
SCRIPT = "studies/soak/gpu.py"
MODELS = ("gread-bs", "gread-fb", "gcn", "gat", "grand")
SHORT = ("train", "csbm", "--splits", "0", "--epochs", "3", "--json")
WRONG = """
import torch
# A GPU without kernels in this build: everything except computation works.
torch.cuda.is_available = lambda: True
torch.cuda.is_current_stream_capturing = lambda: False
"""


@SCRIPTS.register("gpu")
def gpu(times: int | None) -> list[Row]:
    """Run the cases that this machine supports."""
    with tempfile.TemporaryDirectory() as folder:
        work = prepared(Path(folder))
        rows = [
            _row("no GPU: `--device auto`", 1, _falls_back(work)),
            _row("no GPU: `--device cuda`, `cuda:7`, `mps`, `meta`", 4, _says_so(work)),
            _row("a GPU that this PyTorch build does not support: `auto`", 1, _wrong_build(work)),
        ]
    rows.append(_row("`--deterministic`, twice, alone", len(MODELS), _same_bytes(times or 2)))
    if torch.cuda.is_available():
        rows.append(_row("`--deterministic`, twice, as a population", 2, _same_population()))
        rows.append(
            _row("a GPU whose memory other processes use: `auto`", 1, in_fresh_process(_filled))
        )
    return rows


def _row(tried: str, count: int, found: str) -> Row:
    return Row(FAULT, MUST_HOLD, tried, count, found, SCRIPT)


def _falls_back(work: Path) -> str:
    done = gread(*SHORT, "--store", "none", cwd=work, **HIDDEN)
    assert done.returncode == 0 and '"device": "cpu' in done.stdout, done
    return "trains on the CPU"


def _says_so(work: Path) -> str:
    said = ""
    for device in ("cuda", "cuda:7", "mps", "meta"):
        done = gread(*SHORT, "--store", "none", "--device", device, cwd=work, **HIDDEN)
        said = sentence(done.returncode, done.stderr)
        assert f"device must be one that this machine has, got '{device}'" in said, said
    return f"a one-line error each; the last: {said.removeprefix('gread: ')}"


def _wrong_build(work: Path) -> str:
    done = gread(*SHORT, "--store", "wrong", "--device", "auto", cwd=work, before=WRONG, **HIDDEN)
    assert done.returncode == 0 and '"device": "cpu' in done.stdout, done
    assert "the GPU cannot compute, so the CPU does: " in done.stderr, done.stderr
    return "prints a warning and trains on the CPU"


def _specs(model: str) -> list[RunSpec]:
    return [
        RunSpec(
            dataset="csbm",
            model=model,
            split=split,
            train=TrainConfig(epochs=20),
            options={"num_nodes": 200},
        )
        for split in range(4)
    ]


def _same_bytes(times: int) -> str:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for model in MODELS:
        spec = _specs(model)[0]
        first, *others = (run(spec, device=device, deterministic=True) for _ in range(times))
        assert first.history and all(other.history == first.history for other in others), model
    return f"bitwise identical history on {device}: {', '.join(MODELS)}"


def _same_population() -> str:
    found = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            store = ResultStore(folder)
            launch(_specs("gread-bs"), store, devices=["cuda"], deterministic=True, together=True)
            found.append({result.spec.key: result.history for result in store})
    assert found[0] == found[1] and len(found[0]) == 4
    return "bitwise identical histories"


def _filled() -> str:
    """Request a device while another process uses all memory."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    full, enough = context.Event(), context.Event()
    other = context.Process(target=_fill, args=(full, enough))
    other.start()
    try:
        assert full.wait(120)
        with tempfile.TemporaryDirectory() as folder:
            done = gread(*SHORT, "--store", "full", cwd=Path(folder))
    finally:
        enough.set()
        other.join()
    if done.returncode == 0:
        assert '"device": "c' in done.stdout, done
        return "trains with the remaining memory, or falls back to the CPU"
    said = sentence(done.returncode, done.stderr)
    assert "memory" in said, said
    return f"one sentence: {said.removeprefix('gread: ')}"


def _fill(full, enough) -> None:  # type: ignore[no-untyped-def]
    blocks = []
    for size in (2**30, 2**26, 2**22):
        try:
            while True:
                blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            continue
    full.set()
    enough.wait(600)
