"""The union of the shards on disk equals the graph; invalid shards raise an `InputError`."""

import json
import shutil

import numpy as np
import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.data.splits import MASKS
from gread.distributed.launch import run_processes
from gread.distributed.parquet import shard_parquet
from gread.distributed.shards import read_shard, read_sizes, shard
from tests.distributed import jobs as work


@pytest.fixture(scope="module")
def data():
    return gread.csbm(50, 3, homophily=0.4, degree=5, num_features=4, num_splits=2, seed=2)


def put_together(folder):
    """Edges, weights, features, classes and masks of all shards, by original node number."""
    sizes = read_sizes(folder)
    shards = [folder / f"block-{k:04}" for k in range(sizes.shards)]
    numbers = np.concatenate([np.load(one / "nodes.npy") for one in shards])
    x = np.empty((sizes.nodes, sizes.features), np.float32)
    y = np.empty(sizes.nodes, np.int64)
    masks = np.empty((3, sizes.nodes, sizes.splits), bool)
    edges = []
    for one, first, last in zip(shards, sizes.bounds[:-1], sizes.bounds[1:], strict=True):
        x[numbers[first:last]] = np.load(one / "x.npy")
        y[numbers[first:last]] = np.load(one / "y.npy")
        masks[:, numbers[first:last]] = np.load(one / "masks.npy")
        places = np.concatenate([np.arange(first, last), np.load(one / "halo.npy")])
        found = numbers[places[np.load(one / "edges.npy")]]
        weight = one / "weight.npy"
        weights = np.load(weight) if weight.exists() else np.ones(found.shape[1], np.float32)
        edges += zip(*found.tolist(), weights.tolist(), strict=True)
    return sorted(edges), x, y, masks


@pytest.mark.parametrize("partition", ["cuthill-mckee", "given"])
@pytest.mark.parametrize("shards", [1, 3, 50])
def test_union_of_shards_equals_the_graph(data, tmp_path, partition, shards):
    weighted = data.clone()
    weighted.edge_weight = torch.rand(data.edge_index.size(1))
    sizes = shard(weighted, tmp_path / "graph", shards, partition)
    edges, x, y, masks = put_together(tmp_path / "graph")
    weights = weighted.edge_weight.tolist()
    assert edges == sorted(zip(*data.edge_index.tolist(), weights, strict=True))
    assert np.array_equal(x, data.x.numpy())
    assert np.array_equal(y, data.y.numpy())
    assert np.array_equal(masks, np.stack([data[name].numpy() for name in MASKS]))
    assert (sizes.nodes, sizes.edges, sizes.classes) == (50, data.edge_index.size(1), 3)


