"""A generated graph in the raw format of every benchmark.

Many benchmarks have no licence that permits redistribution.
"""

import hashlib
import io
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse
from torch_geometric.data import Data

import gread
from gread.data.files import RawFile, manifest

NODES, TRAINED, TESTED = 560, 10, 20  # PyG uses 500 of the other nodes for validation
GRAPH: Data = gread.csbm(NODES, 3, homophily=0.3, degree=4, num_features=8, num_splits=10, seed=7)
GRAPH.x = (GRAPH.x > 0.5).float()
GRAPH.x[:, 0] = 1  # PyG requires at least one feature per node
MASKS = ("train_mask", "val_mask", "test_mask")
PARTS = sum(part * GRAPH[mask].int() for part, mask in enumerate(MASKS)).numpy()
CITATIONS = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]]
YEARS = 1980 + np.arange(NODES) ** 2 % 37


def write_stand_ins(root: Path) -> tuple[RawFile, ...]:
    """Write every file of the manifest, and return the manifest of the written files."""
    return tuple(_written(root, file) for file in manifest())


def _written(root: Path, file: RawFile) -> RawFile:
    content = _content(file.path)
    (root / file.path).parent.mkdir(parents=True, exist_ok=True)
    (root / file.path).write_bytes(content)
    return replace(file, digest=f"sha256:{hashlib.sha256(content).hexdigest()}")


def _content(path: str) -> bytes:
    source, name = path.partition("/")[0], Path(path).name
    if split := re.search(r"_split_0\.6_0\.2_(\d)\.npz$", name):
        column = int(split[1])
        return _npz(**{mask: GRAPH[mask][:, column].numpy().astype(np.uint8) for mask in MASKS})
    if name == "out1_graph_edges.txt":
        return _table("node_id\tnode_id", GRAPH.edge_index.T.tolist())
    if name == "out1_node_feature_label.txt":
        rows = GRAPH.x.int().tolist()
        if source == "Actor":
            rows = [[place for place, there in enumerate(row) if there] for row in rows]
        texts = [",".join(map(str, row)) for row in rows]
        return _table(
            "node_id\tfeature\tlabel", zip(range(NODES), texts, GRAPH.y.tolist(), strict=True)
        )
    if name.startswith("ind."):
        return _planetoid(name.split(".", 2)[2])
    if source == "syn-cora":
        return _syn_cora()
    if name == "arxiv.npz":
        return _npz(
            edge_index=CITATIONS.numpy().astype(np.int32),
            subject=GRAPH.y.numpy().astype(np.uint8),
            year=YEARS.astype(np.int16),
            split=PARTS[:, 0].astype(np.uint8),
        )
    if source == "real":
        return _real(one_value=name.startswith("amazon"))
    return _npz(
        node_features=GRAPH.x.numpy(),
        node_labels=GRAPH.y.numpy(),
        edges=GRAPH.edge_index.T.numpy(),
        **{f"{mask}s": GRAPH[mask].T.numpy() for mask in MASKS},
    )


def _table(header: str, rows) -> bytes:
    lines = ("\t".join(map(str, row)) for row in rows)
    return "\n".join([header, *lines, ""]).encode()


def _npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _planetoid(part: str) -> bytes:
    """Planetoid format: training nodes first, test nodes last."""
    known = NODES - TESTED
    if part == "test.index":
        return "".join(f"{node}\n" for node in range(known, NODES)).encode()
    if part == "graph":
        ends = GRAPH.edge_index
        return pickle.dumps({node: ends[1, ends[0] == node].tolist() for node in range(NODES)})
    rows = {"": slice(TRAINED), "all": slice(known), "t": slice(known, NODES)}[part[:-1]]
    if part[-1] == "x":
        return pickle.dumps(scipy.sparse.csr_matrix(GRAPH.x[rows].numpy()))
    return pickle.dumps(np.eye(3, dtype=np.int32)[GRAPH.y[rows]])


def _real(*, one_value: bool) -> bytes:
    x = scipy.sparse.csr_matrix(GRAPH.x.numpy())
    return _npz(
        edge_index=GRAPH.edge_index.numpy().astype(np.int32),
        x_indptr=x.indptr,
        x_indices=x.indices.astype(np.int16),
        x_values=x.data[:1] if one_value else x.data,
        x_columns=x.shape[1],
        y=GRAPH.y.numpy().astype(np.uint8),
        split=PARTS.astype(np.uint8),
    )


def _syn_cora() -> bytes:
    arrays = {"labels": GRAPH.y.numpy()}
    ends = scipy.sparse.csr_matrix(
        (np.ones(GRAPH.num_edges), GRAPH.edge_index.numpy()), (NODES, NODES)
    )
    for name, matrix in (("adj", ends), ("attr", scipy.sparse.csr_matrix(GRAPH.x.numpy()))):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{name}_{part}"] = np.asarray(getattr(matrix, part))
    return _npz(**arrays)
