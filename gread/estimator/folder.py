"""Model folder of a trained estimator, which can be shared: safetensors, JSON and a model card.

docs/own-graph.md lists the files. Nothing is pickled, so an untrusted folder is safe to read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, astuple
from math import isfinite, nan
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.base.memory import check_fits
from gread.base.tensors import write_tensors
from gread.base.versions import versions
from gread.data.splits import MASKS
from gread.estimator.automatic import Blend, Where
from gread.estimator.diagnosis import Diagnosis
from gread.estimator.fitted import AUTO, MOST_TYPES, FittedEstimator, title_of
from gread.estimator.problem import POSITIONS
from gread.estimator.scores import AnyScores
from gread.estimator.task import Task, Thresholds, task_of
from gread.graph.checks import check_edges, check_features
from gread.graph.partition import sparse_tensor
from gread.models.catalog import MODELS, NUM_NODES
from gread.models.gread_x import checked_types
from gread.models.hub import CARD, CONFIG, EXTRA, WEIGHTS, load_module, model_card, save_weights
from gread.runs.run import fingerprint_of
from gread.tables.features import Preprocessing, some
from gread.training.config import TrainConfig
from gread.training.loop import Epoch, Fit

C = TypeVar("C", bound=FittedEstimator)

FORMAT = 1
CLASSIFIER = "classifier.json"
GRAPH = "graph.safetensors"
TENSORS = ("x", "edge_index", "y", *MASKS)
OPTIONAL = ("edge_weight", "relation_index", "relation_type", "relation_weight", *POSITIONS)
CSR = ("x_indptr", "x_indices", "x_data", "x_shape")  # instead of x, if it is sparse


def write(classifier: FittedEstimator, folder: Path, scores: Mapping[str, AnyScores]) -> None:
    """Write a fitted estimator and scores by title, its own first, to an existing folder."""
    fingerprint = fingerprint_of(_plain(classifier.data_))
    about = {
        "format": FORMAT,
        "model": classifier.model_,
        "settings": classifier.settings_,
        "training": asdict(classifier.config_),
        "parameters": _parameters(classifier),
        "classes": classifier.classes_.tolist(),
        "task": classifier.task_.to_dict(),
        "thresholds": classifier.thresholds_,
        "num_nodes": len(classifier.ids_),
        "edge_types": classifier.types_,
        "preprocessing": classifier.preprocessing_.to_dict(),
        "diagnosis": asdict(classifier.diagnosis_),
        "split_given": classifier.split_given_,
        "all_edges": vars(classifier).get("seen_") is classifier.data_,
        "best_epoch": _numbers(classifier.fit_.best) if "fit_" in vars(classifier) else None,
        "scores": {name: asdict(found) for name, found in scores.items()},
        "fingerprint": fingerprint,
        "versions": versions(),
    }
    files: dict[str, Any] = {CLASSIFIER: about}
    if classifier.model_ == AUTO:
        about["blend"] = classifier.blend_.write(folder)
    else:
        files[CONFIG] = _config(classifier)
        save_weights(classifier.module_, folder)
    for name, values in files.items():
        text = json.dumps(values, indent=1, ensure_ascii=False, default=_as_json)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    write_tensors(folder / GRAPH, _graph_tensors(classifier))
    (folder / CARD).write_text(_card(classifier, scores, fingerprint), encoding="utf-8")
    for file in folder.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)  # a folder to share


def load(path: str | Path, kind: type[C]) -> C:
    """Load an estimator from a folder or a repository of the Hugging Face Hub."""
    folder = _local(path)
    about = _read_json(folder / CLASSIFIER)
    if about.get("format") != FORMAT:
        raise InputError(f"{folder} must have format {FORMAT}, got {about.get('format')!r}")
    try:
        parameters = dict(about["parameters"])
        if isinstance(parameters["class_weight"], list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        for name in ("id", "source", "target", "weight", "edge_type", "time_column"):
            _check(f"parameter {name}", parameters.get(name), str | None)
        classifier = kind(about["model"], **parameters)
        _check("parameter settings", parameters["settings"], dict | None)
        classifier.task_ = _task(about)
        if kind.kind not in ("auto", classifier.task_.kind):
            raise InputError(
                f"{folder} holds a model for {classifier.task_.kind}: load it with "
                f"gread.{classifier.task_.estimator}"
            )
        classifier.classes_ = np.array(about["classes"])
        classifier.thresholds_ = _thresholds(about.get("thresholds"), classifier.task_)
        classifier.config()  # rejects invalid settings
        classifier.settings_ = dict(about["settings"])
        classifier.config_ = TrainConfig(**about["training"])
        classifier.preprocessing_ = Preprocessing.from_dict(about["preprocessing"])
        classifier.diagnosis_ = Diagnosis.from_dict(about["diagnosis"])
        classifier.split_given_ = bool(about.get("split_given"))  # version 1.0 has neither
        if epoch := about.get("best_epoch"):
            classifier.fit_ = Fit(_epoch(epoch), ())
        classifier.ids_ = range(about["num_nodes"])
        classifier.types_ = tuple(map(str, about.get("edge_types", ())))
        if classifier.model_ == AUTO:
            sizes = classifier.preprocessing_.width, classifier.task_, about["num_nodes"]
            classifier.blend_ = Blend.read(folder, about["blend"], *sizes)
        else:
            classifier.module_ = load_module(classifier.built, folder / WEIGHTS)
    except InputError:
        raise
    except Exception as error:  # untrusted text may be invalid in any way
        raise InputError(
            f"{folder / CLASSIFIER} is not a valid file of gread: {error!r}"
        ) from error
    if (folder / GRAPH).exists():
        classifier.ids_, classifier.data_ = _read_graph(folder / GRAPH, classifier)
        if about.get("all_edges", classifier.time_column is None):
            classifier.seen_ = classifier.data_
    return classifier


def _check(name: str, value: object, of: Any) -> None:
    if not isinstance(value, of):
        raise InputError(f"{name} must be {of}, got {value!r:.80}")


def _task(about: Mapping[str, Any]) -> Task:
    """Read the task; folders of version 1.0 have classes only.

    There must be at least two distinct classes or labels, all bool, int or str.
    """
    metric = about["training"]["metric"] or "accuracy"
    given = {"targets": "classes", "metric": metric, **about.get("task", {})}
    names = about["classes"]
    _check("classes", names, list)
    types = {type(value) for value in names}
    least = 1 if given["targets"] == "numbers" else max(2, len(names))
    if len(types) != 1 or not types <= {bool, int, str} or len(set(names)) < least:
        raise InputError(
            f"classes must be two or more different texts or whole numbers, got {names!r:.80}"
        )
    return task_of(given, names)


def _thresholds(values: Any, task: Task) -> tuple[Thresholds, ...]:
    """Thresholds by `Where`."""
    if values is None:  # version 1.0 had none
        return (None,) * len(Where)
    if len(values) != len(Where):
        raise InputError(f"thresholds must be {len(Where)} lists or null, got {values!r:.80}")
    for one in values:
        if one is not None and len(one) != len(task.decisive):
            raise InputError(f"thresholds must be one for each label, got {one!r:.80}")
    return tuple([float(value) for value in one] if one else None for one in values)


def _numbers(epoch: Epoch) -> list[float | None]:
    """Numbers of an epoch; None if undefined, since JSON has no NaN."""
    return [value if isfinite(value) else None for value in astuple(epoch)]


def _epoch(values: Sequence[float | None]) -> Epoch:
    """The epoch of `_numbers`."""
    number, *others = values
    return Epoch(int(number or 0), *(nan if value is None else float(value) for value in others))


def _config(classifier: FittedEstimator) -> dict[str, Any]:
    """Constructor arguments of the model."""
    entry = MODELS[classifier.model_]
    return {
        "in_channels": classifier.preprocessing_.width,
        "out_channels": classifier.task_.outputs_of(classifier.config_),
        **({NUM_NODES: len(classifier.ids_)} if entry.transductive(classifier.settings_) else {}),
        **entry.fixed,
        **classifier.settings_,
    }


def _parameters(classifier: FittedEstimator) -> dict[str, Any]:
    """Constructor arguments as JSON; class weights become pairs, since keys may be numbers."""
    found: dict[str, Any] = classifier.get_params()
    for name in ("model", "device", "graph", "verbose"):  # local, or stored elsewhere
        del found[name]
    if isinstance(found["class_weight"], Mapping):
        found["class_weight"] = list(found["class_weight"].items())
    found["settings"] = None if found["settings"] is None else dict(found["settings"])
    return found


def _graph_tensors(classifier: FittedEstimator) -> dict[str, Tensor]:
    """The graph, with the ids as the bytes of a JSON list."""
    there = [name for name in OPTIONAL if classifier.data_.get(name) is not None]
    names = [*TENSORS, *there]
    ids = json.dumps(classifier.ids_, default=_id_as_json, ensure_ascii=False).encode()
    found = {"ids": torch.frombuffer(bytearray(ids), dtype=torch.uint8)}
    tensors = {name: classifier.data_[name].cpu() for name in names}
    if tensors["x"].layout is torch.sparse_csr:
        x = tensors.pop("x")
        parts = (x.crow_indices(), x.col_indices().int(), x.values(), torch.tensor(x.shape))
        tensors |= dict(zip(CSR, parts, strict=True))
    return found | tensors


def _as_json(value: Any) -> Any:
    """Convert an argument that JSON cannot hold: a NumPy value, a pandas Index, a sequence."""
    return value.tolist() if hasattr(value, "tolist") else list(value)


def _id_as_json(value: Any) -> Any:
    """Convert an id that JSON cannot hold."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _tuples(ids: Any) -> Any:
    """Convert ids that JSON holds as lists, such as (0, 1) of a NetworkX grid, back to tuples."""

    def inner(value: Any) -> Any:
        return tuple(map(inner, value)) if isinstance(value, list) else value

    return list(map(inner, ids)) if isinstance(ids, list) else ids


