"""Results as files that are small enough to commit."""

import json
import lzma

import pytest

from gread.runs.archive import LARGEST, read_results, write_results
from gread.runs.result import Result
from gread.runs.store import StoreError


def test_results_travel_as_json_lines_without_histories(tmp_path, small):
    results = [Result(small(seed=s), "ok", history=((1.0, 0.1, 0.2, 0.3),)) for s in range(3)]
    path = tmp_path / "new" / "some.jsonl.xz"
    write_results(path, results)
    assert read_results(path) == [result.without_history() for result in results]
    lines = lzma.decompress(path.read_bytes()).splitlines()
    assert all(json.loads(line)["status"] == "ok" for line in lines)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lzma.compress(b"\xff"), "must be text in UTF-8"),
        (b"neither packed nor a result", "packed by xz"),
        (lzma.compress(b"")[:-4], "must be one whole file"),
        (lzma.compress(b"") + b"more", "must be one whole file"),
        (lzma.compress(bytes(LARGEST + 1), preset=0), f"at most {LARGEST} bytes when unpacked"),
        (lzma.compress(b'{"half": '), "line 1, is no result"),
    ],
    ids=["no text", "not packed", "cut", "followed by more", "too large", "no result"],
)
def test_files_that_hold_something_else_are_named(tmp_path, content, said):
    path = tmp_path / "some.jsonl.xz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=f"some.jsonl.xz.*{said}"):
        read_results(path)
