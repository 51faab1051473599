"""Stored runs and searches, settings, and the data root."""

import json
import lzma
import os
import sqlite3
import warnings
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import gread
from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.data.files import manifest
from gread.graph.structure.catalog import add_structure
from gread.graph.structure.origin import Origin
from gread.runs.archive import LARGEST, read_results
from gread.runs.presets import find_preset
from gread.runs.run import run
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore, StoreError
from gread.search.space import read_space
from gread.search.study import load_study
from gread.training.config import TrainConfig
from studies.soak.hostile.folders import small_graph
from studies.soak.hostile.spoiled import Case, pickled, write

STORED: Registry[Case] = Registry("hostile store")
SETTINGS: Registry[Case] = Registry("hostile file of settings")
ROOT: Registry[Case] = Registry("hostile data root")


@cache
def result() -> str:
    """Stored run."""
    spec = RunSpec(
        dataset="csbm", model="gread-bs", hyper={"hidden_channels": 2}, train=TrainConfig(epochs=1)
    )
    return run(spec).to_json()


def _line(spoil: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    values = json.loads(result())
    values = spoil(values) or values
    text = json.dumps(values)
    refused = 0
    try:
        read_results(write(folder / "table-4.jsonl.xz", lzma.compress(text.encode() + b"\n")))
    except StoreError:
        refused += 1
    store = ResultStore(folder / "store")
    with sqlite3.connect(store.path) as connection:
        connection.execute(
            "INSERT INTO runs (key, dataset, model, split, seed, result) VALUES (?,?,?,?,?,?)",
            (
                RunSpec.from_json(json.dumps(json.loads(result())["spec"])).key,
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
    "an unknown status": lambda v: v.update(status="splendid"),
    "a hyperparameter that is a list": lambda v: v["spec"]["hyper"].update(time=[1]),
    "a split of text": lambda v: v["spec"].update(split="0"),
    "a spec that is a list": lambda v: v.update(spec=[]),
    "no spec": lambda v: v.pop("spec") and None,
    "a training of text": lambda v: v["spec"].update(train="x"),
    "a history of text": lambda v: v.update(history="abc"),
    "a history of numbers": lambda v: v.update(history=[1, 2]),
    "an unknown key": lambda v: v.update(__class__=1),
    "seconds of text": lambda v: v.update(seconds="long"),
    "records of text": lambda v: v.update(records="x"),
    "a device that is a list": lambda v: v.update(device=[]),
}.items():
    STORED.add(f"a stored run with {_name}", partial(_line, _change))


def _unregistered(change: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    """Check that a run of an unregistered model is listed; computing it must raise an error."""
    values = json.loads(result())
    change(values["spec"])
    (found,) = read_results(
        write(folder / "t.jsonl.xz", lzma.compress(json.dumps(values).encode() + b"\n"))
    )
    store = ResultStore(folder / "store")
    store.put(found)
    assert list(store) == [found] == [store.get(found.spec)]
    run(found.spec)


for _name, _change in {
    "an unknown model": lambda spec: spec.update(model="x"),
    "an unknown hyperparameter": lambda spec: spec["hyper"].update(x=1),
}.items():
    STORED.add(f"a stored run with {_name}", partial(_unregistered, _change))


@STORED.register("a stored run under the key of another")
def _wrong_key(folder: Path) -> None:
    values = json.loads(result())
    asked = RunSpec.from_json(json.dumps(values["spec"] | {"seed": 7}))
    store = ResultStore(folder)
    with sqlite3.connect(store.path) as connection:
        connection.execute("INSERT INTO runs (key, result) VALUES (?, ?)", (asked.key, result()))
    store.get(asked)


@STORED.register("stored runs a million levels deep")
def _results_deep(folder: Path) -> None:
    text = b'{"spec": ' + b"[" * 10**6 + b"]" * 10**6 + b"}\n"
    read_results(write(folder / "t.jsonl.xz", lzma.compress(text)))


@STORED.register("stored runs that are no text")
def _results_bytes(folder: Path) -> None:
    read_results(write(folder / "t.jsonl.xz", lzma.compress(bytes(range(256)))))


@STORED.register("stored runs that are not packed")
def _results_plain(folder: Path) -> None:
    read_results(write(folder / "t.jsonl.xz", result().encode()))


@STORED.register("stored runs that are cut")
def _results_cut(folder: Path) -> None:
    read_results(write(folder / "t.jsonl.xz", lzma.compress(result().encode())[:-30]))


@STORED.register("stored runs that unpack to 300 MB")
def _results_bomb(folder: Path) -> None:
    packing = lzma.LZMACompressor(preset=0)
    block = bytes(2**20)
    parts = [packing.compress(block) for _ in range(LARGEST // len(block) + 32)]
    read_results(write(folder / "t.jsonl.xz", b"".join(parts) + packing.flush()))


@STORED.register("stored runs that take 4 GB to unpack")
def _results_dictionary(folder: Path) -> None:
    packed = bytearray(lzma.compress(result().encode()))
    packed[16] = 40  # dictionary size of the first block, followed by its checksum
    end = 12 + 4 * packed[12]
    packed[end : end + 4] = zlib.crc32(packed[12:end]).to_bytes(4, "little")
    read_results(write(folder / "t.jsonl.xz", bytes(packed)))


@STORED.register("a store that is a pickle")
def _store_pickle(folder: Path) -> None:
    write(folder / "results.sqlite", pickled(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(ResultStore(folder)) == 0  # renamed and recreated


@STORED.register("a store whose table is of another shape")
def _store_shape(folder: Path) -> None:
    with sqlite3.connect(folder / "results.sqlite") as connection:
        connection.execute("CREATE TABLE runs (a, b)")
    list(ResultStore(folder))


@STORED.register("a journal of a search that is a pickle")
def _journal_pickle(folder: Path) -> None:
    write(folder / "s.journal", pickled(folder) + b"\n")
    load_study("s", None, folder)


@STORED.register("a journal of a search with lines of nonsense")
def _journal_nonsense(folder: Path) -> None:
    write(folder / "s.journal", '{"op_code": 99, "worker_id": 1}\n[]\n{"op_code": 0}\n')
    load_study("s", None, folder)


def _toml(read: Callable[[Path], Any], text: str | bytes, folder: Path) -> None:
    read(write(folder / "t.toml", text))


def _read_preset(path: Path) -> None:
    found = find_preset("gread-bs", "csbm", str(path))
    train = replace(found.train, epochs=1)
    run(
        RunSpec(
            dataset="csbm", model="gread-bs", hyper=found.hyper, train=train, options=found.options
        )
    )


_DEEP = "x = " + "[" * 10**5 + "]" * 10**5
for _name, _text in {
    "a number for a table": "csbm = 3",
    "a list of tables": "[[csbm]]\ntime = 1.0",
    "a time of text": "[csbm]\ntime = 'long'",
    "a time that is a list": "[csbm]\ntime = [1.0]",
    "a time that is a table": "[csbm.time]\na = 1",
    "a date": "[csbm]\ntime = 1979-05-27",
    "a rate of learning of text": "[csbm]\nlr = 'x'",
    "epochs of text": "[csbm]\nepochs = '9'",
    "options that are a number": "[csbm]\noptions = 3",
    "an unknown option": "[csbm]\noptions = { x = 1 }",
    "values 100,000 levels deep": f"[csbm]\n{_DEEP}",
    "bytes that are no text": bytes(range(256)),
    "an unknown key": "[csbm]\n__class__ = 1",
}.items():
    SETTINGS.add(f"a preset with {_name}", partial(_toml, _read_preset, _text))

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
    "an unknown solver": "solver = ['euler', 'exec']",
    "values 100,000 levels deep": _DEEP,
    "an empty choice": "time = []",
    "a seed of text": "time = [1.0]\nepochs = 'x'",
}.items():
    SETTINGS.add(f"a space with {_name}", partial(_toml, partial(read_space, "gread-bs"), _text))


@SETTINGS.register("a file of settings of 64 MB, or a device")
def _toml_large(folder: Path) -> None:
    try:
        _read_preset(write(folder / "t.toml", "#" * 2**26))
    except InputError:
        (folder / "zero.toml").symlink_to("/dev/zero")
        _read_preset(folder / "zero.toml")


@ROOT.register("Planetoid's pickles with code in them")
def _planetoid(folder: Path) -> None:
    for file in manifest():
        if file.path.startswith("Planetoid/Cora/"):
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(pickled(folder))
    gread.load("cora", root=folder)


def _cached(change: Callable[[dict[str, Any], dict[str, str]], None], folder: Path) -> None:
    """Load and train on a changed parsed graph, as in a data root that others can write to."""
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
    ROOT.add(f"a parsed graph with {_name}", partial(_cached, _change))


@ROOT.register("a structure that was computed by a stranger")
def _structure(folder: Path) -> None:
    data = small_graph()
    (folder / "processed").mkdir()
    place = folder / "processed" / "two-hop-f.safetensors"
    for metadata in ({"seconds": "long"}, None):
        save_file({"two_hop_index": torch.full((2, 3), 10**12)}, place, metadata=metadata)
        add_structure(data, "two-hop", Origin("csbm", folder, "f"))


for _number, _text in enumerate(
    ("head\n1,2\tgraph\tx\n", "head\n-1,2\tgraph\t9\n", "head\n1\n", "\n" + "9" * 40)
):

    def _relations(folder: Path, text: str = _text) -> None:
        place = folder / "geom_gcn_relations" / "outf_nodes_space_relation_csbm_poincare.txt"
        place.parent.mkdir()
        write(place, text)
        add_structure(small_graph(), "relations", Origin("csbm", folder, "f"))

    ROOT.add(f"relations of Geom-GCN that are none, {_number + 1}", _relations)
