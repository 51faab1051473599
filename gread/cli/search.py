"""``gread search``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gread.base.errors import InputError
from gread.cli.console import bar, note, out, print_json, print_table, resumable
from gread.cli.options import STORE, imports_of, numbers

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID

    from gread.search.objective import Objective
    from gread.search.report import Report
    from gread.search.search import SearchProgress
    from gread.search.selection import Trial


def search(
    context: typer.Context,
    dataset: str,
    model: str = "gread-bs",
    trials: int | None = None,
    space: Path | None = None,
    sampler: str = "random",
    prune: bool = False,
    splits: str = "0-9",
    seeds: str = "0",
    study: str | None = None,
    storage: str | None = None,
    batch: int | None = None,
    workers: int | None = None,
    executor: str = "local",
    device: str = "auto",
    deterministic: bool = False,
    show: bool = False,
    rule: str = "best-mean",
    folder: Path | None = None,
    store: Path = STORE,
    as_json: bool = False,
) -> None:
    """Search hyperparameters of a model; only validation accuracy selects."""
    from gread.models.catalog import MODELS
    from gread.runs.executors.find import find_executor
    from gread.runs.store import ResultStore
    from gread.search.report import report as report_on
    from gread.search.search import search as search_for
    from gread.search.selection import RULES, select
    from gread.search.space import read_space
    from gread.search.study import import_optuna, study_name

    if trials is None and not show:
        raise InputError("--trials must be a number of trials, unless --report is given")
    RULES[rule]  # an unknown name fails before anything is computed
    MODELS[model]
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = study or study_name(dataset, model)
    kept = ResultStore(store)
    if trials is not None:
        drawn_from = read_space(model, space)
        metric = drawn_from.objective
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
                on_progress=_Tell(progress, progress.add_task("", total=trials), metric),
            )
        if not show:  # test accuracies are shown by the report only
            selected = select(found, drawn_from, rule)
            if as_json:
                print_json(_summary(name, found, selected))
            else:
                _print_trials(name, found, selected, metric)
                out.print("--report shows its test accuracy and writes a preset")
            return
    made = report_on(name, kept, storage=storage, rule=rule)
    files = made.write(folder or kept.path.parent / "studies")
    if as_json:
        details = {
            "rule": made.rule,
            "finished": made.finished,
            "test": made.tests.get(made.selected.number),
            "importance": made.importance,
            "files": files,
        }
        print_json(_summary(name, made.trials, made.selected) | details)
        return
    _print_report(made)
    for file in files:
        note(f"Wrote {file}")


class _Tell:
    """Progress bar, with a line for every new best trial."""

    def __init__(self, progress: Bar, task: TaskID, metric: Objective):
        self.progress, self.task, self.metric, self.best = progress, task, metric, -1

    def __call__(self, now: SearchProgress) -> None:
        text = f"{now.runs} runs"
        if now.best is not None:
            text = f"best validation {self.metric.shown(now.best.mean)}, {text}"
            if now.best.number != self.best:
                self.best = now.best.number
                line = f"trial {self.best}: validation {self.metric.summary(now.best.validation)}"
                note(f"{line}, {_settings(now.best)}")
        self.progress.update(self.task, completed=now.finished, description=text)


def _print_report(made: Report) -> None:
    metric = made.plan.objective
    _print_trials(made.study, made.trials, made.selected, metric)
    if not made.finished:
        out.print(
            f"{len(made.trials)} of {made.wanted} trials are finished: test accuracies and a "
            "preset follow when all are"
        )
    elif made.selected.number in made.tests:
        out.print(f"test {metric.summary(made.tests[made.selected.number])}")
        best = metric.summary(made.best_test)
        out.print(f"best test value (for reference; not a valid selection criterion): {best}")
    else:
        out.print("test: some runs of the selected trial are not in this store")
    if made.importance:
        rows = ((name, f"{share:.2f}") for name, share in made.importance.items())
        print_table(("hyperparameter", "importance"), rows)


def _print_trials(name: str, found: list[Trial], selected: Trial, metric: Objective) -> None:
    pruned = sum(not trial.complete for trial in found)
    out.print(f"study {name}: {len(found)} trials, {pruned} pruned")
    validation = metric.summary(selected.validation)
    out.print(f"selected: trial {selected.number}, validation {validation}")
    out.print(_settings(selected), soft_wrap=True)


def _settings(trial: Trial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.settings.items())


def _summary(name: str, found: list[Trial], selected: Trial) -> dict[str, Any]:
    return {
        "study": name,
        "trials": len(found),
        "pruned": sum(not trial.complete for trial in found),
        "selected": asdict(selected) | {"mean": selected.mean},
    }
