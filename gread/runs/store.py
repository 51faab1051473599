"""Store of results: one SQLite file with one row per run."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from gread.base.errors import InputError
from gread.runs.complete import complete
from gread.runs.result import Result
from gread.runs.spec import RunSpec

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY, dataset TEXT, model TEXT, split INTEGER, seed INTEGER, status TEXT,
    train REAL, val REAL, test REAL, epoch INTEGER, seconds REAL, device TEXT, finished TEXT,
    result TEXT NOT NULL
)
"""


class StoreError(OSError):
    """The store cannot be used; the message names the file."""


class ResultStore:
    """A store of results in a folder, backed by SQLite.

    Every call of `put` is one transaction. A killed process loses only runs that are not stored
    yet, and several processes may write at the same time.

    Args:
        folder: Folder of ``results.sqlite``, which is created if missing.

    Example:
        >>> import tempfile
        >>> store = ResultStore(tempfile.mkdtemp())
        >>> len(store)
        0
    """

    def __init__(self, folder: str | Path):
        self.path = Path(folder) / "results.sqlite"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._create()
        except (OSError, sqlite3.OperationalError) as error:
            raise StoreError(f"the store {self.path} cannot be written: {error}") from error

    def _create(self) -> None:
        # One process at a time: SQLite finds a journal by file name, so a process that still has
        # the corrupt file open would use the journal of the new one.
        with ExitStack() as alone:
            with suppress(OSError):  # a read-only folder needs no lock
                alone.enter_context(FileLock(self.path.with_suffix(".lock")))
            try:
                self._make_table()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:  # keep the corrupt file for recovery
                names = (f"results.broken{number}.sqlite" for number in ("", *range(2, 1000)))
                aside = next(p for p in map(self.path.with_name, names) if not p.exists())
                self.path.replace(aside)
                self._make_table()
                message = f"the store {self.path} is broken ({error}) and was moved to {aside.name}"
                warnings.warn(f"{message}: a new one was created", stacklevel=3)

    def _make_table(self) -> None:
        with closing(self._connect("rwc")) as connection, connection:
            connection.execute(SCHEMA)

    def put(self, *results: Result) -> None:
        """Store results in one transaction; a second result of a spec replaces the first."""
        rows = [_row(result) for result in results]
        if not rows:
            return
        places = ", ".join(f":{column}" for column in rows[0])
        statement = f"REPLACE INTO runs ({', '.join(rows[0])}) VALUES ({places})"
        try:
            with closing(self._connect()) as connection, connection:
                connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._unusable("written", error) from error

    def get(self, spec: RunSpec) -> Result | None:
        """Result of ``spec``, or None; missing hyperparameters have their defaults."""
        return self._get(spec) or self._get(complete(spec))

    def _get(self, spec: RunSpec) -> Result | None:
        for (text,) in self._query("SELECT result FROM runs WHERE key = ?", spec.key):
            found = self._read(text)
            if found.spec.key != spec.key:
                raise StoreError(f"the store {self.path} has another run under the key {spec.key}")
            return found
        return None

    def find(self, keys: Iterable[str]) -> Iterator[Result]:
        """Results stored under the given keys."""
        statement = "SELECT result FROM runs WHERE key IN (SELECT value FROM json_each(?))"
        for (text,) in self._query(statement, json.dumps(list(keys))):
            yield self._read(text)

    def missing(self, specs: Iterable[RunSpec]) -> list[RunSpec]:
        """Specs without a result, completed, without duplicates, in order."""
        keys = {key for (key,) in self._query("SELECT key FROM runs")}
        return [spec for spec in dict.fromkeys(map(complete, specs)) if spec.key not in keys]

    def numbers(self, kind: str) -> dict[str, float | None]:
        """One number of every run, by key, without reading histories.

        Args:
            kind: ``"train"``, ``"val"``, ``"test"`` or ``"val_loss"``, at the epoch selected by
                validation.
        """
        assert kind in ("train", "val", "test", "val_loss")
        column = "json_extract(result, '$.val_loss')" if kind == "val_loss" else kind
        found: Any = self._query(f"SELECT key, {column} FROM runs")
        return dict(found)

    def __iter__(self) -> Iterator[Result]:
        for (text,) in self._query("SELECT result FROM runs ORDER BY dataset, model, seed, split"):
            yield self._read(text)

    def __len__(self) -> int:
        return int(self._query("SELECT count(*) FROM runs")[0][0])

    def _read(self, text: str) -> Result:
        try:
            return Result.from_json(text)
        except InputError as error:
            raise StoreError(
                f"the store {self.path} has a row that is not a result: {error}"
            ) from error

    def _query(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        try:
            with closing(self._connect()) as connection:
                return connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable("read", error) from error

    def _unusable(self, how: str, error: sqlite3.Error) -> StoreError:
        reason = error if self.path.exists() else "it was deleted"
        return StoreError(f"the store {self.path} cannot be {how}: {reason}")

    def _connect(self, mode: str = "rw") -> sqlite3.Connection:
        # Writers wait for each other. A connection per call is safe with forks and kills.
        # A deleted store is not recreated during a run.
        return sqlite3.connect(f"{self.path.absolute().as_uri()}?mode={mode}", timeout=60, uri=True)


def _row(result: Result) -> dict[str, Any]:
    about = ("key", "dataset", "model", "split", "seed")
    found = ("status", "train", "val", "test", "epoch", "seconds", "device", "finished")
    return {
        **{name: getattr(result.spec, name) for name in about},
        **{name: getattr(result, name) for name in found},
        "result": result.to_json(),
    }