def _plain(data: Data) -> Data:
    """The graph with the parts of sparse features as one strided tensor, for a fingerprint."""
    if data.x.layout is not torch.sparse_csr:
        return data
    values = data.x.values().view(torch.int32)
    parts = [torch.tensor(data.x.shape), data.x.crow_indices(), data.x.col_indices(), values]
    found = copy(data)
    found.x = torch.cat([part.long() for part in parts])
    return found


def _read_graph(file: Path, classifier: FittedEstimator) -> tuple[list[Any], Data]:
    """Read ids and graph; tensors are memory-mapped."""
    try:
        with safe_open(file, framework="pt") as tensors:
            names = set(tensors.keys()) - {"ids"}
            found = {name: tensors.get_tensor(name) for name in names}
            ids = _tuples(json.loads(tensors.get_tensor("ids").numpy().tobytes()))
        if found.keys() >= set(CSR):
            crow, col, values, shape = (found.pop(name) for name in CSR)
            found["x"] = sparse_tensor(crow.long(), col.long(), values, shape.tolist())
        _check_graph(ids, found, classifier)
    except InputError as error:
        raise InputError(f"{file} is not a valid file of gread: {error}") from error
    except (
        OSError,
        SafetensorError,
        KeyError,
        ValueError,
        TypeError,
        RecursionError,
        RuntimeError,
    ) as error:
        raise InputError(f"{file} is not a valid file of gread: {error!r}") from error
    data = Data(**found)
    if len(classifier.types_) > 1:
        data.num_relations = min(len(classifier.types_), MOST_TYPES)
    return ids, data


