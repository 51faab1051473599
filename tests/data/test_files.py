import hashlib
import os
import re
import signal
import time

import pytest

from gread.data.files import DataError, RawFile, data_root, manifest, obtain
from tests.processes import Forked

CONTENT = bytes(range(256)) * 400


def raw(server, content=CONTENT, path="some/raw/file.txt"):
    server.files["upstream/file.txt"] = content
    digest = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    return RawFile(path, f"{server.address}/upstream/file.txt", digest)


def left_behind(root):
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_missing_file_is_downloaded_once(server, tmp_path):
    file = raw(server)
    assert obtain(file, tmp_path) == CONTENT
    assert obtain(file, tmp_path) == CONTENT
    assert server.asked == [("upstream/file.txt", None)]
    assert left_behind(tmp_path) == [tmp_path / file.path]


def test_truncated_download_is_resumed(server, tmp_path):
    file = raw(server)
    server.manner["upstream/file.txt"] = "truncated"
    assert obtain(file, tmp_path) == CONTENT
    half = len(CONTENT) // 2
    assert server.asked == [("upstream/file.txt", None), ("upstream/file.txt", f"bytes={half}-")]


def test_download_restarts_if_the_server_cannot_resume(server, tmp_path):
    file = raw(server)
    part = tmp_path / (file.path + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"from another day")
    server.manner["upstream/file.txt"] = "no-resume"
    assert obtain(file, tmp_path) == CONTENT
    assert server.asked == [("upstream/file.txt", "bytes=16-")]  # no second request


def test_invalid_partial_file_is_downloaded_again(server, tmp_path):
    file = raw(server)
    part = tmp_path / (file.path + ".part")
    part.parent.mkdir(parents=True)
    for leftover in (b"not the beginning", CONTENT + b"and more"):
        part.write_bytes(leftover)
        assert obtain(file, tmp_path) == CONTENT
        (tmp_path / file.path).unlink()


def test_complete_partial_file_is_used(server, tmp_path):
    file = raw(server)
    part = tmp_path / (file.path + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT)
    assert obtain(file, tmp_path) == CONTENT
    assert server.asked == [("upstream/file.txt", f"bytes={len(CONTENT)}-")]


def test_failed_download_error_suggests_remedies(server, tmp_path):
    file = raw(server)
    server.files.clear()
    with pytest.raises(
        DataError, match=r"some/raw/file.txt is not in .* 404.*: put it there, or set"
    ):
        obtain(file, tmp_path)
    assert left_behind(tmp_path) == []
    offline = RawFile(file.path, "http://127.0.0.1:9/nothing-listens-here", file.digest)
    with pytest.raises(DataError, match="put it there, or set GREAD_DATA"):
        obtain(offline, tmp_path)


def test_a_file_with_the_wrong_digest_is_not_kept(server, tmp_path):
    file = raw(server, content=CONTENT + b"tampered")
    with pytest.raises(DataError, match="does not have the digest sha256:"):
        obtain(file, tmp_path)
    assert left_behind(tmp_path) == []


def test_repeatedly_truncated_download_raises_data_error(server, tmp_path):
    file = raw(server)
    server.manner["upstream/file.txt"] = "always-truncated"
    with pytest.raises(DataError, match="cannot be downloaded"):
        obtain(file, tmp_path)
    assert not (tmp_path / file.path).exists()


def test_modified_file_is_reported_and_removed(server, tmp_path):
    file = raw(server)
    place = tmp_path / file.path
    place.parent.mkdir(parents=True)
    for wrong in (CONTENT[:-1], CONTENT[:-1] + b"!"):
        place.write_bytes(wrong)
        with pytest.raises(DataError, match=r"file.txt is not the expected file .* was removed"):
            obtain(file, tmp_path)
        assert not place.exists()
    assert obtain(file, tmp_path) == CONTENT


def test_download_of_a_killed_process_is_resumed(server, tmp_path):
    file = raw(server)
    server.manner["upstream/file.txt"] = "slow"
    script = (
        "from pathlib import Path\n"
        "from gread.data.files import RawFile, obtain\n"
        f"obtain({file!r}, Path({str(tmp_path)!r}))\n"
    )
    process = Forked("-c", script)
    part = tmp_path / (file.path + ".part")
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.end()
    assert not (tmp_path / file.path).exists()
    assert 0 < part.stat().st_size < len(CONTENT)
    server.manner["upstream/file.txt"] = "good"
    assert obtain(file, tmp_path) == CONTENT
    assert server.asked[-1][1] is not None  # a range: the download was resumed
    assert left_behind(tmp_path) == [tmp_path / file.path]


def test_a_git_blob_id_is_a_digest_too(server, tmp_path):
    blob = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    file = RawFile("x/y", raw(server).url, f"git-blob:{blob}")
    assert obtain(file, tmp_path) == CONTENT
    assert not file.matches(CONTENT[1:])


def test_mirror_serves_files_by_their_data_root_path(server, tmp_path, monkeypatch):
    file = raw(server)
    server.files = {"mirror/some/raw/file.txt": CONTENT}
    monkeypatch.setenv("GREAD_MIRROR", f"{server.address}/mirror/")
    assert obtain(file, tmp_path) == CONTENT


@pytest.mark.parametrize(
    ("mirror", "said"),
    [
        ("host/path", "GREAD_MIRROR must be a URL such as http://host/path, got host/path"),
        ("file:///data", "GREAD_MIRROR must be a URL such as http://host/path, got file:///data"),
        ("http://[host", "cannot be downloaded from http://[host/some/raw/file.txt"),
    ],
)
def test_invalid_mirror_raises_data_error(tmp_path, monkeypatch, mirror, said):
    monkeypatch.setenv("GREAD_MIRROR", mirror)
    with pytest.raises(DataError, match=re.escape(said)):
        obtain(RawFile("some/raw/file.txt", "", "sha256:0"), tmp_path)


def test_a_mirror_serves_files_that_have_no_other_address(server, tmp_path, monkeypatch):
    file = RawFile("real/file.npz", "", raw(server).digest, "somebody")
    with pytest.raises(DataError, match=r"has no download address \(it holds data of somebody\)"):
        obtain(file, tmp_path)
    server.files = {file.path: CONTENT}
    monkeypatch.setenv("GREAD_MIRROR", server.address)
    assert obtain(file, tmp_path) == CONTENT


def test_every_file_is_pinned_to_a_commit_and_a_digest():
    files = manifest()
    assert len({file.path for file in files}) == len(files) > 150
    for file in files:
        assert bool(file.url) != bool(file.source)  # a file without a URL names its source
        commit = r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{7,40}/.+"
        assert not file.url or re.fullmatch(commit, file.url)
        assert ".." not in file.path
        kind, _, digest = file.digest.partition(":")
        assert len(digest) == {"sha256": 64, "git-blob": 40}[kind]


def test_data_root_is_argument_then_environment_variable_then_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(tmp_path / "variable"))
    assert data_root(tmp_path / "argument") == tmp_path / "argument"
    assert data_root() == tmp_path / "variable"
    monkeypatch.delenv("GREAD_DATA")
    assert data_root().name == "gread"
    assert data_root().is_absolute()
    assert str(data_root("~/x")) == os.path.expanduser("~/x")
