"""From a spec to a result: load, build, fit, report."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from gread.base.checks import check_count, check_fraction, check_not_negative
from gread.base.errors import InputError
from gread.base.memory import TRAINING, enough_memory
from gread.base.registry import Registry
from gread.base.versions import versions
from gread.data.files import data_root
from gread.data.load import load
from gread.distributed.exchange import rank
from gread.graph.measures import dirichlet_energy, effective_rank
from gread.graph.structure.catalog import Origin, Prepared, add_structure
from gread.models.catalog import MODELS
from gread.runs.sharded import Job, blocks_of, compute, cost
from gread.runs.spec import RunSpec
from gread.training.config import TrainConfig
from gread.training.fit import Epoch, Fit, fit
from gread.training.memory import Division, parts_that_fit
from gread.training.population import fit_together

STATUSES = ("ok", "diverged", "failed")


@dataclass(frozen=True)
class Result:
    """What a run gave, with what produced it.

    Attributes:
        spec: The run.
        status: ``"ok"``; ``"diverged"``, where the numbers are those of the best epoch before; or
            ``"failed"``, where there are none.
        message: What went wrong, if anything did.
        epoch: The epoch chosen by validation accuracy.
        train: Accuracies at that epoch, 0 to 1.
        val: Likewise.
        test: Likewise.
        val_loss: Mean cross entropy on the validation nodes at that epoch.
        seconds: How long training took.
        device: Where it ran.
        fingerprint: Of the data.
        versions: Of what computed it.
        finished: When, in UTC.
        history: Loss and accuracies of every epoch; empty where they were left out.
        records: What the spec asked to record.
    """

    spec: RunSpec
    status: str
    message: str = ""
    epoch: int | None = None
    train: float | None = None
    val: float | None = None
    test: float | None = None
    val_loss: float | None = None
    seconds: float = 0.0
    device: str = "cpu"
    fingerprint: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    finished: str = ""
    history: tuple[tuple[float, float, float, float], ...] = ()
    records: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line of JSON."""
        values = asdict(self) | {"spec": json.loads(self.spec.to_json())}
        if self.val_loss is None:  # as in results from before it was kept
            del values["val_loss"]
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Result:
        """The result that `to_json` wrote.

        Raises:
            InputError: It is none, whatever it is instead.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            values["spec"] = RunSpec.from_json(json.dumps(values["spec"]))
            values["history"] = tuple(tuple(map(float, epoch)) for epoch in values["history"])
            found = Result(**values)
            found.check()
        except InputError:
            raise
        except Exception as error:  # a stranger's text may be wrong in any way
            raise InputError(f"a result must be as gread writes it, got {error!r:.200}") from error
        return found

    def check(self) -> None:
        """Requires values of their types, and accuracies that can be."""
        if self.status not in STATUSES:
            raise InputError(f"status must be {', '.join(STATUSES)}, got {self.status!r:.80}")
        for name in ("train", "val", "test"):
            share = getattr(self, name)
            if share is not None:
                check_fraction(name, share)
        check_not_negative("seconds", self.seconds)
        if self.epoch is not None:
            check_count("epoch", self.epoch, minimum=0)
        types: dict[str, Any] = {"message": str, "device": str, "fingerprint": str, "finished": str}
        types |= {"versions": dict, "records": dict, "val_loss": float | int | None}
        for name, of in types.items():
            if not isinstance(getattr(self, name), of):
                raise InputError(f"{name} must be {of}, got {getattr(self, name)!r:.80}")
        if any(len(epoch) != 4 for epoch in self.history):
            raise InputError("history must have four numbers an epoch")

    def without_history(self) -> Result:
        """The same, small enough to commit."""
        return replace(self, history=())


Graph: TypeAlias = tuple[Data, str]
"""A graph with what a model asks for, and its fingerprint."""

RECORDS: Registry[Callable[[Any, Data], Any]] = Registry("record")


@RECORDS.register("energy")
def energy(model: Any, data: Data) -> list[float]:
    """Dirichlet energy of H(t) at eleven times from 0 to T, of a model in continuous time."""
    times = np.linspace(0, model.time, 11).tolist()
    states = model.evolve(data.x, data.edge_index, data.edge_weight, save_at=times).saved
    return [_energy(h, data) for h in states]


@RECORDS.register("evaluations")
def evaluations(model: Any, data: Data) -> int:
    """Evaluations of the right-hand side in a forward pass."""
    return int(model.evolve(data.x, data.edge_index, data.edge_weight).evaluations)


@RECORDS.register("coefficients")
def coefficients(model: Any, data: Data) -> dict[str, list[float]]:
    """α and β as they were learned."""
    values = {"alpha": model.layer.alpha(), "beta": model.layer.beta()}
    return {name: torch.as_tensor(value).flatten().tolist() for name, value in values.items()}


@RECORDS.register("layer_energy")
def layer_energy(model: Any, data: Data) -> list[float]:
    """Dirichlet energy behind every layer, of a model with ``hidden_states``.

    In continuous time a layer is a step of the solver.
    """
    states = model.hidden_states(data.x, data.edge_index, data.edge_weight)
    return [_energy(h, data) for h in states]


def _energy(h: torch.Tensor, data: Data) -> float:
    """Of a state whose squares may be beyond float32: those are taken of a multiple of it."""
    scale = 2.0**100 if h.abs().max() > 2.0**50 else 1.0
    return scale**2 * dirichlet_energy(h / scale, data.edge_index).item()


@RECORDS.register("layer_rank")
def layer_rank(model: Any, data: Data) -> list[float]:
    """Effective rank of the states behind every layer."""
    states = model.hidden_states(data.x, data.edge_index, data.edge_weight)
    return [effective_rank(h) for h in states]


@RECORDS.register("map")
def final_map(model: Any, data: Data) -> dict[str, Any]:
    """The nodes in the plane by t-SNE of H(T), with their classes."""
    return _maps(model, data, [model.time])


@RECORDS.register("journey")
def journey(model: Any, data: Data) -> dict[str, Any]:
    """The nodes in the plane on the way to T, each map from where the one before ended.

    At t = 0, 1 and T, which the paper shows, and at eighths of the way.
    """
    eighths = {eighth * model.time / 8 for eighth in range(8)}
    return _maps(model, data, sorted({*eighths, min(1.0, model.time), model.time}))


MAPPED = 1000
"""Nodes on a map, at most: t-SNE takes seconds for so many, and a picture shows no more."""


def _maps(model: Any, data: Data, times: Sequence[float]) -> dict[str, Any]:
    from sklearn.manifold import TSNE

    states = model.evolve(data.x, data.edge_index, data.edge_weight, save_at=times).saved
    nodes = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[:MAPPED]
    place: Any = "pca"
    maps = []
    for h in states:
        kept = h.cpu().double().numpy()[nodes.numpy()]
        perplexity = min(30.0, (len(kept) - 1) / 3)
        place = TSNE(init=place, perplexity=perplexity, random_state=0).fit_transform(kept)
        maps.append(np.asarray(place, dtype=float).round(2).tolist())
    classes = data.y.cpu()[nodes].tolist()
    return {"times": list(times), "classes": classes, "maps": maps}


TIMED = 20
"""Epochs that are timed, after as many that are not."""


@RECORDS.register("epoch_seconds")
def epoch_seconds(model: Any, data: Data) -> list[float]:
    """Seconds of each of some epochs of training, evaluation included, of a copy of the model."""
    with torch.enable_grad():
        # At such a rate nothing diverges meanwhile.
        found = fit(copy.deepcopy(model), data, TrainConfig(epochs=2 * TIMED, lr=1e-6))
    return [round(seconds, 7) for seconds in found.seconds[-TIMED:]]


ALONE = ("epoch_seconds",)
"""Records that measure the machine: `gread.runs.launch` runs such a spec with nothing beside it."""


def records_of(model: str) -> tuple[str, ...]:
    """What is worth recording of every run of a model.

    Example:
        >>> records_of("gcn")
        ()
    """
    return MODELS[model].records


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
    """Computes ``spec``. On a CPU the same spec gives the same numbers, bit by bit.

    Args:
        spec: What to compute.
        root: The data root.
        device: Where to compute it.
        deterministic: Whether a GPU must give the same numbers every time too, which is slower.
        on_epoch: Called after every epoch with the epoch, the model and the data; not where the
            graph is spread over processes.
        imports: Modules that those processes import first.
        graph: That of the spec as `prepared` gives it, where it need not be loaded.
    """
    if spec.train.processes > 1:
        return _run_spread(spec, root, device, imports)
    # Parts of a graph go to the device in turn.
    place = device if spec.train.parts == 1 else "cpu"
    data, fingerprint = _moved(graph, place) or prepared(spec, root, place)
    model = built(spec, data).to(device)
    told = None if on_epoch is None else lambda epoch: on_epoch(epoch, model, data)
    start = time.perf_counter()
    found: Fit | ArithmeticError
    try:
        with _determinism(deterministic), enough_memory(TRAINING):
            found = fit(model, data, spec.train, split=spec.split, on_epoch=told)
    except ArithmeticError as error:
        found = error
    about = {"device": _describe(device), "fingerprint": fingerprint, **_now(start)}
    return _result(spec, found, _recorded(spec, found, model, data), **about)


def _run_spread(spec: RunSpec, root: str | None, device: str, imports: Sequence[str]) -> Result:
    """Computes ``spec`` over processes; where these are joined already, each calls it."""
    place = data_root(root)
    folder, fingerprint = blocks_of(
        lambda: prepared(spec, root, "cpu"), spec.train.processes, place
    )
    alone = replace(spec, train=replace(spec.train, processes=1))  # however many there are
    job = Job(
        folder,
        spec.model,
        spec.hyper,
        spec.train,
        spec.split,
        spec.seed,
        place / "checkpoints" / f"{alone.key}.pt",
        imports,
    )
    start = time.perf_counter()
    found: Fit | ArithmeticError
    records: dict[str, Any] = {}
    try:
        each = compute(job, device)
        found, records = each[0].fit, {"processes": cost(each)}
    except ArithmeticError as error:
        found = error
    if rank() == 0:
        job.checkpoint.unlink(missing_ok=True)
    about = {"device": _describe(device), "fingerprint": fingerprint, **_now(start)}
    return _result(spec, found, records, **about)


def run_together(
    specs: Sequence[RunSpec],
    *,
    root: str | None = None,
    device: str = "cpu",
    deterministic: bool = False,
    graph: Graph | None = None,
) -> list[Result]:
    """Computes specs of one form as one batched computation, see `gread.training.population`.

    Each gives what `run` gives, up to rounding; on a GPU its dropout draws other numbers. Of the
    time that all of them took, each is given its part.

    Args:
        specs: With the same `form`.
        root: The data root.
        device: Where to compute.
        deterministic: As in `run`.
        graph: As in `run`.

    Raises:
        CannotStack: This form of model cannot be trained so.
    """
    data, fingerprint = _moved(graph, device) or prepared(specs[0], root, device)
    models, generators = [], []
    for spec in specs:
        models.append(built(spec, data))
        generators.append(torch.Generator())
        generators[-1].set_state(torch.get_rng_state())
    start = time.perf_counter()
    with _determinism(deterministic):
        fits = fit_together(
            models,
            data,
            [spec.train for spec in specs],
            splits=[spec.split for spec in specs],
            generators=generators,
        )
    about = {"device": _describe(device), "fingerprint": fingerprint, **_now(start)}
    about["seconds"] = round(about["seconds"] / len(specs), 3)
    return [
        _result(
            spec,
            found,
            _recorded(spec, found, model.to(device) if spec.record else model, data),
            **about,
        )
        for spec, found, model in zip(specs, fits, models, strict=True)
    ]


def form(spec: RunSpec) -> str:
    """What specs must share to be computed together."""
    population = MODELS[spec.model].population
    if population is None:
        return spec.key
    own = population.own(spec.hyper)
    shared = {name: value for name, value in spec.hyper.items() if name not in own}
    about = [spec.dataset, dict(spec.options), spec.model, shared, spec.train.parts]
    return json.dumps(about, sort_keys=True)


def built(spec: RunSpec, data: Data) -> nn.Module:
    """The model with its first parameters, and the random numbers at their beginning."""
    torch.manual_seed(spec.seed)
    hyper = dict(spec.hyper)
    classes = int(data.y.max()) + 1
    return MODELS[spec.model].make(
        data.num_features,
        hyper.pop("hidden_channels"),
        classes,
        num_nodes=data.num_nodes,
        **hyper,
    )


def division(spec: RunSpec, *, root: str | None = None, device: str = "cpu") -> Division | None:
    """Into how many parts the graph of a spec must go to fit; None where it cannot be cut."""
    if not MODELS[spec.model].divisible:
        return None
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
    return Result(
        spec,
        "diverged" if found.diverged else "ok",
        found.diverged,
        epoch=found.best.number,
        train=found.best.train,
        val=found.best.val,
        test=found.best.test,
        val_loss=found.best.val_loss,
        history=tuple((e.loss, e.train, e.val, e.test) for e in found.history),
        records=_finite(records),
        **about,
    )


def _finite(value: Any) -> Any:
    """The same with None for what is no number: JSON has no word for it, nor has SQLite."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    """Allows PyTorch nothing but algorithms that add in a fixed order, for a while."""
    before = torch.are_deterministic_algorithms_enabled()
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS promises nothing
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _moved(graph: Graph | None, device: str) -> Graph | None:
    """A graph on the device; PyG would move the one that was given."""
    return graph and (copy.copy(graph[0]).to(device), graph[1])


def prepared(spec: RunSpec, root: str | None, device: str) -> Graph:
    """The graph of a spec on the device, with what its model asks for, and its fingerprint."""
    options = json.dumps(dict(spec.options))
    return _prepared(spec.dataset, options, root, device, MODELS[spec.model].structure)


@lru_cache(maxsize=16)
def _prepared(
    dataset: str, options: str, root: str | None, device: str, structure: str | None
) -> Graph:
    """Kept, since runs on one graph come in rows."""
    data = load(dataset, root=root, **json.loads(options))
    fingerprint = fingerprint_of(data)
    if structure is not None:
        data = _structured(data, structure, dataset, root, fingerprint).data
    return data.to(device), fingerprint


def with_structure(spec: RunSpec, root: str | None = None) -> Prepared:
    """The graph of a spec whose model asks for structure, and what that costs."""
    structure = MODELS[spec.model].structure
    assert structure is not None
    data = load(spec.dataset, root=root, **spec.options)
    return _structured(data, structure, spec.dataset, root, fingerprint_of(data))


def _structured(
    data: Data, structure: str, dataset: str, root: str | None, fingerprint: str
) -> Prepared:
    return add_structure(data, structure, Origin(dataset, data_root(root), fingerprint))


def fingerprint_of(data: Data) -> str:
    """Of the tensors of a graph, short."""
    digest = hashlib.sha256()
    for name in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        tensor = data[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.numpy().reshape(-1).data)
    return digest.hexdigest()[:20]


def _now(start: float) -> dict[str, Any]:
    return {
        "seconds": round(time.perf_counter() - start, 3),
        "finished": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "versions": versions(),
    }


def _describe(device: str) -> str:
    if device.startswith("cuda"):
        return f"{device} {torch.cuda.get_device_name(device)}"
    return f"{device} {platform.machine()}"
