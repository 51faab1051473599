"""Shards from Parquet files, which may be larger than memory and are read in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from gread.base.errors import InputError
from gread.base.files import whole_folder
from gread.base.memory import GB, free_memory
from gread.distributed.shards import ShardWriter, Sizes
from gread.graph.partition import neighbours
from gread.tables.column import column as column_of
from gread.tables.formats import check_file, import_pyarrow
from gread.tables.graph import ENDS
from gread.tables.labels import SPLITS, class_values

BATCH = 2**18  # rows per batch
SHARES = (0.6, 0.8)  # cumulative shares of training and validation nodes
AN_EDGE = 64  # bytes per edge while nodes are ordered


def shard_parquet(
    nodes: str | Path,
    edges: str | Path,
    folder: str | Path,
    *,
    label: str,
    shards: int,
    partition: str = "cuthill-mckee",
    split: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    seed: int = 0,
) -> Sizes:
    """Write a graph to a folder in shards, as `gread.distributed.shard` does.

    Repeated edges count once, with their mean weight; self loops are dropped. Memory holds the
    edges of one shard, or temporarily those of the whole graph with a partition other than
    ``given``.

    Args:
        nodes: File of the nodes. Row k is node k. All columns except ``label`` and ``split`` are
            features, which must be numeric and are not scaled.
        edges: File with two columns of node numbers. They are named as in
            `gread.tables.graph.ENDS`, or are the only columns except ``weight``.
        folder: Folder to create; it must not exist.
        label: Column of the classes; null if unknown.
        shards: Number of shards, one for each process.
        partition: A name of `gread.distributed.ORDERS`.
        split: Column with train, val or test; drawn at random if omitted.
        weight: Column of the edge weights.
        directed: Whether edges are directed.
        seed: Seed of the random split.
    """
    node_file, edge_file = _open(nodes), _open(edges)
    ends = _ends(edge_file, Path(edges).name, weight)
    features = _features(node_file, Path(nodes).name, label, split)
    count = node_file.metadata.num_rows

    def near() -> csr_matrix:
        needed, free = edge_file.metadata.num_rows * AN_EDGE, free_memory()
        if needed > free:
            raise InputError(
                f"partition {partition} needs about {needed / GB:.1f} GB for the edges, and "
                f"{free / GB:.1f} GB are free: choose --partition given, and number the nodes so "
                "that neighbours are near each other"
            )
        parts = [np.stack(pair) for pair, _ in _edges(edge_file, ends, weight, count)]
        none = np.empty((2, 0), dtype=np.int64)  # a file without edges has no batches
        return neighbours(np.concatenate([none, *parts], 1), count)

    classes = _classes(node_file, label, Path(nodes).name)
    sizes = {"nodes": count, "features": len(features), "splits": 1}
    with whole_folder(folder) as part:
        writer = ShardWriter(part, shards, partition, near, **sizes)
        for (source, target), values in _edges(edge_file, ends, weight, count):
            writer.add_edges(source, target, values)
            if not directed:
                writer.add_edges(target, source, values)
        first = 0
        for batch in _batches(node_file):
            numbers = np.arange(first, first + batch.num_rows)
            y = np.array([classes.get(value, -1) for value in batch.column(label).to_pylist()])
            x = np.stack([_numbers(batch, name, first) for name in features], 1)
            parts = _parts(batch, split, np.random.default_rng([seed, first]), first)
            masks = np.stack([(parts == part) & (y >= 0) for part in range(3)])
            writer.add_nodes(numbers, x, y, masks[..., None])
            first += batch.num_rows
        return writer.finish(len(classes), distinct=True)


def _open(path: str | Path) -> Any:
    pyarrow = import_pyarrow()
    check_file(Path(path))
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except Exception as error:  # pyarrow raises various types of errors
        raise InputError(f"{path} must be a Parquet file, got one that pyarrow rejects") from error
    names = Counter(file.schema_arrow.names)
    if twice := [name for name, times in names.items() if times > 1]:
        raise InputError(f"{path} must have different columns, got {twice[0]!r} twice")
    return file


def _batches(file: Any, columns: list[str] | None = None) -> Iterator[Any]:
    """Read a file in batches; a corrupt batch raises an error."""
    batches = file.iter_batches(BATCH, columns=columns)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:  # pyarrow raises various types of errors
            why = str(error).partition("\n")[0]
            message = f"Parquet files must be complete, got a broken one: {why}"
            raise InputError(message) from error
        yield batch


def _check_columns(file: Any, name: str, *wanted: str | None) -> None:
    known = file.schema_arrow.names
    for column in wanted:
        if column is not None and column not in known:
            raise InputError(f"{name} has no column {column!r}; it has: {', '.join(known)}")


def _check_numbers(file: Any, name: str, column: str) -> None:
    pyarrow, kind = import_pyarrow(), file.schema_arrow.field(column).type
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        raise InputError(f"column {column!r} of {name} must be numbers, got {kind}")


def _ends(file: Any, name: str, weight: str | None) -> tuple[str, str]:
    _check_columns(file, name, weight)
    if weight is not None:
        _check_numbers(file, name, weight)
    found = [column for column in file.schema_arrow.names if column != weight]
    for first, second in (*ENDS, *([tuple(found)] if len(found) == 2 else [])):
        if first in found and second in found:
            return first, second
    raise InputError(
        f"{name} must have columns source and target with numbers of nodes, got "
        f"{', '.join(found) or 'none'}"
    )


def _edges(
    file: Any, ends: tuple[str, str], weight: str | None, nodes: int
) -> Iterator[tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32] | None]]:
    """Edges without self loops, with their weights, in batches."""
    pyarrow = import_pyarrow()
    for batch in _batches(file, [*ends, *([weight] if weight else [])]):
        for end in ends:
            kind = batch.column(end).type
            if batch.column(end).null_count or not pyarrow.types.is_integer(kind):
                raise InputError(f"column {end!r} of edges must be whole numbers, got {kind}")
        found = [_column(batch, end).astype(np.int64) for end in ends]
        for numbers in found:
            wrong = numbers[(numbers < 0) | (numbers >= nodes)]
            if len(wrong):
                raise InputError(f"edges must name nodes 0 to {nodes - 1}, got node {wrong[0]}")
        keep = found[0] != found[1]
        values = None
        if weight is not None:
            values = _column(batch, weight).astype(np.float32)
            if not (np.isfinite(values) & (values >= 0)).all():
                raise InputError(f"column {weight!r} of edges must be finite and not negative")
            values = values[keep]
        yield (found[0][keep], found[1][keep]), values


def _column(batch: Any, name: str) -> NDArray[Any]:
    return batch.column(name).to_numpy(zero_copy_only=False)


def _features(file: Any, name: str, label: str, split: str | None) -> list[str]:
    pyarrow, schema = import_pyarrow(), file.schema_arrow
    _check_columns(file, name, label, split)
    for column in filter(None, (label, split)):
        kind = schema.field(column).type
        if pyarrow.types.is_nested(kind):
            raise InputError(f"column {column!r} of {name} must hold single values, got {kind}")
    found = [column for column in schema.names if column not in (label, split)]
    for column in found:
        _check_numbers(file, name, column)
    if not found:
        raise InputError(f"{name} must have a column of features besides {label!r}, got none")
    return found


def _classes(file: Any, label: str, name: str) -> dict[Any, int]:
    """Index of every class."""
    where, found = f"label column {label!r} of {name}", set[Any]()
    for batch in _batches(file, [label]):
        values = batch.column(label).unique().to_pylist()
        class_values(column_of(values), where)  # values that are not classes raise an error
        found |= set(values) - {None}
    if len(found) < 2:
        raise InputError(f"{where} must have two classes or more, got {len(found)}")
    return {value: place for place, value in enumerate(sorted(found))}


def _numbers(batch: Any, name: str, first: int) -> NDArray[np.float32]:
    values = _column(batch, name).astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise InputError(
            f"column {name!r} must be finite numbers, got another in row {first + wrong[0]}"
        )
    return values


def _parts(
    batch: Any, split: str | None, random: np.random.Generator, first: int
) -> NDArray[np.int64]:
    """Set of each node: 0 train, 1 validation, 2 test, −1 none."""
    if split is None:
        return np.searchsorted(SHARES, random.random(batch.num_rows), side="right")
    words = batch.column(split).to_pylist()
    for row, word in enumerate(words):
        if word is not None and word not in SPLITS:
            raise InputError(
                f"column {split!r} must contain one of {', '.join(SPLITS)}, got {word!r} in row "
                f"{first + row}"
            )
    return np.array([-1 if word is None else SPLITS[word] for word in words])
