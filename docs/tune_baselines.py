"""Searches settings for the baselines of Table 8 where nobody has published any.

    python docs/tune_baselines.py STORE [DEVICE] [PROCESSES] [DATASET ...]

from the repository's root. Of every such model and dataset, 20 random draws from the shipped space
and the model's defaults are compared by mean validation accuracy on the first three splits with
seed 0, where the best third goes on after the first split. What is best is written to
gread/presets/tuned. Shows no test accuracy. Each cell goes on where it was left.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean

import torch
from filelock import FileLock

from docs.measure_search import LENGTHS, share_device
from docs.report_search import ROOT
from gread.experiments import ARTEFACTS
from gread.experiments.protocol import GREAD, preset_of
from gread.models import MODELS
from gread.runs import ResultStore, launch
from gread.runs.spec import Value
from gread.search import read_space, search, select
from gread.search.report import merge_preset, preset_table
from gread.search.study import Plan, import_optuna, study_name

TRIALS, SPLITS, SEEDS = 20, [0, 1, 2], [0]
NORMALIZED = ("sgc", "sheaf-bundle", "sheaf-diag", "sheaf-general")
"""All published settings of these have rows of features that sum to one."""


def cells() -> list[tuple[str, str]]:
    """Models and datasets of the table, GREAD's aside, that nobody has published settings for."""
    found = dict.fromkeys((spec.model, spec.dataset) for spec in ARTEFACTS["table-8"].specs())
    return [c for c in found if c[0] not in GREAD and preset_of(*c).source in ("default", "tuned")]


def tune(model: str, dataset: str, folder: str, device: str) -> str:
    """Searches one of them."""
    import_optuna().logging.set_verbosity(30)
    begin, store = time.time(), ResultStore(folder)
    options: dict[str, Value] = {"normalize_features": True} if model in NORMALIZED else {}
    trials = search(
        *(dataset, model),
        trials=TRIALS,
        store=store,
        prune=True,
        splits=SPLITS,
        seeds=SEEDS,
        options=options,
        batch=TRIALS,
        devices=[device],
    )
    best = select(trials, read_space(model))
    plan = Plan(dataset, model, {}, "", False, SPLITS, SEEDS, options)
    usual = plan.specs({})
    launch(usual, store, devices=[device], histories=False)
    validation = store.numbers("val")
    means = best.mean, fmean(validation[spec.key] or 0.0 for spec in usual)
    facts = [
        f"the better by validation of the best of {TRIALS} random settings and of the defaults",
        "mean validation accuracy on splits 0-2 {:.2f} and {:.2f}".format(
            *(100 * m for m in means)
        ),
        "docs/baselines.md says how it was selected",
    ]
    settings = best.settings if means[0] > means[1] else {}
    path = ROOT / "gread/presets/tuned" / f"{study_name('', model)[1:]}.toml"
    with FileLock(Path(folder) / "presets.lock"):
        merge_preset(path, preset_table(dataset, facts, settings, options), MODELS[model].title)
    return f"{model} {dataset}: {facts[1]}, {time.time() - begin:.0f} s"


def main(folder: str, device: str = "cpu", processes: str = "1", *datasets: str) -> None:
    """All of them, several at a time, the longest first."""
    count = int(processes)
    context = multiprocessing.get_context("spawn")
    setup = share_device, (count, max(1, torch.get_num_threads() // count))
    begin = time.time()
    with ProcessPoolExecutor(count, context, *setup) as pool:
        wanted = [cell for cell in cells() if not datasets or cell[1] in datasets]
        wanted.sort(key=lambda cell: LENGTHS.get(cell[1], len(LENGTHS)))
        found = [pool.submit(tune, *cell, folder, device) for cell in wanted]
        for future in as_completed(found):
            said = future.exception() or future.result()
            print(f"{time.time() - begin:5.0f} s  {said}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
