"""``gread runs``, ``gread runs export`` and ``gread compare``: stored runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from gread.base.errors import InputError
from gread.cli.console import note, print_json, print_table
from gread.cli.options import STORE, described

runs = typer.Typer(help="List stored runs, or export them.", invoke_without_command=True)


@runs.callback()
@described
def list_runs(
    context: typer.Context,
    dataset: str | None = None,
    model: str | None = None,
    store: Path = STORE,
    as_json: bool = False,
) -> None:
    """List stored runs, or export them."""
    if context.invoked_subcommand is not None:
        for option in context.command.params:
            source = context.get_parameter_source(option.name or "")
            if source is not None and source.name == "COMMANDLINE":
                raise InputError(
                    f"options of gread runs {context.invoked_subcommand} must follow its name, got "
                    f"{option.opts[0]} before it"
                )
        return
    from gread.runs.store import ResultStore
    from gread.runs.values import measured

    chosen = [
        result
        for result in ResultStore(store)
        if dataset in (None, result.spec.dataset) and model in (None, result.spec.model)
    ]
    if as_json:
        print_json([result.without_history() for result in chosen])
        return
    columns = ("key", "dataset", "model", "split", "seed", "status", "val", "test", "seconds")
    rows = []
    for result in chosen:
        spec = result.spec
        val, test = (measured(value, spec.train) for value in (result.val, result.test))
        numbers = val, test, f"{result.seconds:.1f}"
        named = spec.key[:8], spec.dataset, spec.model, spec.split, spec.seed, result.status
        rows.append((*named, *numbers))
    print_table(columns, rows)


@runs.command("export")
@described
def export_runs(
    names: list[str] | None = None, folder: Path = Path("results"), store: Path = STORE
) -> None:
    """Export the runs of tables and figures as compressed JSON lines, without histories.

    Each table or figure has one file. A run that several need is in the file of the first.
    """
    from gread.experiments.reproduce import export as write

    for path, count in write(names, store=store, out=folder).items():
        note(f"Wrote {count} results to {path}")


def compare(
    first: str, second: str, dataset: str | None = None, store: Path = STORE, as_json: bool = False
) -> None:
    """Compare two models on the datasets, splits and seeds for which both have stored runs.

    If a model has several settings on a dataset, the pair of settings with the most common runs is
    compared.
    """
    from gread.runs.compare import compare as compare_runs

    found = compare_runs(first, second, dataset=dataset, store=store)
    if as_json:
        print_json([{"dataset": name} | asdict(row) for name, row in found.items()])
        return
    columns = ("dataset", "metric", f"{first} − {second}", "Wilcoxon p", "t-test p", "pairs")
    rows = []
    for name, row in found.items():
        difference = f"{row.difference:+.2f}" if row.percent else f"{row.difference:+.4f}"
        chances = f"{row.wilcoxon:.3g}", f"{row.t_test:.3g}"
        rows.append((name, row.metric, difference, *chances, row.pairs))
    print_table(columns, rows)
