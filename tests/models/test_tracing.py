"""Tracing with TorchScript raises an error, because kernels cannot read traced tensors."""

import pytest

from tests.processes import Forked

EVERY = """
import warnings
import torch
import gread

warnings.simplefilter("ignore")
data = gread.load("csbm", num_nodes=40)
for name, entry in gread.MODELS.items():
    model = entry.make(data.num_features, 16, 2, num_nodes=40).eval()
    try:
        torch.jit.trace(model, (data.x, data.edge_index))
    except gread.InputError as error:
        print(name, error)
"""

LEGACY = """
import warnings
import torch
import gread

warnings.simplefilter("ignore")
data = gread.load("csbm", num_nodes=40)
model = gread.GREAD(data.num_features, 16, 2).eval()
try:
    torch.onnx.export(model, (data.x, data.edge_index), "model.onnx", dynamo=False)
except gread.InputError as error:
    print("gread-bs", error)
"""


@pytest.mark.slow
def test_tracing_any_model_raises_a_one_line_error():
    import gread

    shown = Forked("-c", EVERY).end()
    assert shown.returncode == 0, shown.stderr
    refused = [line.split(maxsplit=1) for line in shown.stdout.splitlines()]
    assert [name for name, _ in refused] == list(gread.MODELS)
    assert all(text.endswith("use torch.export.export") for _, text in refused)


@pytest.mark.slow
def test_legacy_onnx_export_raises_a_one_line_error(tmp_path):
    shown = Forked("-c", LEGACY, cwd=tmp_path).end()
    assert shown.returncode == 0, shown.stderr
    assert "gread-bs torch.jit.trace and torch.onnx.export(dynamo=False) cannot" in shown.stdout
    assert not list(tmp_path.iterdir())
