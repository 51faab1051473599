"""Commands that look at stored runs, and what others need to find them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.table import Table

from gread.base.errors import InputError
from gread.cli.console import Json, err, out, print_json
from gread.experiments.artefact import ARTEFACTS
from gread.models.catalog import MODELS
from gread.report.statistics import compare as compare_pairs
from gread.runs.archive import ENDING, RESULTS, known_results, write_results
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore

Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="Where results are stored.")]
STORE = Path("runs/store")

Runs: TypeAlias = dict[tuple[int, int], Result]
"""By split and seed."""

runs = typer.Typer(help="List what is stored, or export it.", invoke_without_command=True)


@runs.callback()
def list_runs(
    context: typer.Context,
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    store: Store = STORE,
    as_json: Json = False,
) -> None:
    """List what is stored, or export it."""
    if context.invoked_subcommand is not None:
        return
    chosen = [
        result
        for result in ResultStore(store)
        if dataset in (None, result.spec.dataset) and model in (None, result.spec.model)
    ]
    if as_json:
        print_json([dataclasses.asdict(result.without_history()) for result in chosen])
        return
    columns = ("key", "dataset", "model", "split", "seed", "status", "val", "test", "seconds")
    table = Table(*columns)
    for result in chosen:
        spec = result.spec
        table.add_row(
            spec.key[:8],
            spec.dataset,
            spec.model,
            str(spec.split),
            str(spec.seed),
            result.status,
            percent(result.val),
            percent(result.test),
            f"{result.seconds:.1f}",
        )
    out.print(table)


@runs.command()
def export(
    names: Annotated[
        list[str] | None, typer.Argument(help="What gread reproduce knows; by default all.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the files go.")
    ] = RESULTS,
    store: Store = STORE,
) -> None:
    """Write the runs behind an artefact as one packed file of JSON lines, without histories.

    A run is in one file, that of the first artefact that needs it.
    """
    known = known_results(store)
    for name in names or ARTEFACTS:
        keys = [spec.key for spec in ARTEFACTS[name].specs()]
        results = [known.pop(key) for key in keys if key in known]
        if results:
            path = folder / f"{name}{ENDING}"
            write_results(path, results)
            err.print(f"Wrote {len(results)} results to {path}", highlight=False, soft_wrap=True)


def compare(
    first: Annotated[str, typer.Argument(help="A model.")],
    second: Annotated[str, typer.Argument(help="Another model.")],
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
    store: Store = STORE,
    as_json: Json = False,
) -> None:
    """Compare two models on the datasets, splits and seeds that both are stored for.

    Of models with several settings on a dataset, those are compared that share the most runs.
    """
    for name in (first, second):
        MODELS[name]  # a misspelt name is not just one without results
    known = known_results(store).values()
    settings = {name: _settings(name, known) for name in (first, second)}
    rows = []
    for name in settings[first]:
        if name in settings[second] and dataset in (None, name):
            pairs = product(settings[first][name], settings[second][name])
            one, two = max(pairs, key=lambda pair: _worth(*pair))
            keys = sorted(one.keys() & two.keys())
            if keys:
                tests = ([100 * (runs[key].test or 0.0) for key in keys] for runs in (one, two))
                rows.append({"dataset": name} | dataclasses.asdict(compare_pairs(*tests)))
    if not rows:
        raise InputError(f"{first} and {second} must have runs in common, got none in {store}")
    if as_json:
        print_json(rows)
        return
    table = Table("dataset", f"{first} − {second}", "Wilcoxon p", "t-test p", "pairs")
    for row in rows:
        numbers = f"{row['difference']:+.2f}", f"{row['wilcoxon']:.3g}", f"{row['t_test']:.3g}"
        table.add_row(str(row["dataset"]), *numbers, str(row["pairs"]))
    out.print(table)


def _settings(model: str, results: Iterable[Result]) -> dict[str, list[Runs]]:
    """Of every dataset, the runs of each setting of the model that have a test accuracy."""
    found: dict[str, dict[RunSpec, Runs]] = {}
    for result in results:
        spec = result.spec
        if spec.model == model and result.test is not None:
            setting = dataclasses.replace(spec, split=0, seed=0, record=())
            runs = found.setdefault(spec.dataset, {}).setdefault(setting, {})
            runs[spec.split, spec.seed] = result
    return {dataset: list(settings.values()) for dataset, settings in found.items()}


def _worth(one: Runs, two: Runs) -> tuple[int, str]:
    """How much two settings have to compare; of those with as many runs the latest are meant."""
    common = one.keys() & two.keys()
    last = max((runs[key].finished for runs in (one, two) for key in common), default="")
    return len(common), last


def percent(share: float | None) -> str:
    """A share of 1 as it is shown in tables."""
    return "–" if share is None else f"{100 * share:.2f}"
