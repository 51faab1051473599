"""Readers of tables by file extension."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gread.base.errors import InputError
from gread.base.memory import check_fits, check_left, check_unpacks
from gread.base.registry import Registry, UnknownName
from gread.tables.column import (
    SPARSE,
    Column,
    column,
    column_of_texts,
    sparse_numbers,
    sparse_vectors,
    thinned,
)
from gread.tables.table import ROW, Table, check_shape

FORMATS: Registry[Callable[[Path], Table]] = Registry("format of a table")

DELIMITERS = ",;\t|"
WIDE = 100  # columns of a table above which mostly zero ones are stored as sparse
MOST_FEATURES = 10_000_000  # largest number of columns of a matrix
PEEK = 20  # lines read to choose a delimiter
ROWS, CELLS = 1 << 15, 1 << 20  # largest numbers of rows and fields in a block of text


def read_table(path: str | Path) -> Table:
    """Read a table in the format of its file extension."""
    file = Path(path)
    try:
        read = FORMATS[file.suffix.lower().removeprefix(".")]
    except UnknownName as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    check_file(file)
    try:
        return read(file)
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} must be UTF-8 text, got the byte 0x{error.object[error.start]:02x} "
            f"({error.reason}): save it with that encoding"
        ) from error
    except MemoryError as error:
        raise InputError(f"{file} does not fit into memory") from error


def check_file(file: Path) -> None:
    """Require a non-empty file."""
    if not file.exists():
        raise InputError(f"there is no file {file}")
    if not file.is_file():
        what = "folder" if file.is_dir() else "device or pipe"
        raise InputError(f"{file} must be a file, got a {what}")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty")


@FORMATS.register("csv")
def read_csv(path: Path) -> Table:
    """Read CSV; the delimiter is the one that gives the first rows the most fields."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        # A file without line breaks may be larger than the memory.
        lines = [line for line in (file.readline(2**20) for _ in range(PEEK)) if line]
    return _read_texts(path, max(DELIMITERS, key=lambda one: _widths(lines, one)))


def _widths(lines: list[str], delimiter: str) -> tuple[int, int]:
    """Number of fields per row (0 if rows differ), and of the first row."""
    try:
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        widths = [len(row) for row in rows if row]
    except csv.Error:
        return 0, 0
    whole = widths[:-1] or widths  # the last row may continue on the next line
    return (whole[0] if len(set(whole)) == 1 else 0), sum(widths[:1])


@FORMATS.register("tsv")
def read_tsv(path: Path) -> Table:
    """Read TSV."""
    return _read_texts(path, "\t")


@FORMATS.register("jsonl")
def read_json_lines(path: Path) -> Table:
    """Read JSON lines; missing keys and null are missing values."""
    check_fits(path, 6)
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                rows.append(_object(line, number))
            if number % ROWS == 0:
                check_left()
    names = dict.fromkeys(name for row in rows for name in row)
    check_shape(len(rows), len(names), sum(map(len, rows)))
    return Table(path.name, {name: _named(name, [row.get(name) for row in rows]) for name in names})


FORMATS.add("ndjson", read_json_lines)


@FORMATS.register("npz")
def read_npz(path: Path) -> Table:
    """Read NPZ: one array per column, [N] or [N, d], or a sparse SciPy matrix.

    The parts of a sparse matrix among other arrays are ``x_data``, ``x_indices``, ``x_indptr`` and
    ``x_shape`` of the column x.
    """
    check_fits(path, 2)
    columns = {}
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_shape(0, len(members))
            check_unpacks(2 * sum(member.file_size for member in members))
            for member in members:
                with archive.open(member) as file:
                    array = np.lib.format.read_array(file, allow_pickle=False)
                arrays[member.filename.removesuffix(".npy")] = array
        if "format" in arrays and "shape" in arrays:
            return _matrix(path, sparse_vectors(_checked(scipy.sparse.load_npz(path))))
        for prefix in [name.removesuffix("indptr") for name in arrays if name.endswith("_indptr")]:
            if all(prefix + part in arrays for part in CSR):
                parts = [arrays.pop(prefix + part) for part in CSR]
                matrix = scipy.sparse.csr_array(tuple(parts[:3]), shape=tuple(parts[3].tolist()))
                columns[prefix.removesuffix("_")] = sparse_vectors(_checked(matrix))
        for name, array in arrays.items():
            columns[name] = _named(name, array)
            if array.dtype.kind == "f" and array.ndim == 1:  # arrays mark missing values by NaN
                missing = np.isnan(array)
                columns[name] = column(np.where(missing, 0, array), missing)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # archives and arrays may be corrupt in many ways
        raise InputError(f"it is not an NPZ file of plain arrays ({_first_line(error)})") from error
    return Table(path.name, columns)


CSR = ("data", "indices", "indptr", "shape")
"""Names of the arrays of a CSR matrix."""


