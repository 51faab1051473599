"""Searches settings for the honest comparison, every model with the same budget.

    python -m studies.search_honest STORE DEVICE WORKERS MODEL[,MODEL] [DATASET ...]

from the repository's root. The section ``honest`` of gread/experiments/protocol.toml has the
budget. What is best by validation is written to gread/runs/presets/honest, and the runs of the
table follow. Shows no test metric. What is stored is not computed again.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean

from gread.data.catalog import DATASETS
from gread.experiments.honest import BUDGET, budget_of, runs_of_setting, splits_of, training_of
from gread.models.catalog import MODELS
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.search.report import merge_preset, preset_table
from gread.search.space import Space, read_space
from gread.search.study import StudySettings, import_optuna, random_sampler, study_name

PRESETS = Path(__file__).parents[1] / "gread/runs/presets/honest"

space_of = cache(read_space)  # which tries the ends of all ranges, and takes a while


@dataclass(frozen=True)
class Cell:
    """A model on a graph, and the settings to compare."""

    model: str
    dataset: str
    settings: list[dict[str, Value]]

    def specs(self, settings: Mapping[str, Value], splits: Iterable[int]) -> list[RunSpec]:
        """Runs of a setting from the seed of the search."""
        about = {}, "random", False, list(splits), [0]
        return StudySettings(self.dataset, self.model, *about).specs(settings)

    def wide(self) -> list[RunSpec]:
        """All settings on the first splits."""
        first = budget_of(self.dataset).search
        return [spec for one in self.settings for spec in self.specs(one, first)]

    def mean(self, settings: Mapping[str, Value], splits: Iterable[int], known: Known) -> float:
        """Mean validation metric; a run that failed counts as nothing."""
        return fmean(known.get(spec.key) or 0.0 for spec in self.specs(settings, splits))

    def finalists(self, known: Known) -> list[dict[str, Value]]:
        """The best settings of the wide stage, the earlier first on ties."""
        first = budget_of(self.dataset).search
        ranked = sorted(self.settings, key=lambda one: -self.mean(one, first, known))
        return ranked[: BUDGET["finalists"]]

    def narrow(self, known: Known) -> list[RunSpec]:
        """The finalists on all splits."""
        splits = range(splits_of(self.dataset))
        return [spec for one in self.finalists(known) for spec in self.specs(one, splits)]

    def selected(self, known: Known) -> dict[str, Value]:
        """The best finalist."""
        splits = range(splits_of(self.dataset))
        return max(self.finalists(known), key=lambda one: self.mean(one, splits, known))

    def write(self, known: Known) -> str:
        """Writes what is selected, and says how well it does on validation."""
        best, splits = self.selected(known), range(splits_of(self.dataset))
        found = self.mean(best, splits, known)
        facts = [
            f"the best by validation of {len(self.settings)} random settings: "
            f"{100 * found:.2f} on {len(splits)} splits, seed 0"
        ]
        path = PRESETS / f"{study_name('', self.model)[1:]}.toml"
        merge_preset(path, preset_table(self.dataset, facts, best, {}), MODELS[self.model].title)
        return f"{self.model} on {self.dataset}: {100 * found:.2f} {best}"


Known = Mapping[str, float | None]
"""Validation metrics by the key of the run."""


def draw(model: str, dataset: str) -> list[dict[str, Value]]:
    """Random settings; every few of them have the form of the first, see ``protocol.toml``."""
    space = _for_graph(space_of(model), dataset)
    population, budget = MODELS[model].population, budget_of(dataset)
    found: list[dict[str, Value]] = []
    for number in range(budget.draws):
        seed = zlib.crc32(f"honest {study_name(dataset, model)} {number}".encode())
        drawn = space.suggest(import_optuna().create_study(sampler=random_sampler(seed)).ask())
        if population is not None and number % budget.form:
            free = {"lr", "weight_decay", *population.own(drawn)}
            shared = {name: value for name, value in found[-1].items() if name not in free}
            drawn |= shared
        found.append(drawn | training_of(dataset))
    return found


def _for_graph(space: Space, dataset: str) -> Space:
    """What the protocol says of a graph: depth, preprocessing and directions."""
    depths, preprocessing = BUDGET["num_steps"], BUDGET["preprocessing"]
    table = dict(space.table)
    if "num_steps" in table:
        table["num_steps"] = depths.get(dataset, depths["others"])
    if "direction" in table and not DATASETS[dataset].directed:
        table["direction"] = "undirected"
    if dataset in preprocessing["datasets"]:
        table["options.normalize_features"] = preprocessing["normalize_features"]
    return Space(space.model, table)


def compute(cells: list[Cell], store: ResultStore, run: Callable[[list[RunSpec]], None]) -> None:
    """The two stages of the search, and the runs of the table."""
    run([spec for cell in cells for spec in cell.wide()])
    known = store.numbers("val")
    run([spec for cell in cells for spec in cell.narrow(known)])
    known = store.numbers("val")
    for cell in cells:
        print(cell.write(known), flush=True)
    run(
        [
            spec if len(budget_of(cell.dataset).seeds) == 1 else with_record(spec)
            for cell in cells
            for spec in runs_of_setting(cell.model, cell.dataset, cell.selected(known))
        ]
    )


def with_record(spec: RunSpec) -> RunSpec:
    """The run, with what an ensemble of its seeds needs."""
    return replace(spec, record=("probabilities",))


def main(folder: str, device: str, workers: str, models: str, *datasets: str) -> None:
    """All of them."""
    import_optuna().logging.set_verbosity(30)
    store, begin, done = ResultStore(folder), time.time(), Counter[str]()

    def say(result: Result) -> None:
        done[f"{result.spec.dataset} {result.status}"] += 1
        if sum(done.values()) % 200 == 0:
            print(f"{time.time() - begin:5.0f} s {dict(done)}", flush=True)

    run = partial(
        launch,
        store=store,
        executor=find_executor("local"),
        devices=[device],
        workers=int(workers),
        histories=False,
        on_result=say,
    )
    cells = [Cell(m, d, draw(m, d)) for m in models.split(",") for d in datasets]
    compute(cells, store, run)
    print(f"{time.time() - begin:5.0f} s in all {dict(done)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
