"""Readers of files."""

import io
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from hypothesis import strategies as st
from safetensors.torch import save_file

from gread.data.cache import read as read_parsed
from gread.data.load import load
from gread.estimator.classifier import GraphClassifier
from gread.estimator.files import write_predictions
from gread.explorer.server import ExplorerServer, Runs
from gread.graph.structure.catalog import add_structure
from gread.graph.structure.origin import Origin
from gread.models.gread import GREAD
from gread.runs.archive import read_results
from gread.runs.presets import find_preset
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.search.space import read_space
from gread.tables.features import Preprocessing, choose_features
from gread.tables.graph import read_graph
from gread.tables.labels import read_labels, read_split
from studies.soak.fuzz.targets import target
from studies.soak.fuzz.values import (
    BYTES,
    CHANGES,
    DAMAGE,
    JSON,
    NUMBERS,
    PLAIN,
    TEXTS,
    WORDS,
    changed,
    damaged,
)
from studies.soak.hostile.folders import copied, small_graph, trained
from studies.soak.hostile.stored import result

ENDINGS = ("csv", "tsv", "jsonl", "npz", "parquet", "gml", "graphml")


def _read(nodes: Path, edges: Path | None, **options: Any) -> None:
    """Read a graph and encode its columns; the result must be valid."""
    graph = read_graph(nodes, edges, **options)
    n = graph.num_nodes
    assert n > 0
    assert all(len(found) == n for found in graph.columns.values())
    assert not graph.edge_index.numel() or 0 <= graph.edge_index.min() <= graph.edge_index.max() < n
    if graph.edge_weight is not None:
        assert graph.edge_weight.isfinite().all()
    table = graph.table()
    names = choose_features(table, "auto", [])
    features = Preprocessing.fit(table, names, np.arange(0, n, 2)).transform(table)
    assert np.isfinite(features).all()
    for name in names[:1]:
        read_labels(table, name)
        read_split(table, name)


@target(
    "files of arbitrary bytes, in seven formats", st.tuples(BYTES, st.sampled_from(ENDINGS)), 25_000
)
def _bytes(folder: Path, case: tuple[bytes, str]) -> None:
    content, ending = case
    path = folder / f"t.{ending}"
    path.write_bytes(content)
    _read(path, None if ending.startswith("g") else path)


def _rows(header: list[str]) -> st.SearchStrategy[list[list[str]]]:
    ids = st.integers(0, 5).map(str)
    row = st.lists(st.one_of(ids, ids, TEXTS), min_size=len(header) - 1, max_size=len(header) + 1)
    exact = st.lists(st.one_of(ids, ids, TEXTS), min_size=len(header), max_size=len(header))
    rows = st.lists(st.one_of(exact, exact, exact, row), max_size=7)
    return st.tuples(st.permutations(header), rows).map(lambda both: [list(both[0]), *both[1]])


@target(
    "CSV and TSV with arbitrary cells",
    st.tuples(
        _rows(["id", "x", "s"]),
        _rows(["source", "target", "w"]),
        st.sampled_from([("csv", ","), ("tsv", "\t"), ("csv", ";")]),
        st.sampled_from([{}, {"weight": "w"}, {"directed": True}, {"id": "x"}, {"source": "w"}]),
    ),
    12_000,
)
def _texts(folder: Path, case: Any) -> None:
    nodes, edges, (ending, delimiter), options = case
    paths = []
    for name, rows in (("n", nodes), ("e", edges)):
        paths.append(folder / f"{name}.{ending}")
        text = "\n".join(delimiter.join(row) for row in rows)
        paths[-1].write_text(text, encoding="utf-8", errors="surrogatepass")
    _read(*paths, **options)


@target(
    "JSON lines with arbitrary values",
    st.lists(st.dictionaries(st.sampled_from(["id", "x", "to", "y"]), JSON), max_size=6),
    6_000,
)
def _json_lines(folder: Path, rows: list[Any]) -> None:
    path = folder / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    _read(path, path, source="id", target="to")


