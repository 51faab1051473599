"""Files of strangers that want something: code run, memory filled, files written elsewhere.

A case makes its file in a folder of its own and reads it as a user would. It is refused with one of
our errors, or read as the harmless thing it is; a case asserts what that would be. Each runs in a
process that is watched: what it unpickles, starts, connects to or writes elsewhere, how much memory
it takes and how long.
"""

import io
import json
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import struct
import sys
import tempfile
import traceback
import zipfile
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from safetensors.torch import load_file, save_file

import gread
from gread.data.files import manifest
from gread.estimator import GraphClassifier, write_predictions
from gread.explorer import page, portrait_of_folder
from gread.inputs import InputError
from gread.registry import Registry
from gread.runs import ResultStore, RunSpec, StoreError, run
from gread.runs.presets import find_preset
from gread.runs.store import read_results
from gread.search.space import read_space
from gread.search.study import load_study
from gread.structure.catalog import Origin, add_structure
from gread.tables import read_graph, read_table
from gread.training import TrainConfig
from soak.rows import SCRIPTS, Row

FAULT = "Hostile files"
MUST_HOLD = "refused with a reason, nothing executed, nothing written outside, bounded memory"

OURS = (InputError, OSError, ArithmeticError)
"""What a user may be told; the command turns each into one sentence."""

MOST_MEMORY = 1.0e9
MOST_SECONDS = 60

Case = Callable[[Path], None]
CASES: Registry[Case] = Registry("hostile file")
LARGE = {"a file that unpacks to 64 GB", "a Parquet file of 4 billion equal numbers"}
"""Cases that take long to make; the tests leave them to this script."""

EXECUTED = "executed"


class Code:
    """Leaves a file behind where somebody unpickles it."""

    def __init__(self, folder: Path):
        self.trace = folder / EXECUTED

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def pickled(folder: Path) -> bytes:
    """A pickle with code in it."""
    return pickle.dumps(Code(folder))


# ---- tables ----------------------------------------------------------------------------------


def _write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@CASES.register("an NPZ file of pickled objects")
def _npz_objects(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.array([Code(folder)], dtype=object), allow_pickle=True)
    read_table(folder / "t.npz")


@CASES.register("a pickle that calls itself NPZ")
def _npz_pickle(folder: Path) -> None:
    read_table(_write(folder / "t.npz", pickled(folder)))


@CASES.register("an array without its archive that calls itself NPZ")
def _npz_npy(folder: Path) -> None:
    with (folder / "t.npz").open("wb") as file:
        np.save(file, np.arange(3))
    read_table(folder / "t.npz")


