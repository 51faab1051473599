"""``gread search``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as RichTable

from gread.base.errors import InputError
from gread.cli.console import bar, err, out, print_json, resumable
from gread.cli.options import (
    STORE,
    Deterministic,
    Device,
    ExecutorName,
    Json,
    Store,
    imports_of,
    names_in,
    numbers,
)

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID

    from gread.search.report import Report
    from gread.search.search import SearchProgress
    from gread.search.selection import Trial


def search(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="A dataset: gread datasets lists them.")],
    model: Annotated[str, typer.Option(help="A model: gread list models.")] = "gread-bs",
    trials: Annotated[
        int | None, typer.Option(help="How many in all, earlier ones included.")
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Search space in TOML; by default the paper's."),
    ] = None,
    sampler: Annotated[
        str, typer.Option(help=f"One of: {names_in('gread.search.samplers:SAMPLERS')}.")
    ] = "random",
    prune: Annotated[
        bool, typer.Option("--prune", help="End trials early that are poor on the first splits.")
    ] = False,
    splits: Annotated[str, typer.Option(help="For instance 0-9 or 0,3,5.")] = "0-9",
    seeds: Annotated[str, typer.Option(help="Likewise.")] = "0",
    study: Annotated[
        str | None, typer.Option(help="Its name; by default from dataset and model.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A database for many machines; by default a file in the store."
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Trials at a time; by default 8, on a GPU or Ray 64 or 512.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes at a time; by default 1, on a GPU up to 8.")
    ] = None,
    executor: ExecutorName = "local",
    device: Device = "auto",
    deterministic: Deterministic = False,
    show: Annotated[
        bool, typer.Option("--report", help="Show what was found, write preset and picture.")
    ] = False,
    rule: Annotated[
        str,
        typer.Option(help=f"How the report selects: {names_in('gread.search.selection:RULES')}."),
    ] = "best-mean",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where preset and picture go; by default in the store."
        ),
    ] = None,
    store: Store = STORE,
    as_json: Json = False,
) -> None:
    """Search for the settings of a model, selected by validation accuracy alone."""
    from gread.models.catalog import MODELS
    from gread.runs.executors.find import find_executor
    from gread.runs.store import ResultStore
    from gread.search.report import report as report_on
    from gread.search.search import search as search_for
    from gread.search.selection import RULES, select
    from gread.search.space import read_space
    from gread.search.study import import_optuna, study_name

    if trials is None and not show:
        raise InputError(
            "--trials must say how many there shall be, or --report show what is there"
        )
    RULES[rule]  # a misspelt name fails before anything is computed
    MODELS[model]
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = study or study_name(dataset, model)
    kept = ResultStore(store)
    found: list[Trial] = []
    if trials is not None:
        drawn_from = read_space(model, space)
        where = find_executor(executor)
        with resumable(), bar() as progress:
            found = search_for(
                dataset,
                model,
                trials=trials,
                store=kept,
                space=drawn_from,
                sampler=sampler,
                prune=prune,
                splits=numbers("splits", splits),
                seeds=numbers("seeds", seeds),
                study=name,
                storage=storage,
                batch=batch,
                executor=where,
                devices=[where.choose_device(device)],
                workers=workers,
                deterministic=deterministic,
                imports=imports_of(context),
                on_progress=_Tell(progress, progress.add_task("", total=trials)),
            )
        if not show:
            _print_selected(name, found, select(found, drawn_from, rule), as_json)
            return
    made = report_on(name, kept, storage=storage, rule=rule)
    files = made.write(folder or kept.path.parent / "studies")
    if as_json:
        print_json(_summary(name, made.trials, made.selected) | _details(made, files))
        return
    _print_report(made)
    for file in files:
        err.print(f"Wrote {file}", highlight=False, soft_wrap=True)


class _Tell:
    """Shows progress on a bar, and every new best trial on a line of its own."""

    def __init__(self, progress: Bar, task: TaskID):
        self.progress, self.task, self.best = progress, task, -1

    def __call__(self, now: SearchProgress) -> None:
        from gread.search.report import shown

        text = f"{now.runs} runs"
        if now.best is not None:
            text = f"best validation {100 * now.best.mean:.2f}, {text}"
            if now.best.number != self.best:
                self.best = now.best.number
                line = f"trial {self.best}: validation {shown(now.best.validation)}"
                err.print(f"{line}, {_settings(now.best)}", highlight=False, soft_wrap=True)
        self.progress.update(self.task, completed=now.finished, description=text)


def _print_selected(name: str, found: list[Trial], selected: Trial, as_json: bool) -> None:
    """What was found, by validation: a test accuracy is for the report."""
    if as_json:
        print_json(_summary(name, found, selected))
        return
    _print_trials(name, found, selected)
    out.print("--report shows its test accuracy, and writes it as a preset", highlight=False)


def _print_report(made: Report) -> None:
    from gread.search.report import shown

    _print_trials(made.study, made.trials, made.selected)
    if not made.finished:
        out.print(
            f"{len(made.trials)} of {made.wanted} trials are finished: test accuracies and a "
            "preset come at the end",
            highlight=False,
        )
    elif made.selected.number in made.tests:
        out.print(f"test {shown(made.tests[made.selected.number])}", highlight=False)
        best = max(made.tests.values(), key=fmean)
        out.print(f"best test of all, which nobody may select: {shown(best)}", highlight=False)
    else:
        out.print("test: not all of its runs are in this store", highlight=False)
    if made.importance:
        table = RichTable("hyperparameter", "importance")
        for hyperparameter, share in made.importance.items():
            table.add_row(hyperparameter, f"{share:.2f}")
        out.print(table)


def _print_trials(name: str, found: list[Trial], selected: Trial) -> None:
    from gread.search.report import shown

    pruned = sum(not trial.complete for trial in found)
    out.print(f"study {name}: {len(found)} trials, {pruned} pruned", highlight=False)
    line = f"selected: trial {selected.number}, validation {shown(selected.validation)}"
    out.print(line, highlight=False)
    out.print(_settings(selected), highlight=False, soft_wrap=True)


def _settings(trial: Trial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.settings.items())


def _summary(name: str, found: list[Trial], selected: Trial) -> dict[str, Any]:
    return {
        "study": name,
        "trials": len(found),
        "pruned": sum(not trial.complete for trial in found),
        "selected": dataclasses.asdict(selected) | {"mean": selected.mean},
    }


def _details(made: Report, files: list[Path]) -> dict[str, Any]:
    return {
        "rule": made.rule,
        "finished": made.finished,
        "test": made.tests.get(made.selected.number),
        "importance": made.importance,
        "files": [str(file) for file in files],
    }
