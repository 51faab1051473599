"""Many fits in one process: memory stays flat and files are closed."""

import gc
import os
import tempfile
from pathlib import Path

import torch

import gread
from studies.soak.rows import SCRIPTS, Row

FAULT = "A long soak"
MUST_HOLD = "memory flat within 5 % after warm-up, no file handles leaked"
FITS = 500
WARM_UP = 50


@SCRIPTS.register("fits")
def fits(times: int | None) -> list[Row]:
    """Fit, predict, save and load repeatedly."""
    count = times or FITS
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return [_fit(device, max(count, 2 * WARM_UP)) for device in devices]


def _fit(device: str, count: int) -> Row:
    graphs = [gread.load("csbm", num_nodes=100, homophily=0.8, seed=seed) for seed in range(3)]
    settings = {"epochs": 5, "hidden_channels": 8}
    seen: list[tuple[int, int, int]] = []
    for number in range(count):
        classifier = gread.GraphClassifier(settings=settings, device=device, random_state=number)
        classifier.fit(graphs[number % len(graphs)])
        with tempfile.TemporaryDirectory() as folder:
            saved = classifier.save(Path(folder, "model"))
            gread.GraphClassifier.load(saved).set_params(device=device).predict()
        if number >= WARM_UP and number % 25 == 24:
            del classifier
            gc.collect()
            seen.append((_resident(), _handles(), _on_gpu(device)))
    memory, handles, on_gpu = zip(*seen, strict=True)
    growth = max(memory) / memory[0] - 1
    assert growth < 0.05, f"memory grew by {growth:.1%}: {memory}"
    assert max(handles) <= handles[0], f"file handles: {handles}"
    assert max(on_gpu) <= 1.05 * on_gpu[0], f"memory of the GPU: {on_gpu}"
    found = (
        f"at most {growth:+.1%} of {memory[0] / 1e6:.0f} MB after {WARM_UP} fits, "
        f"{handles[-1]} open files at the start and at the end"
    )
    tried = f"`GraphClassifier` on the {device}: fit, save, load, predict, in one process"
    return Row(FAULT, MUST_HOLD, tried, count, found, "studies/soak/fits.py")


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def _on_gpu(device: str) -> int:
    return torch.cuda.memory_allocated() if device == "cuda" else 0
