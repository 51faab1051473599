"""Hostile tables and graphs."""

import io
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from gread.base.errors import InputError
from gread.base.memory import free_memory
from gread.base.registry import Registry
from gread.tables.formats import read_table
from gread.tables.graph import read_graph
from studies.soak.hostile.spoiled import EXECUTED, Case, Code, pickled, write

TABLES: Registry[Case] = Registry("hostile table")
GRAPHS: Registry[Case] = Registry("hostile graph")

LARGE = ("a file that unpacks to 64 GB", "a Parquet file of billions of equal numbers")
"""Cases that are slow to create; tests skip them."""


@TABLES.register("an NPZ file of pickled objects")
def _npz_objects(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.array([Code(folder)], dtype=object), allow_pickle=True)
    read_table(folder / "t.npz")


@TABLES.register("a pickle named as NPZ")
def _npz_pickle(folder: Path) -> None:
    read_table(write(folder / "t.npz", pickled(folder)))


@TABLES.register("an array without its archive named as NPZ")
def _npz_npy(folder: Path) -> None:
    with (folder / "t.npz").open("wb") as file:
        np.save(file, np.arange(3))
    read_table(folder / "t.npz")


@TABLES.register("a pickle inside an NPZ file")
def _npz_member(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", pickled(folder))
        archive.writestr("x", pickled(folder))
    read_table(folder / "t.npz")


def _npy_header(shape: tuple[int, ...], of: str = "<f8") -> bytes:
    text = f"{{'descr': '{of}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@TABLES.register("an NPZ file whose header promises 10^14 numbers")
def _npz_shape(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", _npy_header((10**14,)) + bytes(80))
    read_table(folder / "t.npz")


@TABLES.register("an NPZ file whose header promises numbers beyond 64 bits")
def _npz_overflow(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", _npy_header((10**30, 2)) + bytes(80))
    read_table(folder / "t.npz")


@TABLES.register("an NPZ file whose header is a program")
def _npz_header(folder: Path) -> None:
    trace = folder / EXECUTED
    text = f"__import__('pathlib').Path({str(trace)!r}).touch()".encode() + b"\n"
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
        archive.writestr("id.npy", content)
    read_table(folder / "t.npz")


def _bomb(path: Path, size: int) -> None:
    """Archive of zeros that unpacks to ``size`` bytes from about a thousandth of that."""
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


@TABLES.register("a file that unpacks to 64 GB")
def _npz_bomb(folder: Path) -> None:
    _bomb(folder / "t.npz", 64 * 2**30)
    read_table(folder / "t.npz")


@TABLES.register("an NPZ file that says it unpacks to a petabyte")
def _npz_claim(folder: Path) -> None:
    _bomb(folder / "t.npz", 2**27)
    content = (folder / "t.npz").read_bytes()
    size = struct.pack("<Q", 2**27 + 128)
    assert content.count(size) == 2
    write(folder / "t.npz", content.replace(size, struct.pack("<Q", 2**50)))
    read_table(folder / "t.npz")


@TABLES.register("an NPZ file with paths that lead out of it")
def _npz_paths(folder: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.arange(3))
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        for name in ("../../outside.npy", "/outside.npy", "id.npy", "..\\outside.npy"):
            archive.writestr(name, array.getvalue())
    assert len(read_table(folder / "t.npz")) == 3  # nothing is unpacked to disk


@TABLES.register("an NPZ file that is encrypted")
def _npz_encrypted(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.arange(3))
    content = bytearray((folder / "t.npz").read_bytes())
    content[content.rindex(b"PK\1\2") + 8] |= 1
    content[content.index(b"PK\3\4") + 6] |= 1
    read_table(write(folder / "t.npz", bytes(content)))


@TABLES.register("an NPZ file packed in an unknown way")
def _npz_method(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.arange(3))
    content = bytearray((folder / "t.npz").read_bytes())
    content[content.rindex(b"PK\1\2") + 10] = 99
    read_table(write(folder / "t.npz", bytes(content)))


@TABLES.register("an NPZ file of records, scalars and cubes")
def _npz_kinds(folder: Path) -> None:
    np.savez(folder / "t.npz", id=np.zeros(3, dtype=[("a", "i4"), ("b", "O8")][:1]))
    read_table(folder / "t.npz")
    np.savez(folder / "t.npz", id=np.zeros((2, 2, 2)), x=np.array(1.0))
    read_table(folder / "t.npz")


@TABLES.register("an NPZ file with one text of 4 GB")
def _npz_text(folder: Path) -> None:
    with zipfile.ZipFile(folder / "t.npz", "w") as archive:
        archive.writestr("id.npy", _npy_header((1,), f"<U{2**30 - 1}") + bytes(80))
    read_table(folder / "t.npz")


@TABLES.register("a Parquet file of billions of equal numbers")
def _parquet_equal(folder: Path) -> None:
    some = pa.table({"id": pa.nulls(2**24, pa.int64())})
    with pyarrow.parquet.ParquetWriter(folder / "t.parquet", some.schema) as writer:
        for _ in range(int(1.2 * free_memory() / (8 * 2**24))):
            writer.write_table(some, row_group_size=2**24)
    read_table(folder / "t.parquet")


@TABLES.register("a Parquet file that repeats a long text a million times")
def _parquet_texts(folder: Path) -> None:
    column = pa.DictionaryArray.from_arrays(np.zeros(10**6, dtype=np.int32), ["x" * 2**20])
    pyarrow.parquet.write_table(pa.table({"id": column}), folder / "t.parquet", store_schema=False)
    assert len(read_table(folder / "t.parquet")) == 10**6  # each text is stored once


@TABLES.register("a Parquet file that says it has 10^15 rows")
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
    read_table(write(folder / "t.parquet", body + foot + struct.pack("<I", length) + b"PAR1"))


@TABLES.register("a Parquet file whose type is a pickle")
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
    assert len(read_table(folder / "t.parquet")) == 2  # read by its stored type


@TABLES.register("a Parquet file of maps, or with one name twice")
def _parquet_kinds(folder: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    pyarrow.parquet.write_table(twice, folder / "t.parquet")
    try:
        read_table(folder / "t.parquet")
    except InputError:
        maps = pa.table({"id": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
        pyarrow.parquet.write_table(maps, folder / "t.parquet")
        read_table(folder / "t.parquet")


@TABLES.register("a CSV file with 10^6 columns")
def _csv_wide(folder: Path) -> None:
    names = ",".join(f"c{k}" for k in range(10**6))
    read_table(write(folder / "t.csv", f"id,{names}\n" + "1," * 10**6 + "1\n"))


@TABLES.register("a CSV file with 10,000 columns of two letters")
def _csv_block(folder: Path) -> None:
    header = ",".join(f"c{k}" for k in range(10**4))
    row = ",".join(f"{k % 90 + 10}x"[1:] for k in range(10**4))
    write(folder / "t.csv", header + "\n" + (row + "\n") * 700)
    assert len(read_table(folder / "t.csv")) == 700


@TABLES.register("a CSV file of one field of 64 MB")
def _csv_field(folder: Path) -> None:
    read_table(write(folder / "t.csv", "id,x\n1," + "y" * 2**26 + "\n"))


@TABLES.register("a CSV file whose quote never ends")
def _csv_quote(folder: Path) -> None:
    read_table(write(folder / "t.csv", 'id,x\n1,"' + "y\n" * 2**20))


@TABLES.register("a CSV file with formulas")
def _csv_formula(folder: Path) -> None:
    formula = '=HYPERLINK("http://x.invalid","here")'
    path = write(folder / "t.csv", 'id,x\n1,"' + formula.replace('"', '""') + '"\n2,+1\n')
    assert read_table(path)["x"].values.tolist() == [formula, "+1"]  # unchanged text


@TABLES.register("JSON lines of 20,000 nodes, each with a separate column")
def _json_columns(folder: Path) -> None:
    rows = (json.dumps({"id": k, f"c{k}": 1}) for k in range(20_000))
    read_table(write(folder / "t.jsonl", "\n".join(rows)))


@TABLES.register("JSON lines of 10^5 nodes, every tenth with a separate column")
def _json_sparse(folder: Path) -> None:
    rows = (json.dumps({"id": k, f"c{k // 10}": 1}) for k in range(10**5))
    read_table(write(folder / "t.jsonl", "\n".join(rows)))


@TABLES.register("JSON a million levels deep")
def _json_deep(folder: Path) -> None:
    read_table(write(folder / "t.jsonl", '{"id": ' + "[" * 10**6 + "]" * 10**6 + "}"))


@TABLES.register("a device or a pipe instead of a file")
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
    return write(path, head + graph)


TEXT_KEY = '<key id="k" for="node" attr.name="x" attr.type="string"/>'


@GRAPHS.register("a GraphML file with a billion laughs")
def _graphml_laughs(folder: Path) -> None:
    levels = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
    doctype = f'<!DOCTYPE graphml [<!ENTITY l0 "ha">{levels}]>'
    nodes = '<node id="a"><data key="k">&l9;</data></node>'
    read_graph(_graphml(folder / "t.graphml", nodes, doctype, TEXT_KEY))


@GRAPHS.register("a GraphML file whose entity is a long text, named often")
def _graphml_quadratic(folder: Path) -> None:
    doctype = f'<!DOCTYPE graphml [<!ENTITY l "{"ha" * 2**19}">]>'
    nodes = f'<node id="a"><data key="k">{"&l;" * 90}</data></node>'
    read_graph(_graphml(folder / "t.graphml", nodes, doctype, TEXT_KEY))


@GRAPHS.register("a GraphML file that refers to another file")
def _graphml_external(folder: Path) -> None:
    secret = write(folder / "secret", "secret")
    doctype = f'<!DOCTYPE graphml [<!ENTITY l SYSTEM "{secret.as_uri()}">]>'
    nodes = '<node id="a"><data key="k">&l;</data></node>'
    read_graph(_graphml(folder / "t.graphml", nodes, doctype, TEXT_KEY))


@GRAPHS.register("a GraphML file with elements 200,000 levels deep")
def _graphml_deep(folder: Path) -> None:
    nodes = '<node id="a">' + "<data>" * 200_000 + "</data>" * 200_000 + "</node>"
    read_graph(_graphml(folder / "t.graphml", nodes))


@GRAPHS.register("a GraphML file of 20,000 nodes, each with a separate column")
def _graphml_columns(folder: Path) -> None:
    many = range(20_000)
    keys = "".join(f'<key id="k{k}" for="node" attr.name="x{k}" attr.type="int"/>' for k in many)
    nodes = "".join(f'<node id="{k}"><data key="k{k}">1</data></node>' for k in many)
    read_graph(_graphml(folder / "t.graphml", nodes, keys=keys))


@GRAPHS.register("a GML file with lists a million levels deep")
def _gml_deep(folder: Path) -> None:
    text = "graph [ node [ id 0 " + "x [ " * 10**6 + "] " * 10**6 + "] ]"
    read_graph(write(folder / "t.gml", text))


@GRAPHS.register("a GML file of 20,000 nodes, each with a separate column")
def _gml_columns(folder: Path) -> None:
    nodes = " ".join(f"node [ id {k} x{k} 1 ]" for k in range(20_000))
    read_graph(write(folder / "t.gml", f"graph [ {nodes} ]"))


@GRAPHS.register("a GML file with a number of 10^5 digits")
def _gml_number(folder: Path) -> None:
    read_graph(write(folder / "t.gml", f"graph [ node [ id 0 x {'9' * 10**5} ] ]"))


@GRAPHS.register("a GML file with text that Python could run")
def _gml_text(folder: Path) -> None:
    trace = folder / EXECUTED
    text = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    read_graph(write(folder / "t.gml", f'graph [ node [ id 0 label "a" x "{text}" ] ]'))
