"""Archives of results."""

import json
import lzma

import pytest

from gread.runs.archive import ARCHIVES, ENDING, known_results, read_results, write_results
from gread.runs.complete import complete
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import StoreError


def test_results_round_trip_as_json_lines_without_histories(tmp_path, small):
    results = [Result(small(seed=s), "ok", history=((1.0, 0.1, 0.2, 0.3),)) for s in range(3)]
    path = tmp_path / "new" / "some.jsonl.xz"
    write_results(path, results)
    assert read_results(path) == [result.without_history() for result in results]
    lines = lzma.decompress(path.read_bytes()).splitlines()
    assert all(json.loads(line)["status"] == "ok" for line in lines)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (lzma.compress(b"\xff"), "must be UTF-8 text"),
        (b"neither packed nor a result", "compressed by xz"),
        (lzma.compress(b"")[:-4], "must be one complete xz file"),
        (lzma.compress(b"") + b"more", "must be one complete xz file"),
        (lzma.compress(bytes(2**24 + 1), preset=0), f"at most {2**24} bytes when unpacked"),
        (lzma.compress(b'{"half": '), "line 1, is not a result"),
    ],
    ids=["no text", "not packed", "cut", "followed by more", "too large", "no result"],
)
def test_invalid_archives_raise_store_errors_naming_the_file(tmp_path, monkeypatch, content, cause):
    monkeypatch.setattr("gread.runs.archive.LARGEST", 2**24)
    path = tmp_path / "some.jsonl.xz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=f"some.jsonl.xz.*{cause}"):
        read_results(path)


def test_working_folder_results_take_precedence_over_packaged_results(tmp_path, monkeypatch):
    specs = [RunSpec(dataset="csbm", model="gcn", split=split) for split in range(3)]
    package, own = tmp_path / "package", tmp_path / "results"
    write_results(package / f"a{ENDING}", [Result(spec, "ok", test=0.5) for spec in specs[:2]])
    write_results(package / f"b{ENDING}", [Result(specs[2], "ok", test=0.5)])
    write_results(own / f"c{ENDING}", [Result(specs[1], "ok", test=0.6)])
    monkeypatch.setattr("gread.runs.archive.FOLDERS", (own, package))
    found = known_results(tmp_path / "store")
    assert list(found) == [specs[1].key, specs[0].key, specs[2].key]  # in the order of the files
    assert found[specs[1].key].test == 0.6
    assert list(known_results(tmp_path / "store", order=["b"])) == [specs[k].key for k in (1, 2, 0)]
    some = known_results(tmp_path / "store", keys=[specs[2].key], order=["b"])
    assert specs[0].key not in some  # files are read until all are found


@pytest.mark.slow
def test_completing_committed_specs_keeps_their_keys():
    """A new hyperparameter must be in ``added``, otherwise committed runs are not found."""
    forms = {}
    for path in ARCHIVES.glob(f"*{ENDING}"):
        for spec in (result.spec for result in read_results(path)):
            forms.setdefault((spec.model, tuple(sorted(spec.hyper))), spec)
    assert len(forms) > 30
    for spec in forms.values():
        assert complete(spec).key == spec.key, spec.model
