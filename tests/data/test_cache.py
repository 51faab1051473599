import time

import pytest
import torch

import gread
from gread.data.cache import cached, read_statistics
from gread.data.statistics import measure
from tests.processes import FRESH


def build():
    data = gread.csbm(50)
    return data, measure(data)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "processed" / "some.safetensors"


def fails():
    raise AssertionError("the graph is cached and must not be built again")


def same(one, other):
    one, other = one.to_dict(), other.to_dict()
    return set(one) == set(other) and all(torch.equal(one[key], other[key]) for key in one)


def test_a_graph_is_built_once_and_read_back_the_same(path):
    made = cached(path, build)
    assert same(cached(path, fails), made)
    assert read_statistics(path) == measure(made)


@pytest.mark.parametrize(
    "spoil", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\xff" * 99]
)
def test_corrupt_cache_file_is_rebuilt(path, spoil):
    made = cached(path, build)
    path.write_bytes(spoil(path.read_bytes()))
    assert same(cached(path, build), made)
    assert same(cached(path, fails), made)


def test_cache_file_of_another_format_version_is_rebuilt(path, monkeypatch):
    cached(path, build)
    monkeypatch.setattr("gread.data.cache.FORMAT", 999)
    assert read_statistics(path) is None
    cached(path, build)
    assert read_statistics(path) is not None


def test_full_disk_returns_the_graph_without_caching_it(path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("gread.data.cache.write_tensors", full)
    assert same(cached(path, build), build()[0])
    assert not path.exists()


def test_failed_build_leaves_no_cache_file(path):
    with pytest.raises(ZeroDivisionError):
        cached(path, lambda: 1 / 0)
    assert not path.exists()
    cached(path, build)


def test_unwritable_cache_folder_still_returns_the_graph():
    from pathlib import Path

    made = cached(Path("/proc/nowhere/some.safetensors"), build)
    assert made.num_nodes == 50


def test_changing_a_loaded_graph_does_not_change_the_stored_one(path):
    cached(path, build)
    loaded = cached(path, fails)
    loaded.x.zero_()
    loaded.y += 1
    again = cached(path, fails)
    assert again.x.any()
    assert again.y.max() == 1


def sum_of_cached(path):
    def noted():
        with open(f"{path}.log", "a") as log:
            log.write("built\n")
        time.sleep(1)
        return build()

    return cached(path, noted).x.sum().item()


def test_several_processes_build_one_graph(path):
    path.parent.mkdir()
    with FRESH.Pool(3) as pool:
        assert len(set(pool.map(sum_of_cached, [path] * 3, chunksize=1))) == 1
    assert path.with_name(path.name + ".log").read_text() == "built\n"
    names = {file.name for file in path.parent.iterdir()}
    assert names <= {"some.safetensors", "some.safetensors.log", "some.lock"}