def _checked(matrix: Any) -> Any:
    """Require a sparse matrix with valid indices, and a size in proportion to its entries."""
    rows, columns = matrix.shape
    check_shape(rows, 1, matrix.nnz)
    if columns > MOST_FEATURES:
        raise InputError(
            f"its matrix must have {MOST_FEATURES:,} columns or fewer, got {columns:,}"
        )
    found = matrix.tocsr()
    found.check_format(full_check=True)
    return found


def _matrix(path: Path, features: Column, **columns: Column) -> Table:
    """The table of a matrix, with row numbers."""
    rows = column(np.arange(len(features)))
    return Table(path.name, {ROW: rows, **columns, "x": features})


@FORMATS.register("svm")
def read_svm(path: Path) -> Table:
    """Read lines ``label index:value ...`` as columns ``label`` and ``x``; index k is feature k."""
    from sklearn.datasets import load_svmlight_file

    check_fits(path, 4)
    try:
        matrix, labels = load_svmlight_file(str(path), zero_based=True)
    except (ValueError, OverflowError) as error:
        raise InputError(f"it is not a libsvm file ({_first_line(error)})") from error
    return _matrix(path, sparse_vectors(_checked(matrix)), label=column(labels))


FORMATS.add("libsvm", read_svm)
FORMATS.add("svmlight", read_svm)


@FORMATS.register("parquet")
def read_parquet(path: Path) -> Table:
    """Read Parquet: columns of plain values or lists of numbers."""
    import_pyarrow()
    check_fits(path, 4)
    with path.open("rb") as file:
        begins = file.read(4)
        file.seek(-min(4, path.stat().st_size), os.SEEK_END)
        if not begins == file.read() == b"PAR1":  # checked before a process is started
            raise InputError("it is not a Parquet file, which begins and ends with PAR1")
    found = _streamed(path)
    try:
        chunks = ((name, found.column(name).combine_chunks()) for name in found.column_names)
        read = ((name, _arrow(name, chunk)) for name, chunk in chunks)
        columns = thinned(read, found.num_rows * found.num_columns)
        for about in (found.schema.pandas_metadata or {}).get("columns", []):
            if about["pandas_type"] == "categorical" and about["name"] in columns:
                columns[about["name"]] = replace(columns[about["name"]], categorical=True)
        return Table(path.name, columns)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # duplicate names, dates that Python does not support
        raise InputError(f"it contains unsupported data ({_first_line(error)})") from error


def _streamed(path: Path) -> Any:
    """Read a Parquet file in another process, which a corrupt file may crash."""
    import pyarrow as pa

    from gread.tables import arrow as parquet

    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, parquet.__file__, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as reader,
    ):
        assert reader.stdin and reader.stdout
        try:
            sizes = reader.stdout.readline()
            if sizes:
                rows, columns, size = json.loads(sizes)
                check_shape(rows, columns)
                check_unpacks(size)
                reader.stdin.write(parquet.READ.encode())
                reader.stdin.close()
                found = pa.ipc.open_stream(reader.stdout).read_all()
            status = reader.wait()
        except pa.ArrowInvalid:  # the stream is truncated
            status = reader.wait()
        finally:
            reader.kill()
        if status == parquet.FULL:
            raise MemoryError
        if status != 0:
            errors.seek(0)
            why = errors.read().decode(errors="replace").strip().rpartition("\n")[2].strip()
            raise InputError(f"it is not a Parquet file that pyarrow can read ({why})")
        return found


