"""The command that trains, and what others that compute share with it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated, Any

import torch
import typer
from rich.progress import Progress, TaskID
from rich.table import Table
from torch import nn
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.cli.console import Json, bar, err, out, print_json
from gread.cli.runs import STORE, Store, percent
from gread.distributed.exchange import rank
from gread.distributed.shards import read_sizes
from gread.experiments.accuracy import CODE, PAPER
from gread.models.catalog import MODELS
from gread.runs.complete import complete
from gread.runs.executors.job import find_executor
from gread.runs.launch import launch
from gread.runs.presets import find_preset, split_settings
from gread.runs.records import RECORDS, records_of
from gread.runs.result import Result
from gread.runs.run import division, run, with_structure
from gread.runs.sharded import ShardedTraining, agreed, compute, cost, joined_if_started, started_as
from gread.runs.spec import HIDDEN_CHANNELS, RunSpec
from gread.runs.store import ResultStore
from gread.runs.trackers import TRACKERS, OnEpoch, tracked
from gread.training.config import TrainConfig
from gread.training.loop import Epoch

Device = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:1, ...; auto takes a GPU if there is one.")
]
ExecutorName = Annotated[
    str, typer.Option(metavar="NAME", help="local, or ray[=ADDRESS]: as tasks of a Ray cluster.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")
]
Deterministic = Annotated[
    bool,
    typer.Option("--deterministic", help="On a GPU too, the same bytes every time; slower."),
]


def train(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(help="A dataset: gread datasets lists them; or what gread shard wrote."),
    ],
    model: Annotated[str, typer.Option(help="A model: gread list models.")] = "gread-bs",
    splits: Annotated[str, typer.Option(help="For instance 0-9 or 0,3,5.")] = "0-9",
    seeds: Annotated[str, typer.Option(help="Likewise.")] = "0",
    settings: Settings = None,
    preset: Annotated[
        str | None,
        typer.Option(help="tuned, published, paper or a TOML file; by default the first there is."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Log new runs to: {', '.join(TRACKERS)}."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Spread the graph over so many; by default as torchrun started them."),
    ] = None,
    executor: ExecutorName = "local",
    device: Device = "auto",
    deterministic: Deterministic = False,
    store: Store = STORE,
    as_json: Json = False,
) -> None:
    """Train a model on a dataset, with its preset where there is one."""
    started = started_as()
    if processes is not None and started is not None and processes != started:
        raise InputError(f"processes must be the {started} that were started, got {processes}")
    found = find_preset(model, dataset, preset)
    trackers = track or []
    for name in trackers:
        TRACKERS[name]  # a misspelt name fails even where nothing is left to run
    hyper, changed = split_settings(model, dict(map(setting, settings or [])))
    training: dict[str, Any] = dataclasses.asdict(found.train) | changed
    if epochs is not None:
        training["epochs"] = epochs
    if processes is not None or started is not None:
        training["processes"] = started if processes is None else processes
    config = TrainConfig(**training)
    where = find_executor(executor)
    if where.remote and (trackers or config.processes > 1 or Path(dataset, "graph.json").exists()):
        raise InputError(
            "--executor must be local to track runs or to spread a graph over processes, "
            f"got {executor!r}"
        )
    place = where.choose_device(device)
    imports = context.find_root().params["imports"] or ()
    blocks = Path(dataset, "graph.json").exists()
    for option, given in (("--track", trackers), ("--deterministic", deterministic)):
        if given and (blocks or config.processes > 1):
            raise InputError(f"{option} is for a graph that one process holds, got it with others")
    if blocks:
        known = read_sizes(dataset).splits
        chosen = [split for split in numbers("splits", splits) if split < known]
        jobs = [(split, seed) for seed in numbers("seeds", seeds) for split in chosen]
        if not jobs:
            raise InputError(f"splits must be below {known}, the number of splits, got {splits}")
        with joined_if_started(place):
            train_blocks(dataset, model, {**found.hyper, **hyper}, config, jobs, place, imports)
        return
    specs = [
        complete(
            RunSpec(
                dataset=dataset,
                model=model,
                split=split,
                seed=seed,
                hyper={**found.hyper, **hyper},
                train=config,
                options=found.options,
                # Those are of whole graphs.
                record=records_of(model) if config.parts == config.processes == 1 else (),
            )
        )
        for seed in numbers("seeds", seeds)
        for split in numbers("splits", splits)
    ]
    if config.processes > 1:
        with resumable(), joined_if_started(place):
            results = _run_spread(specs, store, place, imports)
        if results:
            _show(results, found.source, as_json)
        return
    kept = ResultStore(store)
    if "parts" not in changed and kept.missing(specs) and not where.remote:
        specs = _that_fit(specs, place)
    missing = kept.missing(specs)
    structure = MODELS[model].structure
    if missing and structure is not None:
        prepared = with_structure(specs[0])
        err.print(
            f"{structure}: {prepared.entries:,} numbers, computed once in {prepared.seconds:.1f} s",
            highlight=False,
        )
    with resumable(), bar() as progress:
        task = progress.add_task("", total=len(missing))
        # Many at once, none of which can be watched.
        if where.remote or (place.startswith("cuda") and not trackers):
            launch(
                missing,
                kept,
                executor=where,
                devices=[place],
                deterministic=deterministic,
                imports=imports,
                on_result=lambda _: progress.advance(task),
            )
        for spec in kept.missing(missing):
            told = _Progress(partial(_tell, progress, task), spec)
            with tracked(trackers, spec, store) as log:
                on_epoch = _both(told, log)
                kept.put(run(spec, device=place, deterministic=deterministic, on_epoch=on_epoch))
            progress.advance(task)
    _show(kept_of(specs, kept), found.source, as_json)


def kept_of(specs: list[RunSpec], kept: ResultStore) -> list[Result]:
    """The results that are stored."""
    return [result for spec in specs if (result := kept.get(spec)) is not None]


def _run_spread(
    specs: list[RunSpec], store: Path, device: str, imports: Sequence[str]
) -> list[Result]:
    """Each run over all processes; what is stored then, on process 0, which alone has a store."""
    kept = ResultStore(store) if rank() == 0 else None
    missing = [] if kept is None else kept.missing(specs)
    for number in agreed([specs.index(spec) for spec in missing]):
        result = run(specs[number], device=device, imports=imports)
        if kept is not None:
            kept.put(result)
            err.print(result.records.get("processes", ""), highlight=False, soft_wrap=True)
    return kept_of(specs, kept) if kept is not None else []


def train_blocks(
    folder: str,
    model: str,
    hyper: Mapping[str, Any],
    config: TrainConfig,
    jobs: Sequence[tuple[int, int]],
    device: str,
    imports: Sequence[str],
) -> None:
    """Trains on what gread shard wrote, on split after split; nothing is stored but checkpoints."""
    sizes = read_sizes(folder)
    known = {"hidden_channels": HIDDEN_CHANNELS} | MODELS[model].hyperparameters
    told = []
    for split, seed in jobs:
        about = json.dumps([model, dict(hyper), dataclasses.asdict(config), split, seed])
        key = hashlib.sha256(f"{sizes.fingerprint} {about}".encode()).hexdigest()[:12]
        checkpoint = Path(folder, f"checkpoint-{key}.pt")
        training = ShardedTraining(
            Path(folder), model, known | dict(hyper), config, split, seed, checkpoint, imports
        )
        found = compute(training, device)
        best, diverged = found[0].fit.best, found[0].fit.diverged
        told.append(
            {"split": split, "seed": seed, **dataclasses.asdict(best), "diverged": diverged}
        )
        if rank() == 0:
            err.print(cost(found), highlight=False, soft_wrap=True)
            err.print(f"parameters: {checkpoint}", highlight=False, soft_wrap=True)
    if rank() == 0:
        print_json(told)


def _show(results: list[Result], source: str, as_json: bool) -> None:
    if as_json:
        print_json([dataclasses.asdict(result.without_history()) for result in results])
        return
    _report(results, source)


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C is a way to stop, not an error; what others print meanwhile is no result."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except BaseException as error:
        if not _stopped(error):
            raise
        err.print("gread: stopped; what is done is stored, and the same command goes on from there")
        raise typer.Exit(130) from None


def _stopped(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: Optuna, stopped while it lets go of a lock, fails at that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _that_fit(specs: list[RunSpec], device: str) -> list[RunSpec]:
    """The same runs by parts of their graph, where the whole does not fit into memory."""
    found = division(specs[0], device=device)
    if found is None or found.parts == 1:
        return specs
    err.print(f"gread: {found}", style="yellow", highlight=False, soft_wrap=True)
    config = dataclasses.replace(specs[0].train, parts=found.parts, halo=found.halo)
    return [dataclasses.replace(spec, train=config, record=()) for spec in specs]


def _tell(progress: Progress, task: TaskID, text: str) -> None:
    progress.update(task, description=text)


def _both(first: OnEpoch, second: OnEpoch) -> OnEpoch:
    def on_epoch(epoch: Epoch, model: nn.Module, data: Data) -> None:
        first(epoch, model, data)
        second(epoch, model, data)

    return on_epoch


class _Progress:
    """Tells the bar how a run stands, now and then: looking costs a forward pass."""

    def __init__(self, tell: Callable[[str], None], spec: RunSpec):
        self.tell, self.spec, self.next = tell, spec, 0.0

    def __call__(self, epoch: Epoch, model: nn.Module, data: Data) -> None:
        if time.monotonic() < self.next:
            return
        start = time.monotonic()
        text = f"split {self.spec.split} epoch {epoch.number} loss {epoch.loss:.3f}"
        text += f" val {epoch.val:.1%}"
        with torch.no_grad():
            seen = {name: RECORDS[name](model.eval(), data) for name in self.spec.record}
        if "energy" in seen:
            text += f" evaluations {seen['evaluations']} energy {seen['energy'][-1]:.2g}"
        if "coefficients" in seen:
            alpha, beta = (fmean(seen["coefficients"][name]) for name in ("alpha", "beta"))
            text += f" α {alpha:.2f} β {beta:+.2f}"
        self.tell(text)
        now = time.monotonic()
        self.next = now + max(0.5, 20 * (now - start))  # on a large graph it is not for free


def _report(results: list[Result], source: str) -> None:
    """Each run, then the mean beside what the paper prints and its code reaches."""
    spec = results[0].spec
    title = MODELS[spec.model].title
    table = Table("split", "seed", "epoch", "train", "val", "test", "status")
    for r in results:
        shares = (percent(r.train), percent(r.val), percent(r.test))
        table.add_row(str(r.spec.split), str(r.spec.seed), str(r.epoch), *shares, r.status)
    out.print(f"{title} on {spec.dataset}, preset: {source}", highlight=False)
    out.print(table)
    tests = [100 * result.test for result in results if result.test is not None]
    if tests:
        out.print(f"test {fmean(tests):.2f} ± {pstdev(tests):.2f}", highlight=False)
    paper = PAPER.get(title, {}).get(spec.dataset)
    if paper:
        out.print(f"the paper prints {paper[0]:.2f} ± {paper[1]:.2f}", highlight=False)
    code = CODE.get(title, {}).get(spec.dataset)
    if code:
        out.print(f"its published code reaches {code:.2f}", highlight=False)


def setting(text: str) -> tuple[str, Any]:
    """``key=value``; the value as JSON where it is some, else as it stands."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"--set must be KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or numbers and nesting without end
        return key, value


MOST_NUMBERS = 100_000
"""Of splits or of seeds."""


def numbers(name: str, text: str) -> list[int]:
    """``0-3,7`` is 0, 1, 2, 3, 7."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = first.strip(), last.strip() if dash else first.strip()
        if not all(end.isdecimal() and len(end) < 10 for end in ends):
            raise InputError(f"--{name} must be numbers like 0-9 or 0,3,5, got {text!r:.80}")
        part_of = range(int(ends[0]), int(ends[1]) + 1)
        if len(found) + len(part_of) > MOST_NUMBERS:
            raise InputError(f"--{name} must be {MOST_NUMBERS:,} numbers at most, got {text!r:.80}")
        found += part_of
    return found
