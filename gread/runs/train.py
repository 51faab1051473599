"""Training with a preset, on splits of a dataset or on the shards of a graph."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.distributed.exchange import agreed, rank
from gread.distributed.shards import read_sizes
from gread.graph.structure.catalog import Prepared
from gread.models.catalog import MODELS
from gread.runs.complete import known_hyperparameters
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.presets import Preset, find_preset, split_options, split_settings
from gread.runs.result import Result
from gread.runs.run import check_splits, division, run, with_structure
from gread.runs.sharded import ShardedTraining, compute, cost, joined_if_started, started_as
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.runs.trackers import TRACKERS, tracked
from gread.training.config import TrainConfig
from gread.training.loop import Epoch

OnEpoch: TypeAlias = Callable[[RunSpec, Epoch, nn.Module, Data], None]


def train(
    dataset: str,
    model: str = "gread-bs",
    *,
    store: str | Path,
    splits: Sequence[int] = range(10),
    seeds: Sequence[int] = (0,),
    settings: Mapping[str, Value] | None = None,
    preset: str | None = None,
    trackers: Sequence[str] = (),
    processes: int | None = None,
    executor: str = "local",
    device: str = "auto",
    deterministic: bool = False,
    imports: Sequence[str] = (),
    on_structure: Callable[[str, Prepared], None] | None = None,
    on_start: Callable[[Sequence[RunSpec]], None] | None = None,
    on_epoch: OnEpoch | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Train a model on splits of a dataset, with its preset if there is one.

    Stored runs are not computed again. A graph that does not fit into memory is partitioned with a
    warning, unless ``settings`` has ``parts``.

    Args:
        dataset: A name of ``gread.DATASETS``.
        model: A name of ``gread.MODELS``.
        store: Folder of the results, see `ResultStore`.
        splits: Splits of the dataset.
        seeds: Seeds; every seed is trained on every split.
        settings: Hyperparameters of the model and fields of `gread.TrainConfig` that differ from
            the preset.
        preset: ``"tuned"``, ``"published"``, ``"paper"`` or a TOML file; by default the first of
            these with an entry, else the defaults of the model.
        trackers: Names of ``gread.runs.trackers.TRACKERS``; new runs are logged there.
        processes: Number of processes to shard the graph over; by default one, or those of
            torchrun.
        executor: Executor, as in `launch`.
        device: Device of a run; ``"auto"`` selects a GPU if there is one.
        deterministic: As in `gread.runs.run`.
        imports: Modules that every process imports first.
        on_structure: Function that is called with name and cost of the structure, if the model
            needs one.
        on_start: Function that is called with the specs to compute, if they are not sharded.
        on_epoch: Function that is called after every epoch of a run in this process.
        on_result: Function that is called with every new result.

    Returns:
        Results of all splits and seeds. Under torchrun, process 0 returns them and the other
        processes return none.

    Example:
        >>> import tempfile
        >>> from gread.runs import train
        >>> store = tempfile.mkdtemp()
        >>> found = train("csbm", "gcn", splits=[0, 1], settings={"epochs": 2}, store=store)
        >>> [(result.spec.split, result.status) for result in found]
        [(0, 'ok'), (1, 'ok')]
    """
    given = _given(dataset, model, settings, preset, processes)
    config = given.train
    for name in trackers:
        TRACKERS[name]  # an unknown name fails even if all runs are stored
    where = find_executor(executor)
    remote = executor if where.remote else ""
    check_options(remote, trackers, deterministic, sharded=config.processes > 1)
    place = where.choose_device(device)
    whole = config.parts == config.processes == 1  # required by records
    first = given.spec(dataset, model, MODELS[model].records if whole else ())
    specs = [replace(first, seed=seed, split=split) for seed in seeds for split in splits]
    if config.processes > 1:
        with joined_if_started(place):
            return _train_sharded(specs, store, place, imports, on_result)
    kept = ResultStore(store)
    if "parts" not in (settings or {}) and kept.missing(specs) and not where.remote:
        specs = _partitioned(specs, place)
    missing = kept.missing(specs)
    structure = MODELS[model].structure
    if missing and structure is not None:
        prepared = with_structure(specs[0])
        if on_structure is not None:
            on_structure(structure, prepared)
    check_splits(missing)
    if on_start is not None:
        on_start(missing)
    # Epochs of a population are not reported.
    if where.remote or (place.startswith("cuda") and not trackers):
        launch(
            missing,
            kept,
            executor=where,
            devices=[place],
            deterministic=deterministic,
            imports=imports,
            on_result=on_result,
        )
    for spec in kept.missing(missing):
        watch = None if on_epoch is None else partial(on_epoch, spec)
        with tracked(trackers, spec, Path(store), watch) as report:
            result = run(spec, device=place, deterministic=deterministic, on_epoch=report)
            kept.put(result)
        if on_result is not None:
            on_result(result)
    return _stored(specs, kept)


@dataclass(frozen=True)
class ShardedRun:
    """Result of a training on shards: the best epoch and the file of the parameters.

    Attributes:
        split: Split of the dataset.
        seed: Random seed.
        best: Epoch selected by validation.
        diverged: Reason why training ended early; otherwise empty.
        cost: Cost of the exchange between processes, as a sentence.
        checkpoint: File of the parameters.
    """

    split: int
    seed: int
    best: Epoch
    diverged: str
    cost: str
    checkpoint: Path


