"""Lines of the journal are written atomically."""

import json

import pytest

from gread.runs.store import StoreError
from gread.search.journal import Journal, _append
from tests.processes import Forked

FULL = """
# Appends to a file of limited size, which simulates a full disk.
import resource, signal, sys
from pathlib import Path
from gread.search.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for size in (100, 2000, 200, 2000, 5):
    try:
        journal.append_logs([{"text": size * "x"}])
    except OSError as error:
        print(error)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "study.journal"


def test_full_disk_keeps_earlier_lines_and_accepts_shorter_ones(file):
    done = Forked("-c", FULL, file).end()
    sentences = done.stdout.splitlines()
    assert len(sentences) == 2, done
    assert all(s.startswith(f"the journal {file} cannot be written: ") for s in sentences)
    assert [len(log["text"]) for log in Journal(file).read_logs(0)] == [100, 200, 5]
    assert not file.with_name(file.name + ".lock").is_symlink()


def test_incomplete_line_is_removed_before_the_next_append(file):
    one, other = Journal(file), Journal(file)
    one.append_logs([{"n": 0}, {"n": 1}])
    with file.open("a") as half:
        half.write('{"n": 2, "ha')
    assert [log["n"] for log in other.read_logs(0)] == [0, 1]
    other.append_logs([{"n": 3}])
    assert [log["n"] for log in one.read_logs(0)] == [0, 1, 3]
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [0, 1, 3]


def test_deleted_journal_raises_store_error_and_is_not_recreated(file):
    journal = Journal(file)
    journal.append_logs([{"n": 0}])
    file.unlink()
    with pytest.raises(StoreError, match=r"cannot be written: .*No such file"):
        journal.append_logs([{"n": 1}])
    with pytest.raises(StoreError, match=r"cannot be read: .*No such file"):
        list(journal.read_logs(0))
    assert not list(file.parent.iterdir())


def test_append_succeeds_when_its_lock_is_removed_concurrently(file, monkeypatch):
    journal = Journal(file)
    lock = file.with_name(file.name + ".lock")

    def append_slowly(path, text, sync):
        _append(path, text, sync)
        lock.unlink()

    with monkeypatch.context() as patch:
        patch.setattr("gread.search.journal._append", append_slowly)
        journal.append_logs([{"n": 0}])
    journal.append_logs([{"n": 1}])
    assert [log["n"] for log in journal.read_logs(0)] == [0, 1]
    assert not lock.is_symlink()


def test_appends_within_the_sync_interval_sync_once(file, monkeypatch):
    synced = []

    def append(path, text, sync):
        _append(path, text, sync)
        synced.append(sync)

    monkeypatch.setattr("gread.search.journal._append", append)
    monkeypatch.setattr("gread.search.journal.SYNC", 1000.0)
    journal = Journal(file)
    for n in range(3):
        journal.append_logs([{"n": n}])
    assert synced == [True, False, False]
    journal.synced -= 1000  # as if that time had passed
    for n in range(3, 5):
        journal.append_logs([{"n": n}])
    assert synced == [True, False, False, True, False]
    assert [log["n"] for log in journal.read_logs(0)] == [0, 1, 2, 3, 4]