def write_parquet(data, folder):
    """Write the nodes, and each edge once with five reversed duplicates and a self loop."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].numpy()
    edges = {
        "source": np.concatenate([source, target[:5], [7]]),
        "target": np.concatenate([target, source[:5], [7]]),
    }
    pq.write_table(pa.table(edges), folder / "edges.parquet", row_group_size=20)
    part = data.test_mask[:, 0] * 2 + data.val_mask[:, 0] * 1
    columns = {f"x{k}": data.x[:, k].numpy() for k in range(4)}
    columns["class"] = np.array(["a", "b", "c"])[data.y]
    columns["split"] = np.array(["train", "val", "test"])[part]
    pq.write_table(pa.table(columns), folder / "nodes.parquet", row_group_size=7)
    return folder / "nodes.parquet", folder / "edges.parquet"


def test_parquet_files_give_the_shards_of_the_graph(data, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("gread.distributed.parquet.BATCH", 8)  # several batches
    files = write_parquet(data, tmp_path)
    sizes = shard_parquet(*files, tmp_path / "found", label="class", split="split", shards=3)
    shard(data, tmp_path / "expected", 3)
    found, expected = put_together(tmp_path / "found"), put_together(tmp_path / "expected")
    assert found[0] == expected[0]
    assert all(map(np.array_equal, found[1:3], expected[1:3]))
    assert np.array_equal(found[3][..., 0], expected[3][..., 0])
    assert sizes.halos == read_sizes(tmp_path / "expected").halos


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"label": "clas"}, "nodes.parquet has no column 'clas'; it has: x0"),
        ({"label": "x0"}, "column 'class' of nodes.parquet must be numbers, got "),
        ({"weight": "w"}, "edges.parquet has no column 'w'"),
        ({"shards": 51}, "shards must be at most the 50 nodes, got 51"),
        ({"partition": "mets"}, "unknown partition 'mets', did you mean 'metis'?"),
        ({"split": "class", "label": "split"}, "column 'class' must contain one of train, val"),
    ],
)
def test_invalid_parquet_input_raises_an_input_error(data, tmp_path, options, sentence):
    pytest.importorskip("pyarrow")
    files = write_parquet(data, tmp_path)
    given = {"label": "class", "shards": 2, "split": "split"} | options
    with pytest.raises(InputError) as error:
        shard_parquet(*files, tmp_path / "found", **given)
    assert sentence in str(error.value)
    assert not (tmp_path / "found").exists()
    assert not list(tmp_path.glob(".found*"))  # no partial folder is left


@pytest.mark.parametrize(
    ("table", "column", "values", "sentence"),
    [
        ("nodes", "class", [float("nan"), 1.0], "'class' of nodes.parquet must hold classes, got"),
        ("nodes", "class", [0.5, 1.0], "'class' of nodes.parquet must hold classes, got numb"),
        ("nodes", "class", [1e999, 1.0], "'class' of nodes.parquet must hold classes, got NaN"),
        ("nodes", "class", [[1], [2]], "'class' of nodes.parquet must hold single values, got lis"),
        ("nodes", "split", [[1], [2]], "'split' of nodes.parquet must hold single values, got lis"),
        ("edges", "weight", ["heavy"], "column 'weight' of edges.parquet must be numbers, got str"),
        ("nodes", "x", [0, 0], "nodes.parquet must have different columns, got 'x' twice"),
    ],
)
def test_unusable_parquet_columns_raise_an_input_error(tmp_path, table, column, values, sentence):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    nodes = [("x", [0.5, 1.5]), ("class", ["a", "b"]), ("split", ["train", "test"])]
    columns = {"nodes": nodes, "edges": [("source", [0]), ("target", [1]), ("weight", [1.0])]}
    kept = [pair for pair in columns[table] if pair[0] != column or column == "x"]
    columns[table] = [*kept, (column, values)]
    for name, pairs in columns.items():
        names, arrays = zip(*pairs, strict=True)
        file = pa.Table.from_arrays([pa.array(values) for values in arrays], names)
        pq.write_table(file, tmp_path / f"{name}.parquet")
    files = tmp_path / "nodes.parquet", tmp_path / "edges.parquet"
    given = {"label": "class", "split": "split", "weight": "weight", "shards": 1}
    with pytest.raises(InputError, match=sentence):
        shard_parquet(*files, tmp_path / "found", **given)


def test_parquet_file_without_edges_is_sharded(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    none = pa.array([], pa.int64())
    pq.write_table(pa.table({"source": none, "target": none}), tmp_path / "edges.parquet")
    pq.write_table(pa.table({"x": [0.5, 1.5], "class": [0, 1]}), tmp_path / "nodes.parquet")
    files = tmp_path / "nodes.parquet", tmp_path / "edges.parquet"
    sizes = shard_parquet(*files, tmp_path / "found", label="class", shards=2)
    assert (sizes.nodes, sizes.edges, sizes.halos) == (2, 0, (0, 0))


def test_partition_without_enough_memory_raises_an_input_error(data, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("gread.distributed.parquet.free_memory", lambda: 10.0)
    files = write_parquet(data, tmp_path)
    given = {"label": "class", "split": "split", "shards": 2}
    with pytest.raises(InputError, match="choose --partition given"):
        shard_parquet(*files, tmp_path / "found", **given)
    assert shard_parquet(*files, tmp_path / "found", **given, partition="given").shards == 2


def test_invalid_shard_folder_raises_an_input_error(data, tmp_path):
    with pytest.raises(InputError, match="must be a folder that gread shard wrote"):
        read_shard(tmp_path)
    shard(data, tmp_path / "one", 1)
    with pytest.raises(InputError, match="must not exist yet"):
        shard(data, tmp_path / "one", 1)
    (tmp_path / "one/graph.json").write_text("[1]")
    with pytest.raises(InputError, match=r"graph.json must describe the shards"):
        read_shard(tmp_path / "one")
    shard(data, tmp_path / "two", 2)
    with pytest.raises(InputError, match="has 2 shards, one for each process, got 1 processes"):
        read_shard(tmp_path / "two")


@pytest.mark.slow
def test_missing_foreign_or_changed_shards_fail_on_all_processes(data, tmp_path):
    names = ("whole", "missing", "foreign", "less", "broken", "other edge")
    folders = [tmp_path / name for name in names]
    for folder in folders:
        shard(data, folder, 2)
    shutil.rmtree(tmp_path / "missing/block-0001")
    other = data.clone()
    other.x = data.x + 1
    shard(other, tmp_path / "other", 2)
    shutil.rmtree(tmp_path / "foreign/block-0000")
    shutil.copytree(tmp_path / "other/block-0000", tmp_path / "foreign/block-0000")
    (tmp_path / "broken/block-0001/x.npy").write_bytes(b"half")
    (tmp_path / "less/block-0000/edges.npy").unlink()
    edges = np.load(tmp_path / "other edge/block-0001/edges.npy")
    edges[0, 0] = 10**6  # a kernel would read out of bounds
    np.save(tmp_path / "other edge/block-0001/edges.npy", edges)
    first, second = run_processes(work.read_all, (folders,), processes=2)
    assert first == second
    whole, missing, foreign, *changed = first
    assert whole == ""
    assert "block-0001 is missing: process 1 has nothing to read" in missing
    mine = json.loads((tmp_path / "whole/graph.json").read_text())["fingerprint"]
    assert f"must be shard 0 of the graph {mine}, got shard 0 of " in foreign
    for block, said in zip(("0000", "0001", "0001"), changed, strict=True):
        assert f"block-{block} must hold what was written to it" in said
