"""PyG is imported without rarely used modules; each of them is imported on demand."""

import subprocess
import sys

import pytest

from gread.base import lazy


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Package with two modules, each of which sets a flag when it is imported."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "__init__.py").write_text("import whole.part, whole.other\n")
    for name in ("part", "other"):
        (tmp_path / "whole" / f"{name}.py").write_text("imported = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "whole"
    for name in [name for name in sys.modules if name.partition(".")[0] == "whole"]:
        del sys.modules[name]


def test_skipped_module_can_be_imported_later(package):
    with lazy._left_out("whole.part") as names:
        whole = __import__(package)
    assert names == {"whole.part"}
    assert whole.other.imported and not hasattr(whole, "part")
    __import__("whole.part")
    assert whole.part.imported


def test_already_imported_module_is_not_skipped(package):
    whole = __import__(package)
    with lazy._left_out("whole.part") as names:
        assert sys.modules["whole.part"] is whole.part
    assert not names
    assert sys.modules["whole.part"] is whole.part


def test_an_error_leaves_no_empty_module(package):
    with pytest.raises(ZeroDivisionError), lazy._left_out("whole.part"):
        raise ZeroDivisionError
    assert "whole.part" not in sys.modules


def test_repeated_quick_import_adds_no_second_finder():
    before = list(sys.meta_path)
    lazy.import_pyg_quickly()
    assert sys.meta_path == before


@pytest.mark.slow
def test_skipped_pyg_modules_are_imported_on_first_use():
    program = """
import sys, gread, torch_geometric
from gread.base.lazy import SELDOM_USED
assert not set(SELDOM_USED) & set(sys.modules)
assert issubclass(torch_geometric.datasets.WebKB, torch_geometric.data.Dataset)
from torch_geometric.datasets import WebKB
assert WebKB is torch_geometric.datasets.WebKB
assert torch_geometric.is_torch_instance(3, int)
import torch
assert torch.compile(torch.sin, backend="eager")(torch.zeros(2)).sum() == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_training_imports_no_compiler():
    program = """
import sys, gread
from gread.runs import RunSpec, run
data = gread.load("csbm", num_nodes=60, num_features=30)
data.x *= data.x > 1.5  # sparse enough for direct training
for adjacency in ("original", "soft"):
    model = gread.GREAD(30, 4, 2, adjacency=adjacency)
    gread.fit(model, data, gread.TrainConfig(epochs=1))
brief = {"dataset": "csbm", "hyper": {"hidden_channels": 4}, "train": gread.TrainConfig(epochs=1)}
for model in ("gread-bs", "gcn"):
    run(RunSpec(model=model, **brief))
assert not {"torch._dynamo", "sympy"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
