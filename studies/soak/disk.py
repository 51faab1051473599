"""Full, read-only and missing disks: a one-line error, and existing files stay."""

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studies.soak.commands import (
    FIT,
    REPRODUCE,
    SEARCH,
    TRAIN,
    ended,
    files,
    forked,
    in_fresh_process,
    prepared,
    results,
    sentence,
)
from studies.soak.rows import SCRIPTS, Row

FAULT = "Disk full, read-only store, store deleted during a run"
MUST_HOLD = "one clear error, earlier results intact"
SCRIPT = "studies/soak/disk.py"
EACH = 8
STORE = ("--store", "store")
COMMANDS = {
    "train": (*TRAIN, *STORE),
    "search": (*SEARCH, "--space", "space.toml", *STORE),
    "reproduce": (*REPRODUCE, *STORE, "--out", "out"),
    "fit": (*FIT, "--set", "epochs=5", "--out", "model"),
}
KILOBYTES = 4096


@SCRIPTS.register("disk")
def disk(times: int | None) -> list[Row]:
    """Run the commands on a tmpfs of a few megabytes; mounting it needs root."""
    rows = []
    for name in COMMANDS:
        count, said = in_fresh_process(_full, name, times or EACH)
        found = f"each time a one-line error ({said}), earlier results and files "
        found += "unchanged; with free space again, the same command gives the uninterrupted result"
        rows.append(
            _row(f"`gread {name}` on a tmpfs that fills up at a random point", count, found)
        )
    rows.append(_row("data root full: `h2gcn`, whose structure is cached there", *_data_root()))
    rows.append(_row("read-only tmpfs: commands that read and commands that write", *_read_only()))
    rows.append(_row("store, its file or the study deleted during a run", *_deleted()))
    return rows


def _row(tried: str, count: int, found: str) -> Row:
    return Row(FAULT, MUST_HOLD, tried, count, found, SCRIPT)


@contextmanager
def _mounted() -> Iterator[tuple[Path, Path]]:
    """Mount a small disk; yield its path and a file outside it for the output of commands."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "disk")
        place.mkdir()
        size = f"size={KILOBYTES}k"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", place], check=True)
        try:
            yield place, Path(folder, "log")
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


def _full(name: str, count: int) -> tuple[int, str]:
    """Number of failures due to a full disk, and the last message."""
    draw = random.Random(name)
    with _mounted() as (place, log):
        work, filler = place / "work", place / "filler"
        prepared(work)
        before = _used(place)
        assert ended(forked(COMMANDS[name], work, log)) == 0, log.read_text()
        needed = _used(place) - before
        expected = _visible(work)
        full, said = 0, ""
        while full < count:
            shutil.rmtree(work)
            prepared(work)
            kept: dict[str, object] = {}
            while True:
                room = draw.randrange(needed)
                _fill(filler, KILOBYTES - _used(place) - room)
                log.unlink(missing_ok=True)
                code = ended(forked(COMMANDS[name], work, log))
                filler.unlink()
                now = _visible(work)
                assert kept.items() <= now.items(), "something that was there has changed"
                assert all(now[key] == expected[key] for key in now), "something is half written"
                if code == 0:
                    break
                full, said, kept = full + 1, sentence(code, log.read_text()), now
                assert "cannot be written: " in said, said
                if full >= count:
                    assert ended(forked(COMMANDS[name], work, log)) == 0, log.read_text()
                    break
            assert _visible(work) == expected
        return full, said.replace(str(place), "DISK").removeprefix("gread: ")


def _visible(work: Path) -> dict[str, object]:
    """Results by key, and files by name."""
    found: dict[str, object] = dict(results(work / "store"))
    for kind in ("out", "model"):
        found |= {f"{kind}/{name}": content for name, content in files(work / kind).items()}
    return found


def _used(place: Path) -> int:
    """Kilobytes in use."""
    return shutil.disk_usage(place).used // 1024


def _fill(file: Path, kilobytes: int) -> None:
    file.write_bytes(bytes(1024 * max(0, kilobytes)))


def _data_root() -> tuple[int, str]:
    return in_fresh_process(_full_data_root)


def _full_data_root() -> tuple[int, str]:
    command = (*TRAIN, "--model", "h2gcn", *STORE)
    with _mounted() as (place, log), tempfile.TemporaryDirectory() as folder:
        for name, room in (("plenty", 1000), ("none", 0), ("little", 8)):
            root = place / name
            root.mkdir()
            os.environ["GREAD_DATA"] = str(root)
            _fill(place / "filler", KILOBYTES - _used(place) - room)
            assert ended(forked(command, prepared(Path(folder, name)), log)) == 0, log.read_text()
            (place / "filler").unlink()
        assert len(files(place / "plenty")) == 1
        assert not files(place / "none") and not files(place / "little")
        found = [results(Path(folder, name, "store")) for name in ("plenty", "none", "little")]
        assert found[0] == found[1] == found[2]
    return 2, "trains as usual: the structure is computed and not cached"


def _read_only() -> tuple[int, str]:
    return in_fresh_process(_write_and_read)


def _write_and_read() -> tuple[int, str]:
    with _mounted() as (place, log):
        work = prepared(place / "work")
        for name in ("train", "search", "fit"):
            assert ended(forked(COMMANDS[name], work, log)) == 0, log.read_text()
        before = _visible(work)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        reads = (
            ("runs", *STORE),
            COMMANDS["train"],  # all runs are stored
            ("search", "csbm", "--report", *STORE, "--out", log.parent / "report"),
            ("report", *STORE, "--out", log.parent / "report.html"),
            ("reproduce", "figure-11", "--stored", *STORE, "--out", log.parent / "out"),
            ("predict", "model", "--out", log.parent / "predictions.csv"),
        )
        for command in reads[:2] + reads[3:]:
            assert ended(forked(command, work, log)) == 0, log.read_text()
        writes = (
            (*COMMANDS["train"], "--seeds", "1"),
            ("search", "csbm", "--trials", "99", *COMMANDS["search"][4:]),
            (*COMMANDS["fit"][:-1], "other"),
            COMMANDS["reproduce"],
            ("predict", "model", "--out", "predictions.csv"),
            reads[2],  # records that test accuracies were read
        )
        for command in writes:
            log.unlink(missing_ok=True)
            said = sentence(ended(forked(command, work, log)), log.read_text())
            assert "read-only" in said.lower() or "readonly" in said.lower(), said
        assert _visible(work) == before
    found = f"{len(reads) - 1} reading commands work; {len(writes)} writing commands end with a "
    found += "one-line error"
    return len(reads) - 1 + len(writes), found


def _deleted() -> tuple[int, str]:
    return in_fresh_process(_delete)


def _delete() -> tuple[int, str]:
    said = ""
    victims = {
        "train": ("store", "store/results.sqlite"),
        "search": ("store", "store/results.sqlite", "store/studies/csbm-gread-bs.journal"),
    }
    for name, paths in victims.items():
        for victim in paths:
            with tempfile.TemporaryDirectory() as folder:
                work = prepared(Path(folder, "work"))
                child = forked(COMMANDS[name], work)
                while not results(work / "store"):
                    time.sleep(0.05)
                path = work / victim
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                said = sentence(ended(child), (work / "log").read_text())
                assert "deleted" in said or "No such file" in said, said
                assert not path.exists(), "it was recreated"
                assert ended(forked(COMMANDS[name], work)) == 0, "the same command starts over"
    found = "a one-line error each (it was deleted); nothing is recreated until the same command"
    return 5, f"{found} is run"