def train_shards(
    folder: str | Path,
    model: str = "gread-bs",
    *,
    splits: Sequence[int] = range(10),
    seeds: Sequence[int] = (0,),
    settings: Mapping[str, Value] | None = None,
    preset: str | None = None,
    processes: int | None = None,
    device: str = "auto",
    imports: Sequence[str] = (),
    on_run: Callable[[ShardedRun], None] | None = None,
) -> list[ShardedRun]:
    """Train on a graph that `gread.distributed.shard` wrote; only checkpoints are stored.

    The arguments are those of `train`, with these differences: ``folder`` has as many shards as
    there are processes, splits that the graph does not have are left out, a ``preset`` is a TOML
    file with settings under the name of the folder, and ``on_run`` is called after every training.

    Returns:
        One training for each seed and split. Under torchrun, process 0 returns them and the other
        processes return none.

    Example:
        >>> import tempfile
        >>> import gread
        >>> from gread.distributed import shard
        >>> from gread.runs import train_shards
        >>> folder = tempfile.mkdtemp() + "/shards"
        >>> _ = shard(gread.load("csbm"), folder, 1)
        >>> found = train_shards(folder, splits=[0], settings={"epochs": 2}, device="cpu")
        >>> found[0].split, found[0].checkpoint.exists()
        (0, True)
    """
    given = _given(str(folder), model, settings, preset, processes)
    config, place = given.train, find_executor("local").choose_device(device)
    sizes = read_sizes(folder)
    chosen = [(split, seed) for seed in seeds for split in splits if split < sizes.splits]
    if not chosen:
        numbers = ",".join(map(str, splits))
        raise InputError(
            f"splits must be below {sizes.splits}, the number of splits, got {numbers}"
        )
    hyper = {**known_hyperparameters(model), **given.hyper}
    spec = RunSpec(dataset=str(folder), model=model, hyper=hyper, train=config)
    runs = []
    with joined_if_started(place):
        for split, seed in chosen:
            about = json.dumps([model, given.hyper, asdict(config), split, seed])
            key = hashlib.sha256(f"{sizes.fingerprint} {about}".encode()).hexdigest()[:12]
            checkpoint = Path(folder, f"checkpoint-{key}.pt")
            own = replace(spec, split=split, seed=seed)
            found = compute(ShardedTraining(Path(folder), own, checkpoint, imports), place)
            if rank() == 0:
                best, diverged = found[0].fit.best, found[0].fit.diverged
                runs.append(ShardedRun(split, seed, best, diverged, cost(found), checkpoint))
                if on_run is not None:
                    on_run(runs[-1])
    return runs


def is_sharded(dataset: str) -> bool:
    """Whether a name is a folder of `gread.distributed.shard`."""
    return Path(dataset, "graph.json").exists()


def check_options(
    remote: str, trackers: Sequence[str], deterministic: bool, *, sharded: bool
) -> None:
    """Reject options of `train` that a remote executor or a sharded graph does not support.

    ``remote`` is the name of the executor if it is remote, else empty.
    """
    if remote and (trackers or sharded):
        raise InputError(
            f"executor must be local to track runs or to shard a graph, got {remote!r}"
        )
    for what, given in (("tracking", trackers), ("deterministic training", deterministic)):
        if given and sharded:
            raise InputError(f"{what} needs a graph that one process holds, got a sharded one")


def _given(
    dataset: str,
    model: str,
    settings: Mapping[str, Value] | None,
    preset: str | None,
    processes: int | None,
) -> Preset:
    """Combine the preset with the user's settings."""
    started = started_as()
    if processes is not None and started is not None and processes != started:
        raise InputError(f"processes must be the {started} that were started, got {processes}")
    found = find_preset(model, dataset, preset)
    own, options = split_options(dict(settings or {}))
    hyper, changed = split_settings(model, own)
    training: dict[str, Any] = asdict(found.train) | changed
    count = started if processes is None else processes
    if count is not None:
        training["processes"] = count
    return replace(
        found,
        hyper={**found.hyper, **hyper},
        train=TrainConfig(**training),
        options={**found.options, **options},
    )


def _train_sharded(
    specs: Sequence[RunSpec],
    store: str | Path,
    device: str,
    imports: Sequence[str],
    on_result: Callable[[Result], None] | None,
) -> list[Result]:
    """Train each run over all processes; only process 0 has a store."""
    kept = ResultStore(store) if rank() == 0 else None
    missing = [] if kept is None else kept.missing(specs)
    for number in agreed([specs.index(spec) for spec in missing]):
        result = run(specs[number], device=device, imports=imports)
        if kept is not None:
            kept.put(result)
            if on_result is not None:
                on_result(result)
    return [] if kept is None else _stored(specs, kept)


def _stored(specs: Sequence[RunSpec], kept: ResultStore) -> list[Result]:
    return [result for spec in specs if (result := kept.get(spec)) is not None]


def _partitioned(specs: list[RunSpec], device: str) -> list[RunSpec]:
    """Partition the graphs of runs that do not fit into memory."""
    found = division(specs[0], device=device)
    if found is None or found.parts == 1:
        return specs
    warnings.warn(str(found), stacklevel=3)
    config = replace(specs[0].train, parts=found.parts, halo=found.halo)
    return [replace(spec, train=config, record=()) for spec in specs]
