import subprocess
import sys

import pytest
import torch

from gread.base.memory import (
    OutOfMemory,
    _of_the_group,
    enough_memory,
    free_memory,
    is_out_of_memory,
)

GB = 10**9


@pytest.fixture
def group(tmp_path):
    """Write the files of a control group, and return the memory that it leaves free."""

    def make(line, files):
        (tmp_path / "self").write_text(f"1:name=systemd:/\n{line}\n")
        for name, text in files.items():
            file = tmp_path / "groups" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return _of_the_group(tmp_path / "self", tmp_path / "groups")

    return make


def test_free_memory_respects_the_container_limit(group):
    files = {
        "memory.max": f"{4 * GB}\n",
        "memory.current": f"{3 * GB}\n",
        "memory.stat": f"anon 1\ninactive_file {GB}\n",
    }
    assert group("0::/", files) == 2 * GB


def test_parent_group_limits_apply_in_cgroup_v1(group):
    name = "memory.{}_in_bytes"
    files = {
        f"memory/job/{name.format('limit')}": str(8 * GB),
        f"memory/job/{name.format('usage')}": str(GB),
        "memory/job/memory.stat": "total_inactive_file 0",
        f"memory/job/task/{name.format('limit')}": str(2**63),
        f"memory/job/task/{name.format('usage')}": str(GB),
        "memory/job/task/memory.stat": "total_inactive_file 0",
    }
    assert group("4:memory:/job/task", files) == 7 * GB


def test_unlimited_or_unreadable_group_has_infinite_free_memory(group):
    used = {"memory.current": f"{GB}\n", "memory.stat": "inactive_file 0\n"}
    assert group("0::/", {"memory.max": "max\n", **used}) == float("inf")
    assert group("0::/elsewhere", {}) == float("inf")
    assert group("nonsense", {}) == float("inf")


LIMITED = """
import resource
import torch, gread.base.memory
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 10**9, size + 10**9))
print(gread.base.memory.free_memory())
try:
    with gread.base.memory.enough_memory("less"):
        torch.empty(4 * 10**9, dtype=torch.uint8)
except gread.base.memory.OutOfMemory as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_process_limit_bounds_free_memory_and_raises_out_of_memory():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    free, sentence = done.stdout.splitlines()
    assert 0.8 * GB < float(free) <= GB, done.stderr
    assert sentence == "there is not enough memory for 4 GB more: choose less"
    assert free_memory() > 0


def test_only_out_of_memory_errors_are_converted():
    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    assert is_out_of_memory(full)
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"), enough_memory("less"):
        raise RuntimeError("shapes do not match")
    sentence = r"memory for 2.00 GiB more: choose less"
    with pytest.raises(OutOfMemory, match=sentence), enough_memory("-"), enough_memory("less"):
        raise full
