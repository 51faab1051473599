import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from filelock import FileLock

from gread.runs.result import Result
from gread.runs.store import ResultStore, StoreError
from tests.processes import FRESH, Forked


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path)


def test_store_returns_results_equal_to_those_put(store, small):
    result = Result(small(), "ok", test=0.5, history=((1.0, 0.1, 0.2, 0.3),))
    store.put(result)
    assert store.get(small()) == result
    assert store.get(small(seed=1)) is None
    assert list(store) == [result]
    assert len(store) == 1


def test_second_result_of_a_spec_replaces_the_first(store, small):
    store.put(Result(small(), "failed"))
    store.put(Result(small(), "ok", test=0.7))
    assert len(store) == 1
    assert store.get(small()).test == 0.7


def test_missing_returns_unique_specs_without_a_result(store, small):
    store.put(Result(small(seed=1), "ok"))
    specs = [small(seed=seed) for seed in (2, 1, 0, 2)]
    assert [spec.seed for spec in store.missing(specs)] == [2, 0]


def test_the_file_is_readable_with_any_sqlite_client(store, small):
    store.put(Result(small(split=3), "ok", val=0.9, test=0.8, seconds=1.5))
    with closing(sqlite3.connect(store.path)) as connection, connection:
        row = connection.execute(
            "SELECT dataset, model, split, status, val, test FROM runs"
        ).fetchone()
    assert row == ("csbm", "gread-bs", 3, "ok", 0.9, 0.8)