def import_pyarrow() -> Any:
    """Import pyarrow, or raise an error that names the extra."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow: pip install 'gread[parquet]'") from error
    return pyarrow


def _read_texts(path: Path, delimiter: str) -> Table:
    """Read a text file with a header and delimited fields.

    Column types are inferred in one pass over blocks of rows that does not keep the fields. Columns
    with blocks of different types, for instance with a word after a million numbers, are read again
    as a whole.
    """
    check_fits(path, 3)
    names = _header(path, delimiter)
    blocks: dict[str, list[Column]] = {name: [] for name in names}
    rare: dict[str, _Rare] = {}
    rows = 0
    for start, name, texts in _blocks(path, delimiter, names):
        rows = start + len(texts)
        if start == 0 and len(names) > WIDE and texts.count("0") >= (1 - SPARSE) * len(texts):
            rare[name] = _Rare([], [])
        if name in rare:
            rare[name].add(start, texts)
        elif name:
            blocks[name].append(column_of_texts(texts))
    columns = {name: _joined(parts) for name, parts in blocks.items() if name and name not in rare}
    again: dict[str, list[str]] = {name: [] for name, found in columns.items() if found is None}
    for _, name, texts in _blocks(path, delimiter, names) if again else ():
        if name in again:
            again[name] += texts
    known = {name: found for name, found in columns.items() if found is not None}
    known |= {name: column_of_texts(texts) for name, texts in again.items()}
    present = np.zeros(rows, dtype=bool)  # shared by all columns without missing values
    known |= {name: found.column(present) for name, found in rare.items() if name}
    return Table(path.name, {name: known[name] for name in names if name})


class _Rare(NamedTuple):
    """Cells of a mostly zero column that are not 0, as rows and texts."""

    rows: list[int]
    texts: list[str]

    def add(self, start: int, texts: tuple[str, ...]) -> None:
        """Add the texts of a block of rows."""
        if texts.count("0") < len(texts):
            others = [place for place, text in enumerate(texts) if text != "0"]
            self.rows.extend(start + place for place in others)
            self.texts.extend(texts[place] for place in others)

    def column(self, present: NDArray[np.bool_]) -> Column:
        """Build the column; sparse unless it is not numeric, or not mostly zero in later rows."""
        found = column_of_texts([*self.texts, "0"])[:-1]
        rows = np.array(self.rows, dtype=np.int64)
        if found.kind not in ("whole", "number"):
            texts = ["0"] * len(present)
            for row, text in zip(self.rows, self.texts, strict=True):
                texts[row] = text
            return column_of_texts(texts)
        missing = present
        if found.missing.any():
            missing = present.copy()
            missing[rows] = found.missing
        sparse = sparse_numbers(found.kind, rows, found.values, missing)
        return sparse if len(rows) <= SPARSE * len(present) else sparse.dense()


def _header(path: Path, delimiter: str) -> list[str]:
    """Read the column names; callers skip a column with an empty name, such as a pandas index."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(_fields(file, delimiter), [])
    check_shape(0, len(names))
    known: set[str] = set()
    for name in filter(None, names):
        if name in known:
            raise InputError(f"its columns must have different names, got {name!r} twice")
        known.add(name)
    if not known:
        raise InputError("its first line must name the columns, got none")
    return names


def _blocks(
    path: Path, delimiter: str, names: list[str]
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield columns of up to `ROWS` rows at a time, with the index of the first row and the name.

    Blank lines are skipped.
    """
    width = len(names)
    with path.open(encoding="utf-8-sig", newline="") as file:
        fields = _fields(file, delimiter)
        next(fields)
        done = 0
        most = max(1, min(ROWS, CELLS // width))
        while rows := list(islice(fields, most)):
            check_left()
            for number, row in enumerate(rows, done + 1):
                if len(row) != width:
                    raise InputError(
                        f"its rows must have {width} fields, as many as the header, got "
                        f"{len(row)} in row {number}"
                    )
            yield from zip(repeat(done), names, zip(*rows, strict=True))
            done += len(rows)


def _fields(file: Any, delimiter: str) -> Iterator[list[str]]:
    try:
        for row in csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True):
            if row:
                yield row
    except csv.Error as error:
        raise InputError(f"it is not a table of text ({error})") from error


def _joined(parts: list[Column]) -> Column | None:
    """Concatenate the blocks of a column; None if their kinds are incompatible."""
    if not parts:
        return Column("number", np.zeros(0), np.zeros(0, dtype=bool))
    kinds = {part.kind for part in parts if not part.missing.all()} or {"number"}
    if len(kinds) > 1 and kinds != {"whole", "number"}:
        return None
    kind = "number" if len(kinds) > 1 else kinds.pop()
    like = next((part.values.dtype for part in parts if part.kind == kind), np.dtype(np.float64))
    values = np.concatenate([_as(part, like) for part in parts])
    return Column(kind, values, np.concatenate([part.missing for part in parts]))


def _as(part: Column, like: np.dtype[Any]) -> Any:
    """Cast the values of a block to a common dtype; a block without values is filled."""
    if part.missing.all():
        return np.full(len(part), "" if like.kind == "O" else 0, dtype=like)
    return part.values.astype(like, copy=False)


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if "\\ud" in line.lower():
            json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} is not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise InputError(f"line {number} must be an object, got {type(found).__name__}")
    return found


def _named(name: str, values: Any) -> Column:
    try:
        return column(values)
    except InputError as error:
        raise InputError(f"column {name!r}: {error}") from error


def _arrow(name: str, chunk: Any) -> Column:
    """Convert an Arrow column; numbers and booleans are converted without Python objects."""
    import pyarrow as pa

    from gread.tables.arrow import is_text

    of = chunk.type
    if pa.types.is_dictionary(of):
        if is_text(of.value_type):
            known = np.array([*chunk.dictionary.to_pylist(), None], dtype=object)
            return _named(name, known[chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
        chunk = chunk.dictionary_decode()
        of = chunk.type
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of):
        missing = chunk.is_null().to_numpy(zero_copy_only=False)
        filled = chunk.fill_null(False if pa.types.is_boolean(of) else 0)
        return column(filled.to_numpy(zero_copy_only=False), missing)
    return _named(name, chunk.to_pylist())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
