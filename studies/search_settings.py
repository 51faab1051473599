"""Search settings for a comparison, with the same budget for every model.

    python -m studies.search_settings COMPARISON STORE DEVICE WORKERS [MODEL,... [DATASET ...]]

Run it in the repository's root. COMPARISON is a section of gread/experiments/protocol.toml that
defines the budget: ``honest``, ``larger`` or ``fair``. By default all of its models are searched
on all of its graphs for which the final runs are incomplete. A named model is always searched.
The best settings by validation are written to gread/runs/presets/COMPARISON. Then the runs of the
table are computed. No test metric is shown. Runs that are stored, or committed in
studies/COMPARISON-trials.jsonl.xz or gread/runs/archives/COMPARISON.jsonl.xz, are not computed
again.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from threading import Lock

from gread.base.memory import OutOfMemory
from gread.data.catalog import DATASETS
from gread.data.files import DataError
from gread.data.load import load
from gread.experiments.searched import Budget, Comparison
from gread.models.catalog import MODELS
from gread.runs.archive import ARCHIVES, ENDING, read_results
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.search.report import merge_preset, preset_table
from gread.search.space import DIGITS, Range, Space, read_space
from gread.search.study import StudySettings, import_optuna, random_sampler, study_name

PRESETS = Path(__file__).parents[1] / "gread/runs/presets"

MEMBERS = 5
"""Largest number of members of a population. Larger ones lose more runs when the command is ended,
and leave processes idle when a stage has few runs."""

WRITING = Lock()
"""Lock of the files of presets, which cells of one model share."""

space_of = cache(read_space)  # slow, because it checks the bounds of all ranges


def trials_of(comparison: Comparison) -> Path:
    """File of the committed runs of the search."""
    return Path(__file__).with_name(f"{comparison.name}-trials{ENDING}")


def finals_of(comparison: Comparison) -> Path:
    """File of the committed runs of the table, without records."""
    return ARCHIVES / f"{comparison.name}{ENDING}"


@dataclass(frozen=True)
class Cell:
    """A model on a graph, and the settings to compare.

    Example:
        >>> honest = Comparison("honest")
        >>> cell = Cell(honest, "mlp", "texas", draw(honest, "mlp", "texas"))
        >>> len(cell.settings), len(cell.specs(cell.settings[0], splits=range(3)))
        (24, 3)
    """

    comparison: Comparison
    model: str
    dataset: str
    settings: list[dict[str, Value]]

    @property
    def budget(self) -> Budget:
        """Budget of every model on the graph."""
        return self.comparison.budget_of(self.dataset)

    @property
    def splits(self) -> range:
        """All splits of the graph that are used."""
        return range(self.comparison.splits_of(self.dataset))

    def specs(self, settings: Mapping[str, Value], splits: Iterable[int]) -> list[RunSpec]:
        """Specs of a setting on the given splits, with the seed of the search."""
        about = {}, "random", False, list(splits), [0]
        return StudySettings(self.dataset, self.model, *about).specs(settings)

    def wide(self) -> list[RunSpec]:
        """Specs of all settings on the first splits."""
        return [spec for one in self.settings for spec in self.specs(one, self.budget.search)]

    def mean(self, settings: Mapping[str, Value], splits: Iterable[int], known: Known) -> float:
        """Mean validation metric; a run that failed counts as zero."""
        return fmean(known.get(spec.key) or 0.0 for spec in self.specs(settings, splits))

    def best(self, count: int, known: Known) -> list[dict[str, Value]]:
        """Settings with the best mean on the first splits, the earlier first on ties."""
        first = self.budget.search
        ranked = sorted(self.settings, key=lambda one: -self.mean(one, first, known))
        return ranked[:count]

    def with_near(self, known: Known) -> Cell:
        """The cell with the same number of further settings, near its best ones."""
        parents = self.best(self.comparison.about["parents"], known)
        near = draw(self.comparison, self.model, self.dataset, parents)
        return replace(self, settings=self.settings + near)

    def finalists(self, known: Known) -> list[dict[str, Value]]:
        """The best settings on the first splits."""
        return self.best(self.budget.finalists, known)

    def compared_on(self) -> Sequence[int]:
        """Splits that select among the finalists; a single one needs no further runs."""
        return self.splits if self.budget.finalists > 1 else self.budget.search

    def narrow(self, known: Known) -> list[RunSpec]:
        """Specs of the finalists on the splits that select among them."""
        splits = self.compared_on()
        return [spec for one in self.finalists(known) for spec in self.specs(one, splits)]

    def selected(self, known: Known) -> dict[str, Value]:
        """The best finalist."""
        splits = self.compared_on()
        return max(self.finalists(known), key=lambda one: self.mean(one, splits, known))

    def write(self, known: Known) -> str:
        """Write the selected settings, and report their validation metric."""
        best, splits = self.selected(known), self.compared_on()
        found = self.mean(best, splits, known)
        count = "1 split" if len(splits) == 1 else f"{len(splits)} splits"
        facts = [
            f"the best by validation of {len(self.settings)} settings: "
            f"{100 * found:.2f} on {count}, seed 0"
        ]
        folder = PRESETS / self.comparison.name
        folder.mkdir(exist_ok=True)
        path = folder / f"{study_name('', self.model)[1:]}.toml"
        merge_preset(path, preset_table(self.dataset, facts, best, {}), MODELS[self.model].title)
        return f"{self.model} on {self.dataset}: {100 * found:.2f} {best}"

    def finals(self, known: Known) -> list[RunSpec]:
        """Runs of the table that are missing, with records for an ensemble of several seeds."""
        specs = self.comparison.runs_of(self.model, self.dataset, self.selected(known))
        return [with_record(self.comparison, spec) for spec in specs if spec.key not in known]


Known = Mapping[str, float | None]
"""Validation metrics by the key of the run."""


def draw(
    comparison: Comparison, model: str, dataset: str, parents: Sequence[Mapping[str, Value]] = ()
) -> list[dict[str, Value]]:
    """Draw settings near parents, or else random ones that begin with values of the protocol."""
    listed = comparison.about.get("first", {}).get(dataset, ())
    given = [values for values in listed if model in values["models"]]
    space = for_graph(comparison, space_of(model), dataset)
    stage = f"{comparison.name} near" if parents else comparison.name
    found: list[dict[str, Value]] = []
    for number in range(comparison.budget_of(dataset).draws):
        seed = zlib.crc32(f"{stage} {study_name(dataset, model)} {number}".encode())
        if parents:
            drawn = near(space, parents[number % len(parents)], random.Random(seed))
        else:
            drawn = space.suggest(import_optuna().create_study(sampler=random_sampler(seed)).ask())
            if number < len(given):
                drawn |= {name: v for name, v in given[number].items() if name in drawn}
        found.append(drawn | comparison.training_of(dataset))
    return found


def near(space: Space, parent: Mapping[str, Value], chance: random.Random) -> dict[str, Value]:
    """Draw a setting near another one.

    Numbers are drawn from a window of a third of their range. A choice is drawn again with
    probability 1/3.
    """
    found = dict(parent)
    for name, part in space.parts.items():
        if isinstance(part, Range):
            found[name] = _near_in(part, float(parent[name] or 0.0), chance)
        elif chance.random() < 1 / 3:
            found[name] = chance.choice(part.values)
    return found


def _near_in(part: Range, value: float, chance: random.Random) -> Value:
    scale, back = (math.log, math.exp) if part.log else (float, float)
    width = (scale(part.high) - scale(part.low)) / 3
    drawn = back(scale(value) + width * (chance.random() - 0.5))
    whole = isinstance(part.low, int) and isinstance(part.high, int)
    return min(part.high, max(part.low, round(drawn) if whole else float(f"{drawn:.{DIGITS}g}")))


def for_graph(comparison: Comparison, space: Space, dataset: str) -> Space:
    """The space of a model with the rules of the protocol for a graph.

    No run is stopped early: every model trains for the epochs of the graph.
    """
    about = comparison.about
    depths = about["num_steps"]
    table = {name: drawn for name, drawn in space.table.items() if name != "patience"}
    if "num_steps" in table:
        table["num_steps"] = depths.get(dataset, depths["others"])
    if "input_dropout" in table and dataset in about.get("few_features", ()):
        table["input_dropout"] = 0.0
    if "embedding" in table and dataset in about["sparse"]:
        table["embedding"] = False
    rules = {
        **comparison.budget_of(dataset).fixed,
        **about.get("spaces", {}).get(dataset, {}),
        **about.get("model_spaces", {}).get(space.model, {}),
    }
    table |= {name: drawn for name, drawn in rules.items() if name in space.parts}
    if "direction" in table and not DATASETS[dataset].directed:
        table["direction"] = "undirected"
    for option, rule in about["preprocessing"].items():
        chosen_by_model = option == "directed" and "direction" in table
        unused = chosen_by_model or space.model in rule.get("without", ())
        if dataset in rule["datasets"] and not unused:
            table[f"options.{option}"] = rule["values"]
    return Space(space.model, table)


def with_record(comparison: Comparison, spec: RunSpec) -> RunSpec:
    """The run, with the records that an ensemble of several seeds needs."""
    several = len(comparison.budget_of(spec.dataset).seeds) > 1
    return replace(spec, record=comparison.record) if several else spec


def compute(
    cells: list[Cell], store: ResultStore, run: Callable[[list[RunSpec]], None], at_once: int = 1
) -> None:
    """Compute the search and the runs of the table of ``at_once`` cells at a time.

    A stage of a search needs all runs of the one before. While the last of them are computed, other
    cells use the processes.
    """
    with ThreadPoolExecutor(at_once) as threads:
        try:
            for _ in threads.map(partial(compute_cell, store=store, run=run), cells):
                pass
        except KeyboardInterrupt:  # the threads would finish their stages first
            os._exit(130)


def compute_cell(cell: Cell, store: ResultStore, run: Callable[[list[RunSpec]], None]) -> None:
    """Compute the three stages of the search and the runs of the table."""
    run(cell.wide())
    cell = cell.with_near(store.numbers("val"))
    run(cell.wide())
    run(cell.narrow(store.numbers("val")))
    known = store.numbers("val")
    with WRITING:
        print(cell.write(known), flush=True)
    run(cell.finals(known))


def within_memory(
    store: ResultStore, run: Callable[[list[RunSpec]], None], specs: list[RunSpec]
) -> None:
    """Compute runs; a run that does not fit into memory even separately is stored as failed."""
    try:
        run(specs)
    except OutOfMemory as error:
        missing = store.missing(specs)
        if len(missing) == 1:
            store.put(Result(missing[0], "failed", message=f"out of memory: {error}"))
            return
        middle = len(missing) // 2
        for half in (missing[:middle], missing[middle:]):
            within_memory(store, run, half)


def complete(comparison: Comparison, model: str, dataset: str, known: Known) -> bool:
    """Whether settings are selected and all of their final runs are known."""
    specs = comparison.specs([dataset], [model])
    return bool(specs) and all(spec.key in known for spec in specs)


def with_data(datasets: Iterable[str]) -> list[str]:
    """Graphs with their files present; the others are printed."""
    found = []
    for dataset in datasets:
        try:
            load(dataset)
        except DataError as error:
            print(f"{dataset} is left out: {error}", flush=True)
        else:
            found.append(dataset)
    return found


def main(
    name: str, folder: str, device: str, workers: str, models: str = "", *datasets: str
) -> None:
    """Search all cells and compute the final runs."""
    import_optuna().logging.set_verbosity(30)
    comparison = Comparison(name)
    store, begin, done = ResultStore(folder), time.time(), Counter[str]()
    for committed in (trials_of(comparison), finals_of(comparison)):
        if committed.exists():
            store.put(*read_results(committed))

    def say(result: Result) -> None:
        done[f"{result.spec.dataset} {result.status}"] += 1
        if sum(done.values()) % 200 == 0:
            print(f"{time.time() - begin:5.0f} s {dict(done)}", flush=True)

    executor, processes = find_executor("local"), int(workers)
    executor.start(device, processes, ())
    run = partial(
        launch,
        store=store,
        executor=executor,
        devices=[device],
        workers=processes,
        members=MEMBERS,
        histories=False,
        on_result=say,
    )
    chosen, known = models.split(",") if models else comparison.models, store.numbers("val")
    cells = [
        Cell(comparison, model, dataset, draw(comparison, model, dataset))
        for dataset in with_data(datasets or comparison.datasets)
        for model in chosen
        if models or not complete(comparison, model, dataset, known)
    ]
    # Without worker processes, runs are computed in this one, which can train one at a time.
    at_once = max(1, len(cells)) if processes > 1 else 1
    compute(cells, store, partial(within_memory, store, run), at_once)
    print(f"{time.time() - begin:5.0f} s in all {dict(done)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
