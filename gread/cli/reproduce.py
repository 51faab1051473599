"""The command that regenerates tables and figures of the paper."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown
from rich.table import Table as Rows

from gread.base.files import write_text
from gread.cli.console import Json, err, out, print_json, weighted_bar
from gread.cli.runs import STORE, Store
from gread.cli.train import Deterministic, Device, ExecutorName, resumable
from gread.experiments.artefact import ARTEFACTS, SCALES, Plan, show
from gread.report.charts import Chart
from gread.report.tables import Table
from gread.runs.archive import known_results
from gread.runs.cost import estimate, speed
from gread.runs.executors.job import Executor, find_executor
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"all, or one of: {', '.join(ARTEFACTS)}.")],
    scale: Annotated[
        str,
        typer.Option(help="full is the paper's protocol; quick shows it in minutes on a CPU."),
    ] = "full",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be computed, and how long it takes.")
    ] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Compute nothing; show what is stored.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes at a time; by default one a core on a CPU.")
    ] = None,
    executor: ExecutorName = "local",
    device: Device = "auto",
    deterministic: Deterministic = False,
    store: Store = STORE,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where tables and figures go.")
    ] = Path("runs/reproduce"),
    as_json: Json = False,
) -> None:
    """Regenerate a table or figure of the paper from stored runs, computing what is missing."""
    names = list(ARTEFACTS) if name == "all" else [name]
    plans = {name: SCALES[scale](ARTEFACTS[name]) for name in names}
    wanted = {spec.key for plan in plans.values() for spec in plan.specs}
    known = known_results(store, keys=None if dry_run else wanted, order=ARTEFACTS)
    where = find_executor(executor)
    place = where.choose_device(device)
    if workers is None and not where.remote:
        workers = 1 if place.startswith("cuda") else os.cpu_count() or 1
    if dry_run:
        _tell_plan(plans, known, speed(known.values(), place) / (workers or 1), as_json)
        return
    if not stored:
        specs = dict.fromkeys(spec for plan in plans.values() for spec in plan.specs)
        _compute(
            [spec for spec in specs if spec.key not in known],
            ResultStore(store),
            executor=where,
            device=place,
            workers=workers,
            deterministic=deterministic,
            imports=context.find_root().params["imports"] or (),
        )
        known = known_results(store, keys=wanted, order=ARTEFACTS)
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, plan in plans.items():
        found = [known[spec.key] for spec in plan.specs if spec.key in known]
        shown = show(ARTEFACTS[name], plan, found)
        files[name] = _write(name, shown, folder)
        if isinstance(shown, Table) and len(plans) == 1 and not as_json:
            text = shown.markdown()
            out.print(Markdown(text) if out.is_terminal else text, soft_wrap=True)
        suffixes = ", ".join(file.suffix for file in files[name][1:])
        err.print(f"Wrote {files[name][0]}, {suffixes}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({name: list(map(str, paths)) for name, paths in files.items()})


def _compute(
    missing: Sequence[RunSpec],
    store: ResultStore,
    *,
    executor: Executor,
    device: str,
    workers: int | None,
    deterministic: bool,
    imports: Sequence[str],
) -> None:
    with resumable(), weighted_bar() as progress:
        task = progress.add_task("", total=sum(map(estimate, missing)))
        done = 0

        def count(result: Result) -> None:
            nonlocal done
            done += 1
            text = f"{done} of {len(missing)} runs"
            progress.update(task, advance=estimate(result.spec), description=text)

        launch(
            missing,
            store,
            executor=executor,
            devices=[device],
            workers=workers,
            deterministic=deterministic,
            imports=imports,
            on_result=count,
        )


def _tell_plan(
    plans: dict[str, Plan], known: dict[str, Result], pace: float, as_json: bool
) -> None:
    """What each would compute; runs that several need count once in the sum."""

    def row(name: str, specs: Iterable[RunSpec]) -> dict[str, str | int | float]:
        keys = {spec.key: spec for spec in specs}
        missing = [spec for key, spec in keys.items() if key not in known]
        seconds = round(pace * sum(map(estimate, missing)))
        stored = len(keys) - len(missing)
        return {"artefact": name, "runs": len(keys), "stored": stored, "seconds": seconds}

    rows = [row(name, plan.specs) for name, plan in plans.items()]
    if len(rows) > 1:
        rows.append(row("all", (spec for plan in plans.values() for spec in plan.specs)))
    if as_json:
        print_json(rows)
        return
    table = Rows("artefact", "runs", "stored", "to compute", "about")
    for found in rows:
        left = int(found["runs"]) - int(found["stored"])
        counts = (str(found["runs"]), str(found["stored"]), str(left))
        about = str(timedelta(seconds=int(found["seconds"]))) if left else "–"
        table.add_row(str(found["artefact"]), *counts, about)
    out.print(table)
    out.print("Times are estimates, good to a factor of a few; runs that several need count once.")


def _write(name: str, shown: Table | Chart, folder: Path) -> list[Path]:
    if isinstance(shown, Chart):
        from gread.report.figures import write  # with matplotlib

        return write(shown, folder, name)
    texts = {"md": shown.markdown(), "csv": shown.csv(), "tex": shown.latex()}
    files = [folder / f"{name}.{suffix}" for suffix in texts]
    for file, text in zip(files, texts.values(), strict=True):
        write_text(file, text)
    return files
