"""Tables and figures from stored runs; missing runs are computed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gread.base.files import write_text
from gread.data.catalog import DATASETS
from gread.data.files import DataError
from gread.experiments.artefact import SCALES, Plan, show
from gread.experiments.questions import ARTEFACTS
from gread.report.charts import Chart
from gread.report.tables import TextTable
from gread.runs.archive import ENDING, known_results, write_results
from gread.runs.cost import estimate, speed
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore

if TYPE_CHECKING:
    from gread.runs.executors.job import Executor


@dataclass(frozen=True)
class Reproduction:
    """A regenerated table or figure.

    Attributes:
        shown: The table or the chart.
        files: Files that were written.
    """

    shown: TextTable | Chart
    files: list[Path]


def reproduce(
    names: Iterable[str] | None = None,
    *,
    store: str | Path,
    out: str | Path,
    scale: str = "full",
    stored: bool = False,
    workers: int | None = None,
    executor: str = "local",
    device: str = "auto",
    deterministic: bool = False,
    imports: Sequence[str] = (),
    on_start: Callable[[Sequence[RunSpec]], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
    on_artefact: Callable[[str, Reproduction], None] | None = None,
) -> dict[str, Reproduction]:
    """Regenerate tables and figures of the paper, computing the runs that are missing.

    Graphs without files are named in a warning, and their numbers stay missing.

    Args:
        names: Names of ``gread.experiments.ARTEFACTS``; by default all.
        store: Folder of the results; results shipped with the package are used too, see
            `gread.runs.known_results`.
        out: Folder of the files: Markdown, CSV and LaTeX of a table; SVG, PDF, PNG and JSON of a
            figure.
        scale: ``"full"`` is the paper's protocol, ``"quick"`` takes minutes on a CPU.
        stored: Whether to use only stored runs and compute none.
        workers: Number of processes; by default one per core on a CPU, and one on a GPU.
        executor: Executor of the runs, as in `gread.runs.launch`.
        device: Device of the runs; ``"auto"`` selects a GPU if there is one.
        deterministic: As in `gread.runs.run`.
        imports: Modules that every process imports first.
        on_start: Called with the specs that are computed.
        on_result: Called with every new result.
        on_artefact: Called with the name and the `Reproduction` of every artefact.

    Returns:
        The reproductions, by name.

    Raises:
        DataError: Runs are missing, and none of their graphs has its files.

    Example:
        >>> import tempfile
        >>> from gread.experiments import reproduce
        >>> folder = tempfile.mkdtemp()
        >>> made = reproduce(["table-4"], stored=True, store=folder, out=folder)
        >>> [file.name for file in made["table-4"].files]
        ['table-4.md', 'table-4.csv', 'table-4.tex']
    """
    plans = _plans(names, scale)
    wanted = {spec.key: spec for plan in plans.values() for spec in plan.specs}
    known = known_results(store, keys=wanted, order=ARTEFACTS)
    if not stored:
        from gread.runs.launch import launch  # imports torch

        where, place, workers = _place(executor, device, workers)
        missing = [spec for key, spec in wanted.items() if key not in known]
        if not where.remote:
            missing = _with_data(missing)
        if on_start is not None:
            on_start(missing)
        launch(
            missing,
            ResultStore(store),
            executor=where,
            devices=[place],
            workers=workers,
            deterministic=deterministic,
            imports=imports,
            on_result=on_result,
        )
        known = known_results(store, keys=wanted, order=ARTEFACTS)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for name, plan in plans.items():
        shown = show(ARTEFACTS[name], plan, plan.stored(known))
        made[name] = Reproduction(shown, _write(name, shown, folder))
        if on_artefact is not None:
            on_artefact(name, made[name])
    return made


def _with_data(specs: Sequence[RunSpec]) -> list[RunSpec]:
    """Runs on graphs whose files are here or can be downloaded; the others are named in a warning.

    Raises:
        DataError: No graph has its files.
    """
    from gread.data.load import load  # imports torch

    absent: dict[str, DataError] = {}
    for dataset in dict.fromkeys(spec.dataset for spec in specs):
        try:
            load(dataset)
        except DataError as error:
            absent[dataset] = error
    left = [spec for spec in specs if spec.dataset not in absent]
    if absent and not left:
        raise next(iter(absent.values()))
    for dataset, reason in absent.items():
        warnings.warn(f"{DATASETS[dataset].title} is not computed: {reason}", stacklevel=3)
    return left


@dataclass(frozen=True)
class Forecast:
    """Runs that an artefact needs.

    Attributes:
        artefact: Its name.
        runs: Number of runs that it needs.
        stored: Number of these that are stored.
        seconds: Estimated time for the others, in seconds.
    """

    artefact: str
    runs: int
    stored: int
    seconds: int


def plan(
    names: Iterable[str] | None = None,
    *,
    store: str | Path,
    scale: str = "full",
    workers: int | None = None,
    executor: str = "local",
    device: str = "auto",
) -> list[Forecast]:
    """Estimate what `reproduce` would compute, with the same arguments.

    Returns:
        A forecast for each artefact. For several artefacts, a last forecast named ``"all"``
        counts shared runs once.

    Example:
        >>> import tempfile
        >>> from gread.experiments import plan
        >>> [forecast.artefact for forecast in plan(["table-1"], store=tempfile.mkdtemp())]
        ['table-1']
    """
    plans = _plans(names, scale)
    known = known_results(store)
    _, place, workers = _place(executor, device, workers)
    pace = speed(known.values(), place) / (workers or 1)

    def forecast(name: str, specs: Iterable[RunSpec]) -> Forecast:
        keys = {spec.key: spec for spec in specs}
        missing = [spec for key, spec in keys.items() if key not in known]
        seconds = round(pace * sum(map(estimate, missing)))
        return Forecast(name, len(keys), len(keys) - len(missing), seconds)

    found = [forecast(name, plan.specs) for name, plan in plans.items()]
    if len(found) > 1:
        found.append(forecast("all", (spec for plan in plans.values() for spec in plan.specs)))
    return found


def export(
    names: Iterable[str] | None = None, *, store: str | Path, out: str | Path
) -> dict[Path, int]:
    """Write the runs of artefacts without histories, one compressed JSON Lines file each.

    A run that several artefacts need is only in the file of the first.

    Args:
        names: Names of ``gread.experiments.ARTEFACTS``; by default all.
        store: As in `reproduce`.
        out: Folder of the files.

    Returns:
        The number of results in each file.

    Example:
        >>> import tempfile
        >>> from gread.experiments import export
        >>> export(["table-1"], store=tempfile.mkdtemp(), out=tempfile.mkdtemp())
        {}
    """
    keys = {name: [spec.key for spec in ARTEFACTS[name].specs()] for name in names or ARTEFACTS}
    known = known_results(store, keys=chain.from_iterable(keys.values()), order=keys)
    written = {}
    for name, wanted in keys.items():
        results = [known.pop(key) for key in wanted if key in known]
        if results:
            path = Path(out) / f"{name}{ENDING}"
            write_results(path, results)
            written[path] = len(results)
    return written


def _plans(names: Iterable[str] | None, scale: str) -> Mapping[str, Plan]:
    chosen = ARTEFACTS if names is None else names
    return {name: SCALES[scale](ARTEFACTS[name]) for name in chosen}


def _place(executor: str, device: str, workers: int | None) -> tuple[Executor, str, int | None]:
    from gread.runs.executors.find import find_executor  # imports torch

    where = find_executor(executor)
    place = where.choose_device(device)
    if workers is None and not where.remote:
        workers = 1 if place.startswith("cuda") else os.cpu_count() or 1
    return where, place, workers


def _write(name: str, shown: TextTable | Chart, folder: Path) -> list[Path]:
    if isinstance(shown, Chart):
        from gread.report.figures import write  # imports matplotlib

        return write(shown, folder, name)
    texts = {"md": shown.markdown(), "csv": shown.csv(), "tex": shown.latex()}
    for suffix, text in texts.items():
        write_text(folder / f"{name}.{suffix}", text)
    return [folder / f"{name}.{suffix}" for suffix in texts]
