"""``gread train``."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.table import Table as RichTable

from gread.cli.console import bar, err, out, percent, print_json, resumable
from gread.cli.options import (
    STORE,
    Deterministic,
    Device,
    ExecutorName,
    Json,
    Settings,
    Store,
    imports_of,
    names_in,
    numbers,
    settings_of,
)

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
    dataset: Annotated[
        str, typer.Argument(help="A dataset: gread datasets lists them; or what gread shard wrote.")
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
        typer.Option(
            metavar="NAME", help=f"Log new runs to: {names_in('gread.runs.trackers:TRACKERS')}."
        ),
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
        print_json([dataclasses.asdict(result.without_history()) for result in results])
    elif results:
        _print_results(results, find_preset(model, dataset, preset).source)


def _print_cost(run: ShardedRun) -> None:
    err.print(run.cost, highlight=False, soft_wrap=True)
    err.print(f"parameters: {run.checkpoint}", highlight=False, soft_wrap=True)


def _row(run: ShardedRun) -> dict[str, object]:
    best = dataclasses.asdict(run.best)
    return {"split": run.split, "seed": run.seed, **best, "diverged": run.diverged}


def _print_structure(structure: str, prepared: Prepared) -> None:
    err.print(
        f"{structure}: {prepared.entries:,} numbers, computed once in {prepared.seconds:.1f} s",
        highlight=False,
    )


class _Runs:
    """Shows on a bar how many runs are done, and now and then how one stands."""

    def __init__(self, progress: Progress):
        self.progress, self.next = progress, 0.0

    def start(self, missing: Sequence[RunSpec]) -> None:
        self.task = self.progress.add_task("", total=len(missing))
        self.progress.update(self.task)

    def count(self, result: Result) -> None:
        if result.spec.train.processes > 1:
            err.print(result.records.get("processes", ""), highlight=False, soft_wrap=True)
        else:
            self.progress.update(self.task, advance=1)

    def tell(self, spec: RunSpec, epoch: Epoch, model: nn.Module, data: Data) -> None:
        """The last epoch with what the spec records; looking costs a forward pass."""
        import torch

        from gread.runs.records import RECORDS

        if time.monotonic() < self.next:
            return
        start = time.monotonic()
        text = f"split {spec.split} epoch {epoch.number} loss {epoch.loss:.3f}"
        text += f" val {epoch.val:.1%}"
        with torch.no_grad():
            seen = {name: RECORDS[name](model.eval(), data) for name in spec.record}
        if "energy" in seen:
            text += f" evaluations {seen['evaluations']} energy {seen['energy'][-1]:.2g}"
        if "coefficients" in seen:
            alpha, beta = (fmean(seen["coefficients"][name]) for name in ("alpha", "beta"))
            text += f" α {alpha:.2f} β {beta:+.2f}"
        self.progress.update(self.task, description=text)
        now = time.monotonic()
        self.next = now + max(0.5, 20 * (now - start))  # on a large graph it is not for free


def _print_results(results: Sequence[Result], source: str) -> None:
    """Each run, then the mean beside what the paper prints and its code reaches."""
    from gread.experiments.accuracy import CODE, PAPER
    from gread.models.catalog import MODELS

    spec = results[0].spec
    title = MODELS[spec.model].title
    table = RichTable("split", "seed", "epoch", "train", "val", "test", "status")
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
