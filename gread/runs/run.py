"""Computation of a result from a spec: load, build, fit, report."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.base.memory import TRAINING, enough_memory
from gread.base.versions import versions
from gread.data.files import data_root
from gread.data.load import load
from gread.distributed.exchange import rank
from gread.graph.structure.catalog import Prepared, add_structure
from gread.graph.structure.origin import Origin
from gread.models.catalog import MODELS
from gread.runs.complete import complete
from gread.runs.records import RECORDS
from gread.runs.result import Result
from gread.runs.sharded import ShardedTraining, compute, cost, shards_of
from gread.runs.spec import RunSpec
from gread.training.fit import fit, masks_of
from gread.training.loop import Epoch, Fit
from gread.training.losses import LOSSES
from gread.training.memory import Division, parts_that_fit
from gread.training.population import fit_together

Graph: TypeAlias = tuple[Data, str]
"""Graph with the structure for a model, and its fingerprint."""


def run(
    spec: RunSpec,
    *,
    root: str | None = None,
    device: str = "cpu",
    deterministic: bool = False,
    on_epoch: Callable[[Epoch, nn.Module, Data], None] | None = None,
    imports: Sequence[str] = (),
    graph: Graph | None = None,
) -> Result:
    """Compute the result of ``spec``; on a CPU it is bitwise reproducible.

    Args:
        spec: Run to compute.
        root: Data root.
        device: Device to compute on.
        deterministic: Whether to use only deterministic algorithms, also on a GPU; slower.
        on_epoch: Function that is called with the epoch, the model and the data; not used if the
            graph is sharded over processes.
        imports: Modules that these processes import first.
        graph: Graph of the spec from `prepared`, if it is already loaded.
    """
    spec = complete(spec) if graph is None else spec  # a given graph belongs to a completed spec
    if spec.train.processes > 1:
        return _run_sharded(spec, root, device, imports)
    # Parts of a graph are moved to the device in turn.
    place = device if spec.train.parts == 1 else "cpu"
    data, fingerprint = _moved(graph, place) or prepared(spec, root, place)
    model = built(spec, data).to(device)
    follow = None if on_epoch is None else lambda epoch: on_epoch(epoch, model, data)
    start = time.perf_counter()
    found: Fit | ArithmeticError
    try:
        with _determinism(deterministic), enough_memory(TRAINING):
            found = fit(model, data, spec.train, split=spec.split, on_epoch=follow)
    except ArithmeticError as error:
        found = error
    about = _about(start, device, fingerprint)
    return _result(spec, found, _recorded(spec, found, model, data), **about)


def _run_sharded(spec: RunSpec, root: str | None, device: str, imports: Sequence[str]) -> Result:
    """Compute ``spec`` over processes; in a process group, every process calls this function."""
    place = data_root(root)
    load_graph = partial(prepared, spec, root, "cpu")
    folder, fingerprint = shards_of(load_graph, spec.train.processes, place)
    alone = replace(spec, train=replace(spec.train, processes=1))  # for any number of processes
    kept = place / "checkpoints" / f"{alone.key}.pt"
    training = ShardedTraining(folder, replace(spec, hyper=_hyper(spec)), kept, imports)
    start = time.perf_counter()
    found: Fit | ArithmeticError
    records: dict[str, Any] = {}
    try:
        each = compute(training, device)
        found, records = each[0].fit, {"processes": cost(each)}
    except ArithmeticError as error:
        found = error
    if rank() == 0:
        kept.unlink(missing_ok=True)
    return _result(spec, found, records, **_about(start, device, fingerprint))


def run_together(
    specs: Sequence[RunSpec],
    *,
    root: str | None = None,
    device: str = "cpu",
    deterministic: bool = False,
    graph: Graph | None = None,
) -> list[Result]:
    """Compute specs of one form as one batched computation, see `gread.training.population`.

    Each result equals that of `run` up to rounding; on a GPU the dropout masks differ. The total
    time is divided between the runs. The other arguments are those of `run`.

    Raises:
        CannotStack: The model cannot be trained in a population.
    """
    specs = list(map(complete, specs))
    data, fingerprint = _moved(graph, device) or prepared(specs[0], root, device)
    trained = any(spec.record for spec in specs)  # records are measured on trained models
    starts: dict[str, tuple[nn.Module, torch.Tensor]] = {}
    models, generators = [], []
    for spec in specs:
        # Splits share initial parameters. Building a model takes milliseconds: much in a search.
        start_of = spec.key if trained else json.dumps([spec.seed, dict(spec.hyper)])
        if start_of not in starts:
            starts[start_of] = built(spec, data), torch.get_rng_state()
        model, state = starts[start_of]
        models.append(model)
        generators.append(torch.Generator())
        generators[-1].set_state(state)
    configs, splits = [spec.train for spec in specs], [spec.split for spec in specs]
    start = time.perf_counter()
    with _determinism(deterministic):
        fits = fit_together(
            models, data, configs, splits=splits, generators=generators, restore=trained
        )
    about = _about(start, device, fingerprint)
    about["seconds"] = round(about["seconds"] / len(specs), 3)
    results = []
    for spec, found, model in zip(specs, fits, models, strict=True):
        records = _recorded(spec, found, model.to(device) if spec.record else model, data)
        results.append(_result(spec, found, records, **about))
    return results


def form(spec: RunSpec) -> str:
    """Settings that specs must share to form a population."""
    population = MODELS[spec.model].population
    if population is None:
        return spec.key
    own = population.own(spec.hyper)
    shared = {name: value for name, value in spec.hyper.items() if name not in own}
    train = spec.train.parts, spec.train.loss, spec.train.metric
    about = [spec.dataset, dict(spec.options), spec.model, shared, train]
    return json.dumps(about, sort_keys=True)


def built(spec: RunSpec, data: Data) -> nn.Module:
    """Build the model with its initial parameters and reset the random number generators."""
    torch.manual_seed(spec.seed)
    hyper = _hyper(spec)
    return MODELS[spec.model].make(
        data.num_features,
        hyper.pop("hidden_channels"),
        LOSSES[spec.train.loss].outputs(int(data.y.max()) + 1),
        num_nodes=data.num_nodes,
        **hyper,
    )


def _hyper(spec: RunSpec) -> dict[str, Any]:
    """All hyperparameters of a completed spec, including omitted ones."""
    return {**MODELS[spec.model].added, **spec.hyper}


def check_splits(specs: Iterable[RunSpec], root: str | None = None) -> None:
    """Require the split of every completed spec, before any of them is computed."""
    for spec in specs:
        data, _ = prepared(spec, root, "cpu")
        masks_of(data, spec.split, spec.train)


def division(spec: RunSpec, *, root: str | None = None, device: str = "cpu") -> Division | None:
    """Number of parts for the graph to fit into memory; None if it cannot be partitioned."""
    if not MODELS[spec.model].divisible(spec.hyper):
        return None
    spec = complete(spec)
    data, _ = prepared(spec, root, "cpu")
    return parts_that_fit(built(spec, data).to(device), data)


def _recorded(
    spec: RunSpec, found: Fit | ArithmeticError, model: nn.Module, data: Data
) -> dict[str, Any]:
    if isinstance(found, ArithmeticError):
        return {}
    with torch.no_grad():
        return {name: RECORDS[name](model.eval(), data) for name in spec.record}


def _result(
    spec: RunSpec, found: Fit | ArithmeticError, records: dict[str, Any], **about: Any
) -> Result:
    if isinstance(found, ArithmeticError):
        return Result(spec, "failed", str(found), **about)
    best = found.best
    return Result(
        spec,
        "diverged" if found.diverged else "ok",
        found.diverged,
        epoch=best.number,
        train=best.train,
        val=best.val,
        test=best.test,
        val_loss=best.val_loss,
        history=tuple((e.loss, e.train, e.val, e.test) for e in found.history),
        records=_finite(records),
        **about,
    )


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by None, because JSON and SQLite do not support them."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    """Context manager that restricts PyTorch to deterministic algorithms."""
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
    if not wanted or torch.are_deterministic_algorithms_enabled():
        yield  # a change would import a compiler: three seconds in each process
        return
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _moved(graph: Graph | None, device: str) -> Graph | None:
    """Copy of a graph on the device; ``to`` of PyG works in place."""
    return graph and (copy.copy(graph[0]).to(device), graph[1])


def prepared(spec: RunSpec, root: str | None, device: str) -> Graph:
    """Load the graph of a spec with the structure that its model needs, and its fingerprint."""
    options = json.dumps(dict(spec.options))
    return _prepared(spec.dataset, options, root, device, MODELS[spec.model].structure)


@lru_cache(maxsize=16)
def _prepared(
    dataset: str, options: str, root: str | None, device: str, structure: str | None
) -> Graph:
    """Load and cache a graph, because consecutive runs use the same one."""
    data = load(dataset, root=root, **json.loads(options))
    if data.x is None or data.y is None:
        raise InputError(f"a dataset to train on must have features and classes, got {dataset}")
    fingerprint = fingerprint_of(data)
    if structure is not None:
        origin = Origin(dataset, data_root(root), fingerprint)
        data = add_structure(data, structure, origin).data
    return data.to(device), fingerprint


def with_structure(spec: RunSpec, root: str | None = None) -> Prepared:
    """Load the graph of a spec with its structure, and return the cost of the structure."""
    structure = MODELS[spec.model].structure
    assert structure is not None
    data = load(spec.dataset, root=root, **spec.options)
    origin = Origin(spec.dataset, data_root(root), fingerprint_of(data))
    return add_structure(data, structure, origin)


def fingerprint_of(data: Data) -> str:
    """Short digest of the tensors of a graph."""
    digest = hashlib.sha256()
    for name in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        tensor = data[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.numpy().reshape(-1).data)
    return digest.hexdigest()[:20]


def _about(start: float, device: str, fingerprint: str) -> dict[str, Any]:
    """Provenance fields of a result."""
    cuda = device.startswith("cuda")
    machine = torch.cuda.get_device_name(device) if cuda else platform.machine()
    return {
        "device": f"{device} {machine}",
        "fingerprint": fingerprint,
        "seconds": round(time.perf_counter() - start, 3),
        "finished": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "versions": versions(),
    }
