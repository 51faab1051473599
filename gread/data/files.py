"""Raw files in the data root, downloaded if missing and verified before parsing.

A file is trusted only if it has the digest pinned in ``files.toml``. Planetoid's files are pickles,
so an unverified file must never be opened.
"""

from __future__ import annotations

import hashlib
import os
import platform
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path

from gread.base.toml import read_toml

TIMEOUT = 30.0
"""Seconds without data after which a connection is closed."""

ATTEMPTS = 3
MAX_BYTES = 256 * 2**20
CHUNK = 2**16


class DataError(OSError):
    """Raised if a dataset cannot be loaded; the message says what to do.

    Example:
        >>> import tempfile
        >>> import gread
        >>> try:
        ...     gread.load("amazon-computers", root=tempfile.mkdtemp())
        ... except gread.DataError as error:
        ...     print(str(error)[:35])
        real/amazon-computers.npz is not in
    """


@dataclass(frozen=True)
class RawFile:
    """One file of a dataset.

    Attributes:
        path: Path below the data root.
        url: Download URL; empty if there is none.
        digest: ``sha256:...``, or ``git-blob:...`` if only the id in its repository is known.
        source: Publisher of the data, if there is no URL.
    """

    path: str
    url: str
    digest: str
    source: str = ""

    def matches(self, content: bytes) -> bool:
        """Whether ``content`` is the pinned file."""
        kind, _, expected = self.digest.partition(":")
        if kind == "git-blob":
            header = b"blob %d\0" % len(content)
            return hashlib.sha1(header + content).hexdigest() == expected
        return hashlib.sha256(content).hexdigest() == expected


def data_root(root: str | Path | None = None) -> Path:
    """Return ``root``, else ``GREAD_DATA``, else a folder in the platform's cache."""
    chosen = root or os.environ.get("GREAD_DATA")
    if not chosen:
        import platformdirs

        chosen = platformdirs.user_cache_dir("gread")
    return Path(chosen).expanduser()


@cache
def manifest() -> tuple[RawFile, ...]:
    """All raw files."""
    sources = read_toml("data", "files.toml")
    assert sources is not None
    return tuple(
        RawFile(
            file["path"],
            f"{source['base']}/{file['at']}" if "base" in source else "",
            file["digest"],
            source.get("source", ""),
        )
        for source in sources.values()
        for file in source["files"]
    )


def stage(prefix: str, root: Path, folder: Path) -> None:
    """Copy the verified files whose path starts with ``prefix`` to ``folder``."""
    for file in manifest():
        if file.path.startswith(prefix):
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(obtain(file, root))


def obtain(file: RawFile, root: Path) -> bytes:
    """Verified content of ``file``, from the data root or the network."""
    place = root / file.path
    if not place.exists():
        _download(file, place)
    content = place.read_bytes()
    if file.matches(content):
        return content
    wrong = f"{place} is not the expected file (its digest is not {file.digest})"
    if not file.url:
        raise DataError(f"{wrong}: replace it")
    place.unlink()
    raise DataError(f"{wrong} and was removed; run again to download it")


def _download(file: RawFile, place: Path) -> None:
    """Download to a temporary file and move it to ``place`` after verification."""
    part = place.with_name(place.name + ".part")
    mirror = os.environ.get("GREAD_MIRROR")  # URL of a data root on a web server
    root = place.parents[file.path.count("/")]
    if not mirror and not file.url:
        raise DataError(
            f"{file.path} is not in {root} and has no download address (it holds data of "
            f"{file.source}): put it there, or set GREAD_DATA to a folder that has it"
        )
    if mirror and not mirror.startswith(("http://", "https://")):
        raise DataError(f"GREAD_MIRROR must be a URL such as http://host/path, got {mirror}")
    url = f"{mirror.rstrip('/')}/{file.path}" if mirror else file.url
    reason: Exception | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(ATTEMPTS):
            try:
                _continue(url, part)
            except urllib.error.HTTPError as error:
                reason = error
                break  # the server refused, so do not retry
            except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed URL
                reason = error
                continue
            if file.matches(part.read_bytes()):
                part.replace(place)
                return
            part.unlink()
            reason = DataError(f"the downloaded file does not have the digest {file.digest}")
    except OSError as error:
        reason = error
    raise DataError(
        f"{file.path} is not in {root} and cannot be downloaded from {url} "
        f"({reason}): put it there, or set GREAD_DATA to a folder that has it"
    ) from reason


def _continue(url: str, part: Path) -> None:
    """Fetch the missing rest of ``part``; start over if the server cannot resume."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            with part.open("ab" if answer.status == 206 else "wb") as out:
                while chunk := answer.read(CHUNK):
                    out.write(chunk)
                    if out.tell() > MAX_BYTES:
                        raise DataError(f"{url} sends more than {MAX_BYTES} bytes")
            length = answer.headers.get("Content-Length")
            if answer.length:  # the connection was closed early
                raise DataError(f"only a part of {length} bytes arrived")
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:  # 416: the part is at least as long as the file
            raise


PYTHON_AST = f"python-ast-{platform.python_version()}"
"""Name of the parsed form of a graph that differs between versions of Python."""


def parsed(name: str) -> str:
    """Path of the parsed form of a graph below the data root."""
    return f"processed/{name}.safetensors"