ARRAYS = st.one_of(
    st.lists(NUMBERS, max_size=4),
    st.lists(TEXTS, max_size=4),
    st.lists(st.lists(st.floats(), min_size=2, max_size=2), max_size=4),
    st.integers(0, 6).map(range),
    PLAIN,
)
TYPES = st.sampled_from(["", "f2", "f4", "c8", "i1", "u8", "?", "M8[s]", "m8[ns]", "S3", "U2", "O"])


@target(
    "NPZ with arbitrary arrays", st.dictionaries(TEXTS, st.tuples(ARRAYS, TYPES), max_size=4), 6_000
)
def _arrays(folder: Path, case: dict[str, Any]) -> None:
    arrays = {}
    for name, (values, of) in case.items():
        try:
            arrays[name.replace("\0", "").encode(errors="replace").decode() or "id"] = np.array(
                values, dtype=of or None
            )
        except (ValueError, TypeError, OverflowError):
            continue
    path = folder / "t.npz"
    np.savez(path, **{f"{name}_": array for name, array in arrays.items()})
    _read(path, path)


@target(
    "Parquet with arbitrary columns",
    st.lists(st.tuples(st.sampled_from(["id", "source", "target", "x"]), ARRAYS), max_size=4),
    1_000,
)
def _parquet(folder: Path, case: list[Any]) -> None:
    try:
        columns = [pa.array(list(values)) for _, values in case]
        found = pa.Table.from_arrays(columns, names=[name for name, _ in case])
        pyarrow.parquet.write_table(found, folder / "t.parquet")
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return
    _read(folder / "t.parquet", folder / "t.parquet")


@cache
def _sound() -> dict[str, bytes]:
    """Valid file of each format, to be damaged."""
    columns = {"id": np.arange(5), "source": np.arange(5), "target": np.arange(5)[::-1]}
    array, table = io.BytesIO(), io.BytesIO()
    np.savez_compressed(array, **columns)
    pyarrow.parquet.write_table(pa.table({**columns, "x": list("aabbc")}), table)
    graph = networkx.path_graph(4)
    networkx.set_node_attributes(graph, {k: {"x": k / 2, "y": "ab"[k % 2]} for k in range(4)})
    xml = io.BytesIO()
    networkx.write_graphml(graph, xml)
    text = "\n".join(networkx.generate_gml(graph))
    return {
        "npz": array.getvalue(),
        "parquet": table.getvalue(),
        "graphml": xml.getvalue(),
        "gml": text.encode(),
        "jsonl": b'{"id": 1, "source": 1, "target": 2, "x": [1, 2]}\n{"id": 2, "x": [0, 1]}\n',
        "csv": b"id,source,target,x\n1,1,2,a\n2,2,1,b\n",
    }


@target(
    "valid files of six formats with changed bytes",
    st.tuples(st.sampled_from(["npz", "parquet", "graphml", "gml", "jsonl", "csv"]), DAMAGE),
    10_000,
)
def _damaged(folder: Path, case: Any) -> None:
    ending, damage = case
    path = folder / f"t.{ending}"
    path.write_bytes(damaged(_sound()[ending], damage))
    _read(path, None if ending.startswith("g") else path)


@target(
    "GML with arbitrary nodes",
    st.lists(st.dictionaries(st.sampled_from(["id", "label", "x", "source"]), TEXTS), max_size=4),
    3_000,
)
def _gml(folder: Path, nodes: list[dict[str, str]]) -> None:
    text = [f"node [ {' '.join(f'{k} {v}' for k, v in node.items())} ]" for node in nodes]
    path = folder / "t.gml"
    path.write_text(f"graph [ {' '.join(text)} ]", errors="replace")
    _read(path, None)


# ---- model folders ---------------------------------------------------------------------------


def _use(model: Path) -> None:
    classifier = GraphClassifier.load(model)
    write_predictions(classifier, model.parent / "out.csv", small_graph())
    classifier.predict_proba()


def _fresh(folder: Path) -> Path:
    return folder / "model" if (folder / "model").exists() else copied(folder)


@target("model folder with a changed classifier.json", CHANGES, 3_000)
def _classifier(folder: Path, changes: Any) -> None:
    model, sound = _fresh(folder), (trained() / "classifier.json").read_text()
    try:
        text = json.dumps(changed(json.loads(sound), changes))
        (model / "classifier.json").write_text(text)
        _use(model)
    finally:
        (model / "classifier.json").write_text(sound)


