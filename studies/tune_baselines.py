"""Search settings for baselines of Table 8 without published settings.

    python studies/tune_baselines.py STORE [DEVICE] [WORKERS] [DATASET ...]

Run it in the repository's root. For every such model and dataset, 20 random settings from the
shipped space and the model's defaults are compared by mean validation accuracy on the first three
splits with seed 0. Only the best third of the random settings continues after the first split. On
the three graphs where a run may take minutes, which come last, the model's settings on the six
others are compared instead. The best setting is written to gread/runs/presets/tuned. No test
accuracy is shown, and stored runs are not computed again.
"""

from __future__ import annotations

import math
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean

from gread.base.toml import read_toml
from gread.experiments.far import BORROWED as LARGER
from gread.experiments.protocol import DATASETS, GREAD, preset_of
from gread.experiments.questions import ARTEFACTS
from gread.models.catalog import MODELS
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.search.report import merge_preset, preset_table
from gread.search.space import read_space
from gread.search.study import StudySettings, import_optuna, random_sampler, study_name
from gread.training.config import TrainConfig

ROOT = Path(__file__).parents[1]
DRAWS, SPLITS, SEEDS = 20, [0, 1, 2], [0]
NORMALIZED = ("sgc", "sheaf-bundle", "sheaf-diag", "sheaf-general")
"""Models with row-normalized features in all published settings."""

space_of = cache(read_space)  # checks the bounds of all ranges, which takes a while


@dataclass(frozen=True)
class Cell:
    """Cell of the table, with the settings to compare with the defaults.

    ``validation`` maps keys of runs to known accuracies.
    """

    plan: StudySettings
    settings: list[dict[str, Value]]

    def begin(self) -> list[RunSpec]:
        """Specs of all settings on the first split, and of the defaults on all splits."""
        return [*(self.plan.specs(settings)[0] for settings in self.settings), *self.plan.specs({})]

    def go_on(self, validation: Mapping[str, float | None]) -> list[RunSpec]:
        """Specs of the best third of the settings on the other splits."""
        order = [self.plan.specs(settings) for settings in self.settings]
        order.sort(key=lambda specs: -(validation[specs[0].key] or 0.0))  # stable on ties
        return [spec for specs in order[: math.ceil(len(order) / 3)] for spec in specs[1:]]

    def mean(self, settings: dict[str, Value], validation: Mapping[str, float | None]) -> float:
        """Mean validation accuracy; 0 for a pruned setting."""
        runs = [spec.key for spec in self.plan.specs(settings)]
        return fmean(validation[key] or 0.0 for key in runs) if validation.keys() >= {*runs} else 0

    def best(self, validation: Mapping[str, float | None]) -> dict[str, Value]:
        """Best setting, the earliest on ties."""
        return max(self.settings, key=lambda settings: self.mean(settings, validation))

    def write(self, validation: Mapping[str, float | None]) -> str:
        """Write the selected setting with its comparison."""
        dataset, model = self.plan.dataset, self.plan.model
        best = self.best(validation)
        means = [self.mean(settings, validation) for settings in (best, {})]
        compared = "mean validation accuracy on splits 0-2 {:.2f} and {:.2f}".format(
            *(100 * mean for mean in means)
        )
        kind = "those on other graphs" if dataset in LARGER else "random ones"
        facts = [
            f"the better by validation of the best of {len(self.settings)} settings, {kind},",
            "and of the defaults; docs/baselines.md says how it was selected",
            compared,
        ]
        selected = best if means[0] > means[1] else {}
        path = ROOT / "gread/runs/presets/tuned" / f"{study_name('', model)[1:]}.toml"
        table = preset_table(dataset, facts, selected, self.plan.options)
        merge_preset(path, table, MODELS[model].title)
        return f"{model} {dataset}: {compared}"


def cells(datasets: Iterable[str]) -> list[Cell]:
    """Cells of baselines without published settings."""
    found = dict.fromkeys((spec.model, spec.dataset) for spec in ARTEFACTS["table-8"].specs())
    return [
        cell(model, dataset, {"normalize_features": True} if model in NORMALIZED else {})
        for model, dataset in found
        if dataset in datasets
        and model not in GREAD
        and preset_of(model, dataset).source in ("default", "tuned")
    ]


def cell(model: str, dataset: str, options: Mapping[str, Value]) -> Cell:
    """Cell with the given options of the dataset."""
    plan = StudySettings(dataset, model, {}, "random", True, SPLITS, SEEDS, options)
    return Cell(plan, [*(elsewhere(model) if dataset in LARGER else draws(model, dataset))])


def elsewhere(model: str) -> list[dict[str, Value]]:
    """Settings of the model on the smaller graphs, published or selected there."""
    usual, found = asdict(TrainConfig()), []
    for dataset in DATASETS:
        preset = preset_of(model, dataset)
        if dataset not in LARGER and preset.source != "default":
            train = {k: v for k, v in asdict(preset.train).items() if v != usual[k]}
            if (settings := {**preset.hyper, **train}) not in [{}, *found]:
                found.append(settings)
    return found


def draws(model: str, dataset: str) -> Iterator[dict[str, Value]]:
    """Random settings, equal to those of a search with the same name."""
    space = space_of(model)
    for number in range(DRAWS):
        seed = zlib.crc32(f"{study_name(dataset, model)} {number}".encode())
        yield space.suggest(import_optuna().create_study(sampler=random_sampler(seed)).ask())


def computing(
    store: ResultStore, device: str, workers: str, on_result: Callable[[Result], None] | None = None
) -> Callable[[list[RunSpec]], None]:
    """Function that computes and stores specs with the arguments of the command line."""
    return partial(
        launch,
        store=store,
        executor=find_executor("local"),  # reuses processes between launches
        devices=[device],
        workers=int(workers),
        histories=False,
        on_result=on_result,
    )


def compare(
    wanted: Iterable[Cell], store: ResultStore, compute: Callable[[list[RunSpec]], None]
) -> dict[str, float | None]:
    """Compute the runs to compare, and return validation accuracies."""
    compute([spec for one in wanted for spec in one.begin()])
    validation = store.numbers("val")
    compute([spec for one in wanted for spec in one.go_on(validation)])
    return store.numbers("val")


def main(folder: str, device: str = "cpu", workers: str = "1", *datasets: str) -> None:
    """Tune all cells."""
    import_optuna().logging.set_verbosity(30)
    store, begin = ResultStore(folder), time.time()

    def say(result: Result) -> None:
        spec = result.spec
        what = f"{spec.model} {spec.dataset}: {result.status}, {result.seconds:.0f} s"
        print(f"{time.time() - begin:5.0f} s  {what}", flush=True)

    compute = computing(store, device, workers, say)
    asked = datasets or DATASETS
    for some in (set(asked) - set(LARGER), set(asked) & set(LARGER)):
        wanted = cells(some)
        validation = compare(wanted, store, compute)
        for one in wanted:
            print(one.write(validation), flush=True)
        read_toml.cache_clear()  # larger graphs use the presets just written


if __name__ == "__main__":
    main(*sys.argv[1:])