@CASES.register("a pickle inside an NPZ file")
def _npz_member(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", pickled(folder))
        archive.writestr("x", pickled(folder))
    read_table(folder / "t.npz")


def _npy_header(shape: tuple[int, ...], of: str = "<f8") -> bytes:
    text = f"{{'descr': '{of}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@CASES.register("an NPZ file whose header promises 10^14 numbers")
def _npz_shape(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", _npy_header((10**14,)) + bytes(80))
    read_table(folder / "t.npz")


@CASES.register("an NPZ file whose header promises numbers beyond 64 bits")
def _npz_overflow(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", _npy_header((10**30, 2)) + bytes(80))
    read_table(folder / "t.npz")


@CASES.register("an NPZ file whose header is a program")
def _npz_header(folder: Path) -> None:
    trace = folder / EXECUTED
    text = f"__import__('pathlib').Path({str(trace)!r}).touch()".encode() + b"\n"
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
        archive.writestr("id.npy", content)
    read_table(folder / "t.npz")


def _bomb(path: Path, size: int) -> None:
    """An archive with one array of zeros that unpacks to ``size`` bytes, a thousandth of it."""
    header, step = _npy_header((size // 8,)), 64 * 2**20
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = squeeze.compress(header) + squeeze.flush(zlib.Z_FULL_FLUSH)
    again = squeeze.compress(bytes(step)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    last = squeeze.flush()
    times, name = size // step, b"id.npy"
    packed, whole = len(first) + times * len(again) + len(last), len(header) + times * step
    extra = struct.pack("<HHQQ", 1, 16, whole, packed)  # sizes beyond 32 bits
    common = struct.pack("<HHHHHIIIHH", 45, 0, 8, 0, 0, 0, 2**32 - 1, 2**32 - 1, 6, len(extra))
    with path.open("wb") as file:
        file.write(b"PK\3\4" + common + name + extra + first)
        for _ in range(times):
            file.write(again)
        file.write(last)
        start = file.tell()
        file.write(b"PK\1\2" + struct.pack("<H", 45) + common + bytes(10) + bytes(4) + name + extra)
        length = file.tell() - start
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, length, start, 0))


@CASES.register("a file that unpacks to 64 GB")
def _npz_bomb(folder: Path) -> None:
    _bomb(folder / "t.npz", 64 * 2**30)
    read_table(folder / "t.npz")


@CASES.register("an NPZ file that says it unpacks to a petabyte")
def _npz_claim(folder: Path) -> None:
    _bomb(folder / "t.npz", 2**27)
    content = (folder / "t.npz").read_bytes()
    size = struct.pack("<Q", 2**27 + 128)
    assert content.count(size) == 2
    _write(folder / "t.npz", content.replace(size, struct.pack("<Q", 2**50)))
    read_table(folder / "t.npz")


@CASES.register("an NPZ file with paths that lead out of it")
def _npz_paths(folder: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.arange(3))
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        for name in ("../../outside.npy", "/outside.npy", "id.npy", "..\\outside.npy"):
            archive.writestr(name, array.getvalue())
    assert len(read_table(folder / "t.npz")) == 3  # nothing is ever unpacked to the disk


@CASES.register("an NPZ file that is encrypted")
def _npz_encrypted(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.arange(3))
    content = bytearray((folder / "t.npz").read_bytes())
    content[content.rindex(b"PK\1\2") + 8] |= 1
    content[content.index(b"PK\3\4") + 6] |= 1
    read_table(_write(folder / "t.npz", bytes(content)))


@CASES.register("an NPZ file packed in an unknown way")
def _npz_method(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.arange(3))
    content = bytearray((folder / "t.npz").read_bytes())
    content[content.rindex(b"PK\1\2") + 10] = 99
    read_table(_write(folder / "t.npz", bytes(content)))


@CASES.register("an NPZ file of records, scalars and cubes")
def _npz_kinds(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.zeros(3, dtype=[("a", "i4"), ("b", "O8")][:1]))
    read_table(folder / "t.npz")
    np.savez(folder / "t.npz", id=np.zeros((2, 2, 2)), x=np.array(1.0))
    read_table(folder / "t.npz")


@CASES.register("an NPZ file with one text of 4 GB")
def _npz_text(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", _npy_header((1,), f"<U{2**30 - 1}") + bytes(80))
    read_table(folder / "t.npz")


@CASES.register("a Parquet file of 4 billion equal numbers")
def _parquet_equal(folder: Path) -> None:
    some = pa.table({"id": np.zeros(2**20, dtype=np.int64)})
    with pyarrow.parquet.ParquetWriter(folder / "t.parquet", some.schema) as writer:
        for _ in range(2**12):
            writer.write_table(some)
    read_table(folder / "t.parquet")


@CASES.register("a Parquet file that repeats a long text a million times")
def _parquet_texts(folder: Path) -> None:
    column = pa.DictionaryArray.from_arrays(np.zeros(10**6, dtype=np.int32), ["x" * 2**20])
    pyarrow.parquet.write_table(pa.table({"id": column}), folder / "t.parquet", store_schema=False)
    assert len(read_table(folder / "t.parquet")) == 10**6  # each text is there once


@CASES.register("a Parquet file that says it has 10^15 rows")
def _parquet_claim(folder: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"id": np.arange(12345)}), folder / "t.parquet")
    content = (folder / "t.parquet").read_bytes()

    def varint(value: int) -> bytes:
        value *= 2  # zigzag
        out = bytearray()
        while value >= 128:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    start = content.rindex(b"id")
    body, foot = content[: start - 200], content[start - 200 : -8]
    foot = foot.replace(varint(12345), varint(10**15))
    grown = len(foot) - (len(content) - 8 - len(body))
    length = struct.unpack("<I", content[-8:-4])[0] + grown
    read_table(_write(folder / "t.parquet", body + foot + struct.pack("<I", length) + b"PAR1"))


@CASES.register("a Parquet file whose type is a pickle")
def _parquet_extension(folder: Path) -> None:
    of = pa.field(
        "id",
        pa.int64(),
        metadata={
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": pickled(folder),
        },
    )
    table = pa.table([pa.array([1, 2])], schema=pa.schema([of]))
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    assert len(read_table(folder / "t.parquet")) == 2  # it is read as the numbers it is stored as


@CASES.register("a Parquet file of maps, or with one name twice")
def _parquet_kinds(folder: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    pyarrow.parquet.write_table(twice, folder / "t.parquet")
    try:
        read_table(folder / "t.parquet")
    except InputError:
        maps = pa.table({"id": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
        pyarrow.parquet.write_table(maps, folder / "t.parquet")
        read_table(folder / "t.parquet")


@CASES.register("a CSV file with 10^6 columns")
def _csv_wide(folder: Path) -> None:
    names = ",".join(f"c{k}" for k in range(10**6))
    read_table(_write(folder / "t.csv", f"id,{names}\n" + "1," * 10**6 + "1\n"))


@CASES.register("a CSV file with 10,000 columns of two letters")
def _csv_block(folder: Path) -> None:
    header = ",".join(f"c{k}" for k in range(10**4))
    row = ",".join(f"{k % 90 + 10}x"[1:] for k in range(10**4))
    _write(folder / "t.csv", header + "\n" + (row + "\n") * 700)
    assert len(read_table(folder / "t.csv")) == 700


@CASES.register("a CSV file of one field of 64 MB")
def _csv_field(folder: Path) -> None:
    read_table(_write(folder / "t.csv", "id,x\n1," + "y" * 2**26 + "\n"))


@CASES.register("a CSV file whose quote never ends")
def _csv_quote(folder: Path) -> None:
    read_table(_write(folder / "t.csv", 'id,x\n1,"' + "y\n" * 2**20))


@CASES.register("a CSV file with formulas")
def _csv_formula(folder: Path) -> None:
    formula = '=HYPERLINK("http://x.invalid","here")'
    path = _write(folder / "t.csv", 'id,x\n1,"' + formula.replace('"', '""') + '"\n2,+1\n')
    assert read_table(path)["x"].values.tolist() == [formula, "+1"]  # text, as it stands


@CASES.register("JSON lines of 20,000 nodes, each with a column of its own")
def _json_columns(folder: Path) -> None:
    rows = (json.dumps({"id": k, f"c{k}": 1}) for k in range(20_000))
    read_table(_write(folder / "t.jsonl", "\n".join(rows)))


@CASES.register("JSON lines of 10^6 nodes, every hundredth with a column of its own")
def _json_sparse(folder: Path) -> None:
    rows = (json.dumps({"id": k, f"c{k // 100}": 1}) for k in range(10**6))
    read_table(_write(folder / "t.jsonl", "\n".join(rows)))


@CASES.register("JSON a million levels deep")
def _json_deep(folder: Path) -> None:
    read_table(_write(folder / "t.jsonl", '{"id": ' + "[" * 10**6 + "]" * 10**6 + "}"))


@CASES.register("a device or a pipe instead of a file")
def _device(folder: Path) -> None:
    os.mkfifo(folder / "t.csv")
    try:
        read_table(folder / "t.csv")
    except InputError:
        (folder / "zero.jsonl").symlink_to("/dev/zero")
        read_table(folder / "zero.jsonl")


def _graphml(path: Path, nodes: str, doctype: str = "", keys: str = "") -> Path:
    head = f'<?xml version="1.0"?>{doctype}<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    graph = f'{keys}<graph edgedefault="undirected">{nodes}</graph></graphml>'
    return _write(path, head + graph)


TEXT_KEY = '<key id="k" for="node" attr.name="x" attr.type="string"/>'


@CASES.register("a GraphML file with a billion laughs")
def _graphml_laughs(folder: Path) -> None:
    levels = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
    doctype = f'<!DOCTYPE graphml [<!ENTITY l0 "ha">{levels}]>'
    nodes = '<node id="a"><data key="k">&l9;</data></node>'
    read_graph(_graphml(folder / "t.graphml", nodes, doctype, TEXT_KEY))


@CASES.register("a GraphML file whose entity is a long text, named often")
def _graphml_quadratic(folder: Path) -> None:
    doctype = f'<!DOCTYPE graphml [<!ENTITY l "{"ha" * 2**19}">]>'
    nodes = f'<node id="a"><data key="k">{"&l;" * 90}</data></node>'
    read_graph(_graphml(folder / "t.graphml", nodes, doctype, TEXT_KEY))


@CASES.register("a GraphML file that asks for another file")
def _graphml_external(folder: Path) -> None:
    secret = _write(folder / "secret", "secret")
    doctype = f'<!DOCTYPE graphml [<!ENTITY l SYSTEM "{secret.as_uri()}">]>'
    nodes = '<node id="a"><data key="k">&l;</data></node>'
    read_graph(_graphml(folder / "t.graphml", nodes, doctype, TEXT_KEY))


@CASES.register("a GraphML file with elements 200,000 levels deep")
def _graphml_deep(folder: Path) -> None:
    nodes = '<node id="a">' + "<data>" * 200_000 + "</data>" * 200_000 + "</node>"
    read_graph(_graphml(folder / "t.graphml", nodes))


@CASES.register("a GraphML file of 20,000 nodes, each with a column of its own")
def _graphml_columns(folder: Path) -> None:
    many = range(20_000)
    keys = "".join(f'<key id="k{k}" for="node" attr.name="x{k}" attr.type="int"/>' for k in many)
    nodes = "".join(f'<node id="{k}"><data key="k{k}">1</data></node>' for k in many)
    read_graph(_graphml(folder / "t.graphml", nodes, keys=keys))


@CASES.register("a GML file with lists a million levels deep")
def _gml_deep(folder: Path) -> None:
    text = "graph [ node [ id 0 " + "x [ " * 10**6 + "] " * 10**6 + "] ]"
    read_graph(_write(folder / "t.gml", text))


@CASES.register("a GML file of 20,000 nodes, each with a column of its own")
def _gml_columns(folder: Path) -> None:
    nodes = " ".join(f"node [ id {k} x{k} 1 ]" for k in range(20_000))
    read_graph(_write(folder / "t.gml", f"graph [ {nodes} ]"))


@CASES.register("a GML file with a number of 10^5 digits")
def _gml_number(folder: Path) -> None:
    read_graph(_write(folder / "t.gml", f"graph [ node [ id 0 x {'9' * 10**5} ] ]"))


@CASES.register("a GML file with text that Python could run")
def _gml_text(folder: Path) -> None:
    trace = folder / EXECUTED
    text = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    read_graph(_write(folder / "t.gml", f'graph [ node [ id 0 label "a" x "{text}" ] ]'))


# ---- model folders ---------------------------------------------------------------------------


def _graph() -> Any:
    return gread.load("csbm", num_nodes=40, homophily=0.8, degree=4, num_features=4)


@cache
def _model() -> Path:
    """A small trained model, for others to spoil."""
    place = Path(tempfile.mkdtemp()) / "model"
    data = _graph()
    settings = {"epochs": 1, "hidden_channels": 4}
    return GraphClassifier(settings=settings, device="cpu").fit(data).save(place)


def _copy(folder: Path) -> Path:
    return Path(shutil.copytree(_model(), folder / "model"))


def _predict(model: Path) -> None:
    classifier = GraphClassifier.load(model)
    write_predictions(classifier, model.parent / "out.csv", _graph())
    classifier.predict_proba()


def _json(file: str, spoil: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    model = _copy(folder)
    values = json.loads((model / file).read_text())
    values = spoil(values) or values
    _write(model / file, json.dumps(values))
    _predict(model)


def _tensors(file: str, spoil: Callable[[dict[str, torch.Tensor]], Any], folder: Path) -> None:
    model = _copy(folder)
    tensors = {name: tensor.clone() for name, tensor in load_file(model / file).items()}
    spoil(tensors)
    save_file(tensors, model / file)
    _predict(model)


def _spoil(name: str, change: Callable[[Path], None]) -> None:
    CASES.add(name, change)


for _file in ("model.safetensors", "graph.safetensors", "classifier.json"):

    def _as_pickle(folder: Path, file: str = _file) -> None:
        model = _copy(folder)
        _write(model / file, pickled(folder))
        _predict(model)

    CASES.add(f"a model folder whose {_file} is a pickle", _as_pickle)


@CASES.register("a model folder with a pickle beside its files")
def _pickle_beside(folder: Path) -> None:
    model = _copy(folder)
    for name in ("pytorch_model.bin", "model.pkl", "classifier.pkl", "modeling_gread.py"):
        _write(model / name, pickled(folder))
    gread.GREAD.from_pretrained(model)
    _predict(model)  # they are not looked at


@CASES.register("a model folder with a pickle and no weights")
def _pickle_instead(folder: Path) -> None:
    model = _copy(folder)
    (model / "model.safetensors").unlink()
    _write(model / "pytorch_model.bin", pickled(folder))
    gread.GREAD.from_pretrained(model)


def _safetensors(header: bytes, length: int | None = None, size: int = 0) -> Case:
    def case(folder: Path) -> None:
        model = _copy(folder)
        with (model / "model.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(header) if length is None else length) + header)
            file.truncate(8 + len(header) + size)
        _predict(model)

    return case


_HUGE = json.dumps({"w": {"dtype": "F32", "shape": [16 * 2**30], "data_offsets": [0, 2**36]}})
for _name, _case in {
    "weights with a header of 2^63 bytes": _safetensors(b"{}", 2**63),
    "weights with a header of 99 MB": _safetensors(b"{" + b" " * (99 * 10**6) + b"}"),
    "weights with a header 100,000 levels deep": _safetensors(b'{"a":' * 10**5 + b"}" * 10**5),
    "weights of 64 GB, nearly all of them a hole": _safetensors(_HUGE.encode(), size=2**36),
    "weights whose tensors overlap": _safetensors(
        json.dumps(
            {n: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for n in "ab"}
        ).encode(),
        size=16,
    ),
}.items():
    CASES.add(_name, _case)


def _reshape(tensors: dict[str, torch.Tensor]) -> None:
    name = max(tensors, key=lambda found: tensors[found].numel())
    tensors[name] = tensors[name].flatten()


def _not_finite(tensors: dict[str, torch.Tensor]) -> None:
    next(iter(tensors.values())).fill_(float("nan"))


def _whole(tensors: dict[str, torch.Tensor]) -> None:
    for name in tensors:
        tensors[name] = tensors[name].long()


for _name, _change in {
    "weights of wrong shapes": _reshape,
    "weights that are NaN": _not_finite,
    "weights that are whole numbers": _whole,
    "weights without one of them": dict.popitem,
}.items():
    CASES.add(_name, partial(_tensors, "model.safetensors", _change))


def _ids(text: bytes) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["ids"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    return change


for _name, _change in {
    "an edge to node 10^12": lambda t: t["edge_index"].__setitem__((0, 0), 10**12),
    "an edge to node −1": lambda t: t["edge_index"].__setitem__((0, 0), -1),
    "edges that are no whole numbers": lambda t: t.update(edge_index=t["edge_index"].float()),
    "edges in three rows": lambda t: t.update(edge_index=torch.zeros(3, 5, dtype=torch.int64)),
    "features of another width": lambda t: t.update(x=torch.zeros(40, 3)),
    "features that are NaN": lambda t: t["x"].fill_(float("nan")),
    "features of fewer nodes": lambda t: t.update(x=t["x"][:7].clone()),
    "classes that there are not": lambda t: t["y"].fill_(99),
    "classes of fewer nodes": lambda t: t.update(y=t["y"][:3].clone()),
    "weights of edges that are negative": lambda t: t.update(
        edge_weight=-torch.ones(t["edge_index"].size(1))
    ),
    "masks of another size": lambda t: t.update(train_mask=torch.ones(3, dtype=torch.bool)),
    "no features": lambda t: t.pop("x"),
    "a tensor nobody asked for": lambda t: t.update(__class__=torch.ones(2)),
    "ids that are no list": _ids(b'{"a": 1}'),
    "ids of fewer nodes": _ids(b"[1, 2]"),
    "ids that are lists": _ids(json.dumps([[k] for k in range(40)]).encode()),
    "ids a million levels deep": _ids(b"[" * 10**6 + b"]" * 10**6),
}.items():
    CASES.add(f"a shared graph with {_name}", partial(_tensors, "graph.safetensors", _change))


def _setting(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["settings"].__setitem__(name, value)


def _encoder(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["preprocessing"][0].update(changes)


for _name, _change in {
    "10^9 channels": _setting("hidden_channels", 10**9),
    "10^18 steps": _setting("step_size", 1e-18),
    "a negative width": _setting("hidden_channels", -1),
    "a setting that is a list": _setting("reaction", ["bs"]),
    "a setting that there is not": _setting("__class__", 1),
    "a reaction that there is not": _setting("reaction", "os.system"),
    "a time that is text": _setting("time", "long"),
    "10^15 nodes": lambda v: v.update(num_nodes=10**15, model="linkx"),
    "nodes that are text": lambda v: v.update(num_nodes="many"),
    "no classes": lambda v: v.update(classes=[]),
    "classes that are lists": lambda v: v.update(classes=[[1], [2, 3]]),
    "classes that are an object": lambda v: v.update(classes={"a": 1}),
    "one class twice": lambda v: v.update(classes=["a", "a"]),
    "a model that is a list": lambda v: v.update(model=["gread-bs"]),
    "settings that are a list": lambda v: v.update(settings=[1]),
    "a training of text": lambda v: v["training"].update(epochs="x"),
    "10^9 parts": lambda v: v["training"].update(parts=10**9),
    "parameters that there are not": lambda v: v["parameters"].update(__init__=1),
    "a column that is a number": lambda v: v["parameters"].update(id=3),
    "a list of encoders that is a number": lambda v: v.update(preprocessing=3),
    "an encoder that there is not": _encoder(encoder="pickle"),
    "an encoder of another kind": _encoder(encoder="words"),
    "an encoder whose scale is text": _encoder(scale="abcd"),
    "an encoder whose scale is zero": lambda v: v["preprocessing"][0].update(
        scale=[0.0] * len(v["preprocessing"][0]["scale"])
    ),
    "an encoder whose scales are lists": _encoder(scale=[[1], [2], [3], [4]]),
    "an encoder with fewer scales": _encoder(scale=[1.0], shift=[0.0]),
    "an encoder of a column that is a list": _encoder(column=["x"]),
    "a diagnosis of numbers": lambda v: v.update(diagnosis=1),
    "a list for an object": lambda v: [v],
    "another format": lambda v: v.update(format="1"),
}.items():
    CASES.add(f"a classifier with {_name}", partial(_json, "classifier.json", _change))


@CASES.register("a classifier a million levels deep")
def _classifier_deep(folder: Path) -> None:
    model = _copy(folder)
    _write(model / "classifier.json", '{"format": ' + "[" * 10**6 + "]" * 10**6 + "}")
    _predict(model)


@CASES.register("a model folder whose file is a pipe")
def _folder_pipe(folder: Path) -> None:
    model = _copy(folder)
    (model / "classifier.json").unlink()
    os.mkfifo(model / "classifier.json")
    _predict(model)


@CASES.register("a config for GREAD of 10^9 channels")
def _config_huge(folder: Path) -> None:
    model = _copy(folder)
    config = json.loads((model / "config.json").read_text()) | {"hidden_channels": 10**9}
    _write(model / "config.json", json.dumps(config))
    gread.GREAD.from_pretrained(model)


@CASES.register("classes that are HTML, on the page of the explorer")
def _classes_html(folder: Path) -> None:
    script = "</script><script>alert(1)</script><!--"
    model = _copy(folder)
    values = json.loads((model / "classifier.json").read_text())
    values["classes"] = [script, "b"]
    _write(model / "classifier.json", json.dumps(values))
    assert script not in page({}, portraits=[portrait_of_folder(model)])


@CASES.register("classes and ids that are formulas, in predictions")
def _classes_formula(folder: Path) -> None:
    model = _copy(folder)
    values = json.loads((model / "classifier.json").read_text())
    values["classes"] = ["=1+1", "@SUM(1)"]
    _write(model / "classifier.json", json.dumps(values))
    tensors = load_file(model / "graph.safetensors")
    tensors["y"] = torch.full_like(tensors["y"], -1)
    ids = json.dumps(["-1+cmd|' /C calc'!A0", *(f"+{k}" for k in range(39))]).encode()
    tensors["ids"] = torch.frombuffer(bytearray(ids), dtype=torch.uint8)
    save_file(tensors, model / "graph.safetensors")
    write_predictions(GraphClassifier.load(model), folder / "out.csv")
    text = (folder / "out.csv").read_text()
    cells = [cell.strip('"') for line in text.splitlines() for cell in line.split(",")]
    dangerous = [c for c in cells if c.startswith(("=", "+", "-", "@")) and not _is_number(c)]
    assert not dangerous, dangerous


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- stored runs, settings, the data root ----------------------------------------------------


@cache
def _result() -> str:
    """A stored run."""
    spec = RunSpec(
        dataset="csbm", model="gread-bs", hyper={"hidden_channels": 2}, train=TrainConfig(epochs=1)
    )
    return run(spec).to_json()


def _line(spoil: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    values = json.loads(_result())
    values = spoil(values) or values
    text = json.dumps(values)
    refused = 0
    try:
        read_results(_write(folder / "table-4.jsonl", text + "\n"))
    except StoreError:
        refused += 1
    store = ResultStore(folder / "store")
    with sqlite3.connect(store.path) as connection:
        connection.execute(
            "INSERT INTO runs (key, dataset, model, split, seed, result) VALUES (?,?,?,?,?,?)",
            (
                RunSpec.from_json(json.dumps(json.loads(_result())["spec"])).key,
                "csbm",
                "gread-bs",
                0,
                0,
                text,
            ),
        )
    try:
        found = list(store)
    except StoreError:
        refused += 1
    assert refused == 2, f"read as {found}"
    raise InputError("a result that is none is refused in a file and in a store")


for _name, _change in {
    "a list": lambda v: [v],
    "a test accuracy of text": lambda v: v.update(test="0.9"),
    "a test accuracy of 9": lambda v: v.update(test=9.0),
    "a test accuracy of NaN": lambda v: v.update(test=float("nan")),
    "a status that there is not": lambda v: v.update(status="splendid"),
    "a model that there is not": lambda v: v["spec"].update(model="x"),
    "a hyperparameter that there is not": lambda v: v["spec"]["hyper"].update(x=1),
    "a hyperparameter that is a list": lambda v: v["spec"]["hyper"].update(time=[1]),
    "a split of text": lambda v: v["spec"].update(split="0"),
    "a spec that is a list": lambda v: v.update(spec=[]),
    "no spec": lambda v: v.pop("spec") and None,
    "a training of text": lambda v: v["spec"].update(train="x"),
    "a history of text": lambda v: v.update(history="abc"),
    "a history of numbers": lambda v: v.update(history=[1, 2]),
    "a key nobody knows": lambda v: v.update(__class__=1),
    "seconds of text": lambda v: v.update(seconds="long"),
    "records of text": lambda v: v.update(records="x"),
    "a device that is a list": lambda v: v.update(device=[]),
}.items():
    CASES.add(f"a stored run with {_name}", partial(_line, _change))


@CASES.register("a stored run under the key of another")
def _wrong_key(folder: Path) -> None:
    values = json.loads(_result())
    asked = RunSpec.from_json(json.dumps(values["spec"] | {"seed": 7}))
    store = ResultStore(folder)
    with sqlite3.connect(store.path) as connection:
        connection.execute("INSERT INTO runs (key, result) VALUES (?, ?)", (asked.key, _result()))
    store.get(asked)


@CASES.register("stored runs a million levels deep")
def _results_deep(folder: Path) -> None:
    read_results(_write(folder / "t.jsonl", '{"spec": ' + "[" * 10**6 + "]" * 10**6 + "}\n"))


@CASES.register("stored runs that are no text")
def _results_bytes(folder: Path) -> None:
    read_results(_write(folder / "t.jsonl", bytes(range(256))))


@CASES.register("a store that is a pickle")
def _store_pickle(folder: Path) -> None:
    import warnings

    _write(folder / "results.sqlite", pickled(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(ResultStore(folder)) == 0  # set aside, and begun anew


@CASES.register("a store whose table is of another shape")
def _store_shape(folder: Path) -> None:
    with sqlite3.connect(folder / "results.sqlite") as connection:
        connection.execute("CREATE TABLE runs (a, b)")
    list(ResultStore(folder))


@CASES.register("a journal of a search that is a pickle")
def _journal_pickle(folder: Path) -> None:
    _write(folder / "s.journal", pickled(folder) + b"\n")
    load_study("s", None, folder)


@CASES.register("a journal of a search with lines of nonsense")
def _journal_nonsense(folder: Path) -> None:
    _write(folder / "s.journal", '{"op_code": 99, "worker_id": 1}\n[]\n{"op_code": 0}\n')
    load_study("s", None, folder)


def _toml(read: Callable[[Path], Any], text: str | bytes, folder: Path) -> None:
    read(_write(folder / "t.toml", text))


def _read_preset(path: Path) -> None:
    found = find_preset("gread-bs", "texas", str(path))
    RunSpec(
        dataset="texas",
        model="gread-bs",
        hyper=found.hyper,
        train=found.train,
        options=found.options,
    )


_DEEP = "x = " + "[" * 10**5 + "]" * 10**5
for _name, _text in {
    "a number for a table": "texas = 3",
    "a list of tables": "[[texas]]\ntime = 1.0",
    "a time of text": "[texas]\ntime = 'long'",
    "a time that is a list": "[texas]\ntime = [1.0]",
    "a time that is a table": "[texas.time]\na = 1",
    "a date": "[texas]\ntime = 1979-05-27",
    "a rate of learning of text": "[texas]\nlr = 'x'",
    "epochs of text": "[texas]\nepochs = '9'",
    "options that are a number": "[texas]\noptions = 3",
    "an option that there is not": "[texas]\noptions = { x = 1 }",
    "values 100,000 levels deep": f"[texas]\n{_DEEP}",
    "bytes that are no text": bytes(range(256)),
    "an unknown key": "[texas]\n__class__ = 1",
}.items():
    CASES.add(f"a preset with {_name}", partial(_toml, _read_preset, _text))

for _name, _text in {
    "a table of a model that is a number": "gread-bs = 3\ntime = [1.0, 2.0]",
    "a range of text": "time = { low = 'a', high = 'b' }",
    "a range to infinity": "time = { low = 1.0, high = inf }",
    "a range of nothing": "time = { low = nan, high = nan }",
    "a logarithm of text": "time = { low = 1.0, high = 2.0, log = 'yes' }",
    "10^12 channels": "hidden_channels = { low = 1, high = 1_000_000_000_000 }",
    "a choice of lists": "time = [[1.0], [2.0]]",
    "a choice of dates": "time = [1979-05-27, 1979-05-28]",
    "a fixed date": "time = [1.0, 2.0]\nsolver = 1979-05-27",
    "a solver that there is not": "solver = ['euler', 'exec']",
    "values 100,000 levels deep": _DEEP,
    "an empty choice": "time = []",
    "a seed of text": "time = [1.0]\nepochs = 'x'",
}.items():
    CASES.add(f"a space with {_name}", partial(_toml, partial(read_space, "gread-bs"), _text))


@CASES.register("a file of settings of 64 MB, or a device")
def _toml_large(folder: Path) -> None:
    try:
        _read_preset(_write(folder / "t.toml", "#" * 2**26))
    except InputError:
        (folder / "zero.toml").symlink_to("/dev/zero")
        _read_preset(folder / "zero.toml")


@CASES.register("Planetoid's pickles with code in them")
def _planetoid(folder: Path) -> None:
    for file in manifest():
        if file.path.startswith("Planetoid/Cora/"):
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(pickled(folder))
    gread.load("cora", root=folder)


def _cached(change: Callable[[dict[str, Any], dict[str, str]], None], folder: Path) -> None:
    """A parsed graph in a data root that somebody else may write to."""
    statistics = dict.fromkeys(
        ("nodes", "edges", "edges_with_loops", "features", "classes", "splits"), 1
    ) | {"node_homophily": None, "edge_homophily": None}
    tensors = {
        "x": torch.ones(3, 2),
        "edge_index": torch.zeros(2, 1, dtype=torch.int64),
        "y": torch.tensor([0, 1, 0]),
        **{f"{part}_mask": torch.ones(3, 1, dtype=torch.bool) for part in ("train", "val", "test")},
    }
    metadata = {"format": "1", "statistics": json.dumps(statistics)}
    change(tensors, metadata)
    (folder / "processed").mkdir()
    save_file(tensors, folder / "processed" / "texas.safetensors", metadata=metadata)
    os.environ["GREAD_MIRROR"] = "http://127.0.0.1:9"
    data = gread.load("texas", root=folder)
    model = gread.GREAD(data.num_features, 2, 2)
    gread.fit(model, data, TrainConfig(epochs=1))


for _name, _change in {
    "no statistics": lambda _, m: m.pop("statistics"),
    "statistics that are no JSON": lambda _, m: m.update(statistics="{"),
    "statistics of other things": lambda _, m: m.update(statistics='{"a": 1}'),
    "an edge to node 10^12": lambda t, _: t["edge_index"].fill_(10**12),
    "classes of another number": lambda t, _: t.update(y=torch.zeros(2, dtype=torch.int64)),
    "a class of 10^12": lambda t, _: t["y"].fill_(10**12),
    "masks of numbers": lambda t, _: t.update(train_mask=torch.full((3, 1), 7)),
    "no features": lambda t, _: t.pop("x"),
}.items():
    CASES.add(f"a parsed graph with {_name}", partial(_cached, _change))


@CASES.register("a structure that was computed by a stranger")
def _structure(folder: Path) -> None:
    data = _graph()
    (folder / "processed").mkdir()
    place = folder / "processed" / "two-hop-f.safetensors"
    for metadata in ({"seconds": "long"}, None):
        save_file({"two_hop_index": torch.full((2, 3), 10**12)}, place, metadata=metadata)
        add_structure(data, "two-hop", Origin("csbm", folder, "f"))


@CASES.register("relations of Geom-GCN that are no numbers")
def _relations(folder: Path) -> None:
    data = _graph()
    place = folder / "geom_gcn_relations" / "outf_nodes_space_relation_csbm_poincare.txt"
    place.parent.mkdir()
    for text in ("a\tb\n", "head\n1,2\tgraph\tx\n", "head\n-1,2\tgraph\t9\n", "head\n1\n"):
        _write(place, text)
        add_structure(data, "relations", Origin("csbm", folder, "f"))


# ---- the watch -------------------------------------------------------------------------------

FORBIDDEN = {
    "pickle.find_class": "unpickled",
    "os.system": "started",
    "os.exec": "started",
    "os.posix_spawn": "started",
    "subprocess.Popen": "started",
    "socket.connect": "connected to",
    "import": "",
}


def _watched(case: Case, folder: Path, out: int) -> None:
    """In a process of its own: what a case does, as one line of JSON."""
    seen: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FORBIDDEN and event != "import":
            if event == "socket.connect" and "127.0.0.1" in str(arguments):
                return
            seen.append(f"{FORBIDDEN[event]} {arguments!r:.200}")
        elif event == "open" and isinstance(arguments[2], int):
            path, flags = arguments[0], arguments[2]
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and isinstance(path, str | bytes):
                place = os.path.abspath(os.fsdecode(path))
                if not place.startswith((str(folder), "/dev/null")):
                    seen.append(f"wrote {place}")

    signal.alarm(MOST_SECONDS)
    # What is let through must not take the machine with it.
    held = 4096 * int(Path("/proc/self/statm").read_text().split()[5])
    resource.setrlimit(resource.RLIMIT_DATA, (held + 2**32, held + 2**32))
    os.chdir(folder)
    sys.addaudithook(hook)
    result: dict[str, Any]
    try:
        case(folder)
        result = {"outcome": "harmless"}
    except OURS as error:
        result = {"outcome": "refused", "sentence": " ".join(str(error).split())}
    except BaseException:
        result = {"outcome": "failed", "sentence": traceback.format_exc()}
    if (folder / EXECUTED).exists():
        seen.append("executed the code in the file")
    result["seen"] = seen
    result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    os.write(out, json.dumps(result).encode())
    os._exit(0)


def attempt(name: str) -> dict[str, Any]:
    """Tries one case: its outcome, what was seen, bytes of memory it took and seconds."""
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    start = perf_counter()
    with tempfile.TemporaryDirectory() as place:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _watched(CASES[name], Path(place).resolve(), write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
    result = json.loads(text) if text else {"outcome": "failed", "seen": [], "memory": before}
    if not text:
        result["sentence"] = f"the process ended with {status}"
    result["seconds"] = perf_counter() - start
    result["memory"] = max(0, result["memory"] - before)
    return result


@SCRIPTS.register("hostile")
def main(times: int | None) -> list[Row]:
    """Every hostile file, in a process that is watched."""
    _model(), _result()  # and the kernels are compiled
    _predict(_copy(Path(tempfile.mkdtemp())))
    outcomes = {}
    for name in list(CASES)[:times]:
        found = outcomes[name] = attempt(name)
        print(
            f"{found['outcome']:9} {found['seconds']:5.1f} s {found['memory'] / 1e6:6.0f} MB  "
            f"{name}: {found.get('sentence', '')}",
            flush=True,
        )
    return _rows(outcomes)


def _rows(outcomes: dict[str, dict[str, Any]]) -> list[Row]:
    raise NotImplementedError
