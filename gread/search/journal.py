"""Journal of a study: one line per event, written atomically.

With Optuna's own file storage, a full disk or a killed process leaves a partial line. The next line
is appended to it, and the file becomes unreadable.

A trial has about twenty events, and waiting for the disk takes longer than sampling. The file is
therefore synced at most once a second. After a power failure, a resumed search samples the trials
of lost events again. A killed process loses no event.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from optuna.storages.journal import BaseJournalBackend, JournalFileBackend, JournalFileSymlinkLock

from gread.runs.store import StoreError

LOCK = 5  # seconds after which the lock of a killed process is broken
SYNC = 1.0  # seconds between two syncs of the file


class Journal(BaseJournalBackend):
    """A file of lines that several processes append to."""

    def __init__(self, path: Path):
        # With a relative path, Optuna cannot determine the age of a lock and waits forever.
        assert path.is_absolute()
        self.path = path
        self.lock = JournalFileSymlinkLock(str(path), grace_period=LOCK)
        self.lines = JournalFileBackend(str(path), self.lock)
        self.synced = -math.inf

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """Read events from a given number on."""
        try:
            yield from self.lines.read_logs(log_number_from)
        except OSError as error:
            raise StoreError(f"the journal {self.path} cannot be read: {error}") from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append events atomically; a deleted file raises `StoreError` and is not recreated."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        try:
            self.lock.acquire()
            try:
                now = time.monotonic()
                due = now - self.synced >= SYNC
                _append(self.path, text.encode(), due)
                if due:
                    self.synced = now
            finally:
                with suppress(RuntimeError):  # another process has broken the lock
                    self.lock.release()
        except OSError as error:
            raise StoreError(f"the journal {self.path} cannot be written: {error}") from error


def _append(path: Path, text: bytes, sync: bool) -> None:
    """Append after the last complete line, or leave the file unchanged."""
    end = _end_of_lines(path)
    if end < path.stat().st_size:
        os.truncate(path, end)
    with open(path, "ab", buffering=0, opener=_existing) as file:
        try:
            rest = text
            while rest:
                rest = rest[file.write(rest) :]
            if sync:
                os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def _end_of_lines(path: Path) -> int:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read(1) in (b"", b"\n"):
            return size
        file.seek(0)
        return file.read().rfind(b"\n") + 1


def _existing(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT)
