"""``gread train``, and ``gread shard`` for training over several processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import typer
from rich.progress import Progress

from gread.cli.console import bar, err, note, out, print_json, print_table, resumable
from gread.cli.options import STORE, imports_of, numbers, settings_of

if TYPE_CHECKING:
    from torch import nn
    from torch_geometric.data import Data

    from gread.graph.structure.catalog import Prepared
    from gread.runs.result import Result
    from gread.runs.spec import RunSpec
    from gread.runs.train import ShardedRun
    from gread.training.loop import Epoch


def train(
    context: typer.Context,
    dataset: str,
    model: str = "gread-bs",
    splits: str = "0-9",
    seeds: str = "0",
    settings: list[str] | None = None,
    preset: str | None = None,
    epochs: int | None = None,
    track: list[str] | None = None,
    processes: int | None = None,
    executor: str = "local",
    device: str = "auto",
    deterministic: bool = False,
    store: Path = STORE,
    as_json: bool = False,
) -> None:
    """Train a model on a dataset, with its preset if there is one."""
    from gread.runs.executors.find import find_executor
    from gread.runs.presets import find_preset
    from gread.runs.train import check_options, is_sharded, train as train_runs, train_shards

    given = settings_of(settings) | ({} if epochs is None else {"epochs": epochs})
    chosen = numbers("splits", splits)
    every = numbers("seeds", seeds)
    if is_sharded(dataset):
        remote = executor if find_executor(executor).remote else ""
        check_options(remote, track or [], deterministic, sharded=True)
        found = train_shards(
            dataset,
            model,
            splits=chosen,
            seeds=every,
            settings=given,
            preset=preset,
            processes=processes,
            device=device,
            imports=imports_of(context),
            on_run=_print_cost,
        )
        if found:
            print_json([_row(run) for run in found])
        return
    with resumable(), bar() as progress:
        shown = _Runs(progress)
        results = train_runs(
            dataset,
            model,
            splits=chosen,
            seeds=every,
            settings=given,
            preset=preset,
            trackers=track or [],
            processes=processes,
            executor=executor,
            device=device,
            deterministic=deterministic,
            store=store,
            imports=imports_of(context),
            on_structure=_print_structure,
            on_start=shown.start,
            on_epoch=shown.tell,
            on_result=shown.count,
        )
    if results and as_json:
        print_json([result.without_history() for result in results])
    elif results:
        _print_results(results, find_preset(model, dataset, preset).source)


def shard(
    nodes: Path,
    edges: Path,
    label: str,
    blocks: int,
    folder: Path,
    partition: str = "cuthill-mckee",
    split: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    as_json: bool = False,
) -> None:
    """Divide a graph into shards on disk, one for each process of a training."""
    from gread.distributed.parquet import shard_parquet

    sizes = shard_parquet(
        nodes,
        edges,
        folder,
        label=label,
        shards=blocks,
        partition=partition,
        split=split,
        weight=weight,
        directed=directed,
    )
    if as_json:
        print_json(sizes)
        return
    share = max(sizes.halos) / (sizes.nodes / sizes.shards)
    out.print(
        f"{sizes.nodes:,} nodes and {sizes.edges:,} edges in {sizes.shards} shards; the largest "
        f"halo has {max(sizes.halos):,} nodes, {share:.1%} of a shard\n"
        f"gread train {folder} --processes {sizes.shards}",
        soft_wrap=True,
    )


def _print_cost(run: ShardedRun) -> None:
    note(f"{run.cost}\nparameters: {run.checkpoint}")


def _row(run: ShardedRun) -> dict[str, object]:
    return {"split": run.split, "seed": run.seed, **asdict(run.best), "diverged": run.diverged}


def _print_structure(structure: str, prepared: Prepared) -> None:
    took = f"computed once in {prepared.seconds:.1f} s"
    err.print(f"{structure}: {prepared.entries:,} numbers, {took}")


class _Runs:
    """Progress bar of runs that periodically shows the state of the current run."""

    def __init__(self, progress: Progress):
        self.progress, self.next = progress, 0.0

    def start(self, missing: Sequence[RunSpec]) -> None:
        self.task = self.progress.add_task("", total=len(missing))
        self.progress.update(self.task)

    def count(self, result: Result) -> None:
        if result.spec.train.processes > 1:
            note(result.records.get("processes", ""))
        else:
            self.progress.update(self.task, advance=1)

    def tell(self, spec: RunSpec, epoch: Epoch, model: nn.Module, data: Data) -> None:
        """Show the last epoch and the records of the spec, which cost a forward pass."""
        import torch

        from gread.runs.records import RECORDS
        from gread.search.objective import objective_of

        if time.monotonic() < self.next:
            return
        start = time.monotonic()
        text = f"split {spec.split} epoch {epoch.number} loss {epoch.loss:.3f}"
        text += f" val {objective_of(vars(spec.train)).short(epoch.val)}"
        with torch.no_grad():
            seen = {name: RECORDS[name](model.eval(), data) for name in spec.record}
        if "energy" in seen:
            text += f" evaluations {seen['evaluations']} energy {seen['energy'][-1]:.2g}"
        if "coefficients" in seen:
            alpha, beta = (fmean(seen["coefficients"][name]) for name in ("alpha", "beta"))
            text += f" α {alpha:.2f} β {beta:+.2f}"
        self.progress.update(self.task, description=text)
        now = time.monotonic()
        self.next = now + max(0.5, 20 * (now - start))  # a forward pass on a large graph takes time


def _print_results(results: Sequence[Result], source: str) -> None:
    """Print each run, then the mean, the paper's value and that of its published code."""
    from gread.experiments.accuracy import CODE, PAPER
    from gread.models.catalog import MODELS
    from gread.runs.values import measured
    from gread.search.objective import objective_of

    spec = results[0].spec
    metric = objective_of(vars(spec.train))
    title = MODELS[spec.model].title
    out.print(f"{title} on {spec.dataset}, preset: {source}")
    rows = (
        (
            *(r.spec.split, r.spec.seed, r.epoch),
            *(measured(value, r.spec.train) for value in (r.train, r.val, r.test)),
            r.status,
        )
        for r in results
    )
    print_table(("split", "seed", "epoch", "train", "val", "test", "status"), rows)
    tests = [result.test for result in results if result.test is not None]
    if tests:
        out.print(f"test {metric.summary(tests)}")
    if metric.name != "accuracy":  # the paper has accuracies only
        return
    if paper := PAPER.get(title, {}).get(spec.dataset):
        out.print(f"paper: {paper[0]:.2f} ± {paper[1]:.2f}")
    if code := CODE.get(title, {}).get(spec.dataset):
        out.print(f"published code: {code:.2f}")
