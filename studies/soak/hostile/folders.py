"""Model folders."""

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

import gread
from gread.base.registry import Registry
from gread.estimator.classifier import GraphClassifier
from gread.estimator.files import write_predictions
from gread.explorer.page import page
from gread.explorer.trained import portrait_of_folder
from studies.soak.hostile.spoiled import Case, pickled, write

FOLDERS: Registry[Case] = Registry("hostile model folder")


def small_graph() -> Any:
    """Small graph."""
    return gread.load("csbm", num_nodes=40, homophily=0.8, degree=4, num_features=4)


@cache
def trained() -> Path:
    """Small trained model, to be modified by cases."""
    place = Path(tempfile.mkdtemp()) / "model"
    data = small_graph()
    settings = {"epochs": 1, "hidden_channels": 4}
    return GraphClassifier(settings=settings, device="cpu").fit(data).save(place)


def copied(folder: Path) -> Path:
    """Copy of the trained model."""
    return Path(shutil.copytree(trained(), folder / "model"))


def _predict(model: Path) -> None:
    classifier = GraphClassifier.load(model)
    write_predictions(classifier, model.parent / "out.csv", small_graph())
    classifier.predict_proba()


def _json(file: str, spoil: Callable[[dict[str, Any]], Any], folder: Path) -> None:
    model = copied(folder)
    values = json.loads((model / file).read_text())
    values = spoil(values) or values
    write(model / file, json.dumps(values))
    _predict(model)


def _tensors(file: str, spoil: Callable[[dict[str, torch.Tensor]], Any], folder: Path) -> None:
    model = copied(folder)
    tensors = {name: tensor.clone() for name, tensor in load_file(model / file).items()}
    spoil(tensors)
    save_file(tensors, model / file)
    _predict(model)


for _file in ("model.safetensors", "graph.safetensors", "classifier.json"):

    def _as_pickle(folder: Path, file: str = _file) -> None:
        model = copied(folder)
        write(model / file, pickled(folder))
        _predict(model)

    FOLDERS.add(f"a model folder whose {_file} is a pickle", _as_pickle)


@FOLDERS.register("a model folder with a pickle among its files")
def _pickle_beside(folder: Path) -> None:
    model = copied(folder)
    for name in ("pytorch_model.bin", "model.pkl", "classifier.pkl", "modeling_gread.py"):
        write(model / name, pickled(folder))
    gread.GREAD.from_pretrained(model)
    _predict(model)  # such files are ignored


@FOLDERS.register("a model folder with a pickle and no weights")
def _pickle_instead(folder: Path) -> None:
    model = copied(folder)
    (model / "model.safetensors").unlink()
    write(model / "pytorch_model.bin", pickled(folder))
    gread.GREAD.from_pretrained(model)


def _safetensors(header: bytes, length: int | None = None, size: int = 0) -> Case:
    def case(folder: Path) -> None:
        model = copied(folder)
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
    FOLDERS.add(_name, _case)


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
    "integer weights": _whole,
    "weights without one of them": dict.popitem,
}.items():
    FOLDERS.add(_name, partial(_tensors, "model.safetensors", _change))


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
    "an unexpected tensor": lambda t: t.update(__class__=torch.ones(2)),
    "ids that are no list": _ids(b'{"a": 1}'),
    "ids of fewer nodes": _ids(b"[1, 2]"),
    "ids that are lists": _ids(json.dumps([[k] for k in range(40)]).encode()),
    "ids a million levels deep": _ids(b"[" * 10**6 + b"]" * 10**6),
}.items():
    FOLDERS.add(f"a shared graph with {_name}", partial(_tensors, "graph.safetensors", _change))


def _setting(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["settings"].__setitem__(name, value)


def _encoder(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["preprocessing"][0].update(changes)


for _name, _change in {
    "10^9 channels": _setting("hidden_channels", 10**9),
    "10^18 steps": _setting("step_size", 1e-18),
    "10^9 layers": lambda v: v.update(
        model="gcnii", settings={"hidden_channels": 4, "num_layers": 10**9}
    ),
    "a negative width": _setting("hidden_channels", -1),
    "a setting that is a list": _setting("reaction", ["bs"]),
    "an unknown setting": _setting("__class__", 1),
    "an unknown reaction": _setting("reaction", "os.system"),
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
    "an unknown encoder": _encoder(encoder="pickle"),
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
    FOLDERS.add(f"a classifier with {_name}", partial(_json, "classifier.json", _change))


@FOLDERS.register("a classifier a million levels deep")
def _classifier_deep(folder: Path) -> None:
    model = copied(folder)
    write(model / "classifier.json", '{"format": ' + "[" * 10**6 + "]" * 10**6 + "}")
    _predict(model)


@FOLDERS.register("a model folder whose file is a pipe")
def _folder_pipe(folder: Path) -> None:
    model = copied(folder)
    (model / "classifier.json").unlink()
    os.mkfifo(model / "classifier.json")
    _predict(model)


@FOLDERS.register("a config for GREAD of 10^9 channels")
def _config_huge(folder: Path) -> None:
    model = copied(folder)
    config = json.loads((model / "config.json").read_text()) | {"hidden_channels": 10**9}
    write(model / "config.json", json.dumps(config))
    gread.GREAD.from_pretrained(model)


@FOLDERS.register("classes that are HTML, on the page of the explorer")
def _classes_html(folder: Path) -> None:
    script = "</script><script>alert(1)</script><!--"
    model = copied(folder)
    values = json.loads((model / "classifier.json").read_text())
    values["classes"] = [script, "b"]
    write(model / "classifier.json", json.dumps(values))
    assert script not in page({}, portraits=[portrait_of_folder(model)])


@FOLDERS.register("classes and ids that are formulas, in predictions")
def _classes_formula(folder: Path) -> None:
    model = copied(folder)
    values = json.loads((model / "classifier.json").read_text())
    values["classes"] = ["=1+1", "@SUM(1)"]
    write(model / "classifier.json", json.dumps(values))
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
