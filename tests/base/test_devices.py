import pytest
import torch

from gread.base.devices import choose_device
from gread.base.errors import InputError


@pytest.mark.parametrize("name", ["cuda:77", "meta", "mps", "nonsense", ""])
def test_a_device_that_cannot_compute_is_refused(name):
    if name == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has MPS")
    with pytest.raises(InputError, match=rf"that this machine has, got .{name}.: "):
        choose_device(name)


def test_auto_device_is_cuda_if_available():
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a usable GPU")
def test_auto_device_falls_back_to_cpu_if_gpu_is_unusable(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.warns(UserWarning, match="the GPU is not usable, so the CPU is used: "):
        assert choose_device("auto") == "cpu"
