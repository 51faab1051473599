"""Archives of results: JSON lines without histories, compressed."""

from __future__ import annotations

import lzma
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from gread.base.errors import InputError
from gread.base.files import whole_file
from gread.runs.result import Result
from gread.runs.store import ResultStore, StoreError

ENDING = ".jsonl.xz"
ARCHIVES = Path(__file__).parent / "archives"
"""Results shipped with the package."""

FOLDERS = (Path("results"), ARCHIVES)
"""Folders with archives; `gread runs export` writes to the first, in the working directory."""

PRESET = lzma.PRESET_DEFAULT | lzma.PRESET_EXTREME
"""Effort of the compression: files of many runs are a seventh smaller than with the default."""

LARGEST = 2**28
"""Limit in bytes on an unpacked file, and on the memory for unpacking."""


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Write results without histories; read the file with ``xzcat``.

    Example:
        >>> import tempfile
        >>> from gread.runs import RunSpec
        >>> path = Path(tempfile.mkdtemp()) / "some.jsonl.xz"
        >>> write_results(path, [Result(RunSpec(dataset="csbm", model="gcn"), "ok", test=0.5)])
        >>> [result.test for result in read_results(path)]
        [0.5]
    """
    text = "".join(result.without_history().to_json() + "\n" for result in results)
    with whole_file(path) as part:
        part.write_bytes(lzma.compress(text.encode(), preset=PRESET))


def read_results(path: Path) -> list[Result]:
    """Read results that `write_results` wrote."""
    unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST)
    try:
        text = unpacking.decompress(path.read_bytes(), max_length=LARGEST).decode()
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} must be UTF-8 text, compressed by xz: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise StoreError(
            f"{path} must be one complete xz file, and at most {LARGEST} bytes when unpacked"
        )
    results = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            results.append(Result.from_json(line))
        except InputError as error:
            raise StoreError(f"{path}, line {number}, is not a result: {error}") from error
    return results


def known_results(
    store: str | Path, *, keys: Iterable[str] | None = None, order: Iterable[str] = ()
) -> dict[str, Result]:
    """Results by key, from a store, from files in ``results/`` and from the package.

    A run that occurs several times is taken from the first of these. An unreadable file is skipped
    with a warning, so its runs are computed again.

    Args:
        store: Folder of a `ResultStore`.
        keys: Keys of the requested runs; by default all. Files are read until all are found.
        order: Names of files to read first, without extension.

    Example:
        >>> import tempfile
        >>> known_results(tempfile.mkdtemp(), keys=[])
        {}
    """
    wanted = None if keys is None else set(keys)
    rows = ResultStore(store) if wanted is None else ResultStore(store).find(wanted)
    stored = {result.spec.key: result for result in rows}
    found: dict[str, Result] = {}
    place = {f"{name}{ENDING}": number for number, name in enumerate(order)}
    for path in (path for folder in FOLDERS for path in _files(folder, place)):
        if wanted is not None and wanted <= found.keys() | stored.keys():
            break
        try:
            for result in read_results(path):
                found.setdefault(result.spec.key, result)
        except StoreError as error:
            warnings.warn(str(error), stacklevel=2)
    return found | stored


def _files(folder: Path, place: Mapping[str, int]) -> list[Path]:
    """Files in ``order`` first, then the others by name."""
    found = sorted(folder.glob(f"*{ENDING}"))
    return sorted(found, key=lambda path: place.get(path.name, len(place)))