@target("model folder with a changed config.json", CHANGES, 2_000)
def _config(folder: Path, changes: Any) -> None:
    model, sound = _fresh(folder), json.loads((trained() / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(changed(sound, changes)))
    GREAD.from_pretrained(model)


@target(
    "model folder with changed bytes in its tensors",
    st.tuples(st.sampled_from(["model.safetensors", "graph.safetensors"]), DAMAGE),
    2_500,
)
def _tensors(folder: Path, case: Any) -> None:
    file, damage = case
    model, sound = _fresh(folder), (trained() / file).read_bytes()
    (model / file).unlink()  # it may still be memory-mapped
    try:
        (model / file).write_bytes(damaged(sound, damage))
        _use(model)
    finally:
        (model / file).unlink()
        (model / file).write_bytes(sound)


# ---- stored runs, settings, the data root ----------------------------------------------------


@target("changed stored runs", CHANGES, 5_000)
def _result(folder: Path, changes: Any) -> None:
    path = folder / "t.jsonl.xz"
    line = json.dumps(changed(json.loads(result()), changes)) + "\n"
    path.write_bytes(lzma.compress(line.encode(), preset=0))
    for found in read_results(path):
        ResultStore(folder).put(found)
        found.spec.key  # noqa: B018
    RunSpec.from_json(json.dumps(changed(json.loads(result())["spec"], changes)))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps("none" if value is None else value)


NAMES = [
    *("time", "lr", "epochs", "solver", "step_size", "reaction", "adjacency", "alpha", "beta"),
    *("hidden_channels", "dropout", "heads", "self_loops", "encoder", "patience", "options"),
    *("normalization", "decoder", "parts", "halo", "x"),
]
SETTINGS = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(JSON, st.fixed_dictionaries({"low": PLAIN, "high": PLAIN, "log": PLAIN}), WORDS),
    max_size=3,
)


@target("TOML of presets and spaces", st.tuples(st.one_of(SETTINGS, JSON), st.booleans()), 6_000)
def _settings(folder: Path, case: Any) -> None:
    table, space = case
    path = folder / "t.toml"
    lines = table.items() if isinstance(table, dict) else [("csbm", table)]
    text = "\n".join(f"{json.dumps(key)} = {_toml(value)}" for key, value in lines)
    path.write_text(text if space else f"csbm = {_toml(table)}", errors="replace")
    if space:
        read_space("gread-bs", path)
        return
    found = find_preset("gread-bs", "csbm", str(path))
    spec = RunSpec(dataset="csbm", model="gread-bs", hyper=found.hyper, options=found.options)
    load("csbm", **{k: v for k, v in spec.options.items() if k not in ("num_nodes", "degree")})


@target("TOML of arbitrary bytes", BYTES, 4_000)
def _toml_bytes(folder: Path, content: bytes) -> None:
    (folder / "t.toml").write_bytes(content)
    find_preset("gread-bs", "csbm", str(folder / "t.toml"))


@target("parsed graphs and structures with changed bytes", DAMAGE, 2_000)
def _parsed(folder: Path, damage: Any) -> None:
    data = small_graph()
    tensors = {"two_hop": torch.zeros(2, 3, dtype=torch.int64)}
    place = folder / "processed" / "two-hop-f.safetensors"
    place.parent.mkdir(exist_ok=True)
    if not (folder / "sound").exists():
        save_file(tensors, folder / "sound", metadata={"seconds": "1.0", "format": "1"})
    place.unlink(missing_ok=True)
    place.write_bytes(damaged((folder / "sound").read_bytes(), damage))
    read_parsed(place)
    found = add_structure(data, "two-hop", Origin("csbm", folder, "f")).data
    pairs = found.to_dict().get("two_hop", torch.zeros(2, 0))  # its name may be damaged
    assert not pairs.numel() or 0 <= pairs.min() <= pairs.max() < data.num_nodes


@target("requests to the explorer", TEXTS, 1_000)
def _addresses(folder: Path, text: str) -> None:
    with ExplorerServer("page", Runs([]), 0) as server:
        for path in (text, f"/runs/{text}.json", f"/{text}"):
            found = server.find(path)
            assert found is None or path in ("/", "//")
