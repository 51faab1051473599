"""Searches settings for the honest comparison, every model with the same budget.

    python -m studies.search_honest STORE DEVICE WORKERS MODEL[,MODEL] [DATASET ...]

from the repository's root. The section ``honest`` of gread/experiments/protocol.toml has the
budget. What is best by validation is written to gread/runs/presets/honest, and the runs of the
table follow. Shows no test metric. What is stored, or committed in studies/honest-trials.jsonl.xz,
is not computed again.
"""

from __future__ import annotations

import math
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean

from gread.data.catalog import DATASETS
from gread.experiments.honest import BUDGET, budget_of, runs_of_setting, splits_of, training_of
from gread.models.catalog import MODELS
from gread.runs.archive import ENDING, read_results
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.search.report import merge_preset, preset_table
from gread.search.space import DIGITS, Range, Space, read_space
from gread.search.study import StudySettings, import_optuna, random_sampler, study_name

PRESETS = Path(__file__).parents[1] / "gread/runs/presets/honest"
TRIALS = Path(__file__).with_name(f"honest-trials{ENDING}")
"""Runs of the search that are committed."""

space_of = cache(read_space)  # which tries the ends of all ranges, and takes a while


@dataclass(frozen=True)
class Cell:
    """A model on a graph, and the settings to compare.

    Example:
        >>> cell = Cell("mlp", "texas", draw("mlp", "texas"))
        >>> len(cell.settings), len(cell.specs(cell.settings[0], splits=range(3)))
        (24, 3)
    """

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

    def best(self, count: int, known: Known) -> list[dict[str, Value]]:
        """Those with the best mean on the first splits, the earlier first on ties."""
        first = budget_of(self.dataset).search
        ranked = sorted(self.settings, key=lambda one: -self.mean(one, first, known))
        return ranked[:count]

    def with_near(self, known: Known) -> Cell:
        """With as many settings again, near the best of these."""
        parents = self.best(BUDGET["parents"], known)
        return replace(self, settings=self.settings + draw(self.model, self.dataset, parents))

    def finalists(self, known: Known) -> list[dict[str, Value]]:
        """The best settings on the first splits."""
        return self.best(budget_of(self.dataset).finalists, known)

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
            f"the best by validation of {len(self.settings)} settings: "
            f"{100 * found:.2f} on {len(splits)} splits, seed 0"
        ]
        path = PRESETS / f"{study_name('', self.model)[1:]}.toml"
        merge_preset(path, preset_table(self.dataset, facts, best, {}), MODELS[self.model].title)
        return f"{self.model} on {self.dataset}: {100 * found:.2f} {best}"


Known = Mapping[str, float | None]
"""Validation metrics by the key of the run."""


def draw(
    model: str, dataset: str, parents: Sequence[Mapping[str, Value]] = ()
) -> list[dict[str, Value]]:
    """Random settings, or such near parents."""
    space = _for_graph(space_of(model), dataset)
    stage = "honest near" if parents else "honest"
    found: list[dict[str, Value]] = []
    for number in range(budget_of(dataset).draws):
        seed = zlib.crc32(f"{stage} {study_name(dataset, model)} {number}".encode())
        if parents:
            drawn = near(space, parents[number % len(parents)], random.Random(seed))
        else:
            drawn = space.suggest(import_optuna().create_study(sampler=random_sampler(seed)).ask())
        found.append(drawn | training_of(dataset))
    return found


def near(space: Space, parent: Mapping[str, Value], chance: random.Random) -> dict[str, Value]:
    """A setting like another: numbers within a third of their ranges, two of three choices kept."""
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
    if isinstance(part.low, int) and isinstance(part.high, int):
        drawn = round(drawn)
    return min(part.high, max(part.low, float(f"{drawn:.{DIGITS}g}")))


def _for_graph(space: Space, dataset: str) -> Space:
    """What the protocol says of a graph, for every model that has such a setting."""
    depths = BUDGET["num_steps"]
    table = dict(space.table)
    if "num_steps" in table:
        table["num_steps"] = depths.get(dataset, depths["others"])
    if "input_dropout" in table and dataset in BUDGET["few_features"]:
        table["input_dropout"] = 0.0
    if "embedding" in table and dataset in BUDGET["sparse"]:
        table["embedding"] = False
    rules = {**budget_of(dataset).fixed, **BUDGET.get(dataset, {})}
    table |= {name: drawn for name, drawn in rules.items() if name in space.parts}
    if "direction" in table and not DATASETS[dataset].directed:
        table["direction"] = "undirected"
    for option, drawn in BUDGET["preprocessing"].items():
        if dataset in drawn["datasets"]:
            table[f"options.{option}"] = drawn["values"]
    return Space(space.model, table)


def compute(cells: list[Cell], store: ResultStore, run: Callable[[list[RunSpec]], None]) -> None:
    """The three stages of the search, and the runs of the table."""
    run([spec for cell in cells for spec in cell.wide()])
    known = store.numbers("val")
    cells = [cell.with_near(known) for cell in cells]
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
    if TRIALS.exists():
        store.put(*read_results(TRIALS))

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
