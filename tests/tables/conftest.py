import csv
import json
from pathlib import Path

import networkx
import numpy as np
import pytest

from gread.tables.formats import FORMATS

NODES = {
    "id": ["a", "b", "c", "d"],
    "age": [31, None, 5, 8],
    "score": [0.5, 1.5, -2.0, 0.0],
    "member": [True, False, True, True],
    "colour": ["red", "blue", None, "red"],
}
EDGES = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "w": [1.0, 2.0, 0.5]}


def write_texts(path: Path, columns: dict, delimiter: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_csv(path, columns):
    write_texts(path, columns, ",")


def write_tsv(path, columns):
    write_texts(path, columns, "\t")


def write_jsonl(path, columns):
    rows = zip(*columns.values(), strict=True)
    lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_parquet(path, columns):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pytest.importorskip("pyarrow").table(columns), path)


def write_npz(path, columns):
    """Write an NPZ file, which cannot represent missing values."""
    full = {name: values for name, values in columns.items() if None not in values}
    np.savez(path, **full)


WRITERS = {
    "csv": write_csv,
    "tsv": write_tsv,
    "jsonl": write_jsonl,
    "ndjson": write_jsonl,
    "parquet": write_parquet,
    "npz": write_npz,
}


MATRICES = ("svm", "libsvm", "svmlight")  # formats that contain only numbers
TABLES = [ending for ending in FORMATS if ending not in MATRICES]


def networkx_graph():
    graph = networkx.Graph()
    names = [name for name in NODES if name != "id"]
    for node, *values in zip(*NODES.values(), strict=True):
        known = zip(names, values, strict=True)
        graph.add_node(node, **{name: value for name, value in known if value is not None})
    for source, target, w in zip(*EDGES.values(), strict=True):
        graph.add_edge(source, target, w=w)
    return graph