def _check_graph(ids: Any, found: Mapping[str, Tensor], classifier: FittedEstimator) -> None:
    """Require a valid training graph, since later code relies on its sizes."""
    _check("ids", ids, list)
    n = len(ids)
    if found.keys() - set(OPTIONAL) != set(TENSORS):
        raise InputError(f"it must hold {', '.join(sorted(TENSORS))}, got {', '.join(found)}")
    check_features("x", found["x"], classifier.preprocessing_.width)
    check_edges(found["edge_index"], found.get("edge_weight"), found["x"])
    for name in POSITIONS:
        if name in found:
            check_features(name, found[name], found[name].size(-1))
            if len(found[name]) != n:
                raise InputError(f"{name} must have a row for each of {n} nodes")
    _check_relations(found, classifier)
    task = classifier.task_
    for name, of in {"y": task.dtype, **dict.fromkeys(MASKS, torch.bool)}.items():
        shape = (n, task.width) if name == "y" and task.targets == "labels" else (n,)
        if found[name].shape != shape or found[name].dtype != of:
            raise InputError(f"{name} must be a value for each of {n} nodes, as {of}")
    names_class = task.targets != "classes" or bool((found["y"] < task.width).all())
    if len(found["x"]) != n or not names_class:
        raise InputError(f"x must have a row and y a class for each of {n} nodes")