@pytest.mark.slow
def test_writer_waits_longer_than_the_sqlite_default_timeout(store, small):
    with closing(sqlite3.connect(store.path, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(6.5, other.rollback)  # SQLite's default timeout is 5 s
        release.start()
        store.put(Result(small(), "ok"))
        release.join()
    assert len(store) == 1


def put_many(folder, spec):
    store = ResultStore(folder)
    for seed in range(25):
        store.put(Result(replace(spec, seed=seed), "ok"))


def test_several_processes_write_at_once(store, small):
    writers = [
        FRESH.Process(target=put_many, args=(store.path.parent, small(split=split)))
        for split in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(store) == 75


def test_corrupt_store_is_reported_renamed_and_recreated(store, small):
    store.put(Result(small(), "ok"))
    store.path.write_bytes(b"this is no database" * 50)
    with pytest.warns(
        UserWarning, match=r"results.sqlite is broken .* was moved to results.broken"
    ):
        again = ResultStore(store.path.parent)
    assert len(again) == 0
    assert store.path.with_name("results.broken.sqlite").exists()
    for name in ("results.broken2.sqlite", "results.broken3.sqlite"):
        store.path.write_bytes(b"broken once more" * 50)
        with pytest.warns(UserWarning, match=f"was moved to {name}") as seen:
            ResultStore(store.path.parent)
        assert seen[0].filename == __file__  # the warning points to the caller
        assert store.path.with_name(name).read_bytes() == b"broken once more" * 50


def test_unwritable_store_raises_store_error_with_its_path():
    with pytest.raises(
        StoreError, match=r"the store /proc/nowhere/results.sqlite cannot be written"
    ):
        ResultStore("/proc/nowhere")


def test_store_creates_its_folder_and_rejects_invalid_paths(tmp_path):
    ResultStore(tmp_path / "not" / "yet")
    ResultStore(tmp_path / "not" / "yet")
    (tmp_path / "taken" / "results.sqlite").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"taken/results.sqlite cannot be written: unable to open"):
        ResultStore(tmp_path / "taken")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written: .*Not a directory"):
        ResultStore(tmp_path / "file" / "below")


def test_put_of_several_results_is_atomic(store, small):
    store.put()
    assert len(store) == 0
    store.put(Result(small(), "ok"), Result(small(seed=1), "ok"))
    assert len(store) == 2
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON runs WHEN NEW.seed = 3 "
            "BEGIN SELECT RAISE(ABORT, 'no third'); END"
        )
    with pytest.raises(StoreError, match="cannot be written: no third"):
        store.put(Result(small(seed=2), "ok", epoch=2), Result(small(seed=3), "ok", epoch=3))
    assert store.get(small(seed=2)) is None


def test_results_come_in_the_order_of_their_specs(store, small):
    order = [small(seed=seed, split=split) for seed in (0, 1) for split in (0, 2, 10)]
    store.put(*(Result(spec, "ok") for spec in reversed(order)))
    assert [result.spec for result in store] == order


def test_rows_with_a_wrong_key_or_invalid_result_raise_store_error(store, small):
    store.put(Result(small(), "ok"), Result(small(seed=1), "ok"))
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE runs SET key = 'away' WHERE seed = 0")
        connection.execute("UPDATE runs SET key = ? WHERE seed = 1", [small().key])
    with pytest.raises(StoreError, match=f"has another run under the key {small().key}"):
        store.get(small())
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE runs SET result = '{}'")
    with pytest.raises(StoreError, match=r"results.sqlite has a row that is not a result: "):
        store.get(small())


def test_full_disk_raises_store_error_and_keeps_the_store_valid(store, small):
    code = (
        "import resource, signal, sys\n"
        "from gread.runs import Result, ResultStore, RunSpec, StoreError\n"
        f"store = ResultStore({str(store.path.parent)!r})\n"
        f"spec = RunSpec.from_json({small().to_json()!r})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try:\n"
        "    store.put(Result(spec, 'ok', message='long' * 10_000))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    done = Forked("-c", code).end(timeout=120)
    assert done.stdout.startswith(f"the store {store.path} cannot be written: "), done
    assert len(store) == 0  # and it is valid


def test_numbers_returns_one_metric_of_every_run_by_key(store, small):
    store.put(Result(small(), "ok", train=1.0, val=0.5, test=0.25, history=((1.0, 0.1, 0.2, 0.3),)))
    store.put(Result(small(seed=1), "failed"))
    assert store.numbers("val") == {small().key: 0.5, small(seed=1).key: None}
    assert store.numbers("test")[small().key] == 0.25
    assert store.numbers("train")[small().key] == 1.0
    store.put(Result(small(), "ok", val_loss=0.75))
    assert store.numbers("val_loss") == {small().key: 0.75, small(seed=1).key: None}


@pytest.mark.parametrize("what", ["file", "folder"])
def test_deleted_store_raises_store_error_and_is_not_recreated(store, small, what):
    store.put(Result(small(), "ok"))
    if what == "file":
        store.path.unlink()
    else:
        shutil.rmtree(store.path.parent)
    with pytest.raises(StoreError, match=r"results.sqlite cannot be written: it was deleted$"):
        store.put(Result(small(seed=1), "ok"))
    with pytest.raises(StoreError, match=r"results.sqlite cannot be read: it was deleted$"):
        len(store)
    assert not store.path.exists()


def test_corrupt_store_opened_by_several_threads_is_renamed_once(store, small):
    store.path.write_bytes(b"this is no database" * 50)
    begin = threading.Barrier(8)

    def put(seed):
        begin.wait()
        ResultStore(store.path.parent).put(Result(small(seed=seed), "ok"))

    with pytest.warns(UserWarning, match="is broken") as seen, ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(8)))
    assert len(seen) == 1
    assert len(store) == 8
    assert len(list(store.path.parent.glob("results.broken*"))) == 1


def test_opening_a_store_waits_for_the_file_lock(tmp_path):
    path = tmp_path / "results.sqlite"
    with FileLock(tmp_path / "results.lock"):
        opening = threading.Thread(target=ResultStore, args=(tmp_path,))
        opening.start()
        opening.join(timeout=0.5)
        assert not path.exists()
    opening.join(timeout=60)
    assert path.exists()


def test_read_only_store_file_can_be_read(store, small):
    store.put(Result(small(), "ok"))
    before = store.path.read_bytes()
    store.path.chmod(0o444)
    again = ResultStore(store.path.parent)
    assert [result.status for result in again] == ["ok"]
    assert store.path.read_bytes() == before
