"""What all tests share: one thread each, a fixed seed, and small graphs."""

import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gread

# pytest-xdist fills the cores; more threads, here or in a subprocess, only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

# What runs in the background of a shell ignores Ctrl-C, and so would the processes that tests stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def graph() -> Data:
    """Twelve nodes in two classes, node 11 without neighbours, in float64."""
    data = gread.csbm(12, p_within=0.7, p_between=0.3, num_features=3, num_splits=2, seed=3)
    keep = (data.edge_index != 11).all(dim=0)
    data.edge_index = data.edge_index[:, keep]
    data.x = data.x.double()
    return data


@pytest.fixture(scope="session")
def real_root() -> Path:
    """A data root with the benchmark files."""
    root = os.environ.get("GREAD_DATA")
    if not root:
        pytest.skip("GREAD_DATA does not say where the benchmark files are")
    return Path(root)


@pytest.fixture(scope="module")
def browser():
    """A Chromium of the system, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium: Debian's package is called chromium")
    with playwright.sync_playwright() as driver:
        # Without a sandbox, which root and many containers do not have: the page is ours.
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()