def _check_relations(found: Mapping[str, Tensor], classifier: FittedEstimator) -> None:
    """Require typed edges if there are several types, and none otherwise."""
    names = {name for name in found if name.startswith("relation_")} - {"relation_weight"}
    wanted = {"relation_index", "relation_type"} if len(classifier.types_) > 1 else set()
    if names != wanted:
        raise InputError(f"it must hold {sorted(wanted)} of edges with types, got {sorted(names)}")
    if wanted:
        index, weight = found["relation_index"], found.get("relation_weight")
        check_edges(index, weight, found["x"])
        checked_types(found["relation_type"], index, min(len(classifier.types_), MOST_TYPES))


def _card(classifier: FittedEstimator, scores: Mapping[str, AnyScores], fingerprint: str) -> str:
    title = title_of(classifier.model_)
    names = ", ".join(map(str, classifier.classes_.tolist()[:20]))
    columns = "\n".join(f"- {line}" for line in classifier.preprocessing_.about())
    types = ""
    if len(classifier.types_) > 1:
        types = f"Edges have the types {some(classifier.types_, 20)}. "
    metrics = {
        f"{name}, {measure}": value
        for name, found in scores.items()
        for measure, value in found.measures().items()
        if value is not None
    }
    about = (
        f"Predicts the {classifier.task_.word} of a node ({names}) from its columns and the graph "
        f"around it: {title}, trained on {len(classifier.ids_)} nodes. {types}Columns and their "
        f"encoding:\n\n{columns}"
    )
    kind = classifier.task_.estimator
    usage = (
        f"```python\nfrom gread import {kind}\n\n"
        f'model = {kind}.load("THIS FOLDER")\n'
        'model.predict("nodes.csv", edges="edges.csv")\n```\n\n'
        "or `gread predict THIS_FOLDER --nodes nodes.csv --edges edges.csv --out predictions.csv`. "
        f"`{GRAPH}` contains the training graph with features and classes: delete it before "
        "you share a model of private data."
    )
    notes = "\n".join(f"- {warning}" for warning in classifier.diagnosis_.warnings)
    texts = {"about": about, "fingerprint": fingerprint, "usage": usage, "notes": notes}
    return model_card(f"{title} for node {classifier.task_.kind}", metrics=metrics, **texts)


def _local(path: str | Path) -> Path:
    """Return the local folder; a repository of the Hugging Face Hub is downloaded."""
    folder, name, absent = Path(path), str(path), f"there is no model folder {path}"
    if folder.is_dir():
        return folder
    if folder.exists() or name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InputError(absent)
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise InputError(f"{absent}; to look on the Hugging Face Hub: {EXTRA}") from error
    try:
        return Path(snapshot_download(name))
    except Exception as error:  # no network, repository or permission
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{absent}, and none on the Hugging Face Hub: {reason}") from error


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InputError(
            f"{file.parent} is not a model folder of gread: it has no file {file.name}"
        )
    check_fits(file, 20)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file.parent} is not a model folder of gread: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{file} must hold an object, got {type(found).__name__}")
    return found
