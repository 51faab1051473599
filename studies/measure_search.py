"""Run the searches of docs/reproducibility.md in resumable stages.

    python studies/measure_search.py STAGE STORE [DEVICE] [PROCESSES] [SECONDS]

Run it in the repository's root, with STAGE one of: wide, near, second, select, final. No stage
shows a test accuracy; studies/report_search.py does, after the last stage. The stage select writes
results/trials.csv and results/selected.json, the only inputs of later stages.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

import gread
from gread.base.errors import InputError
from gread.runs.launch import launch
from gread.runs.presets import find_preset
from gread.runs.records import RECORDS
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.search.search import search
from gread.search.selection import Trial, select
from gread.search.space import Range, Space, read_space
from gread.search.study import (
    StudySettings,
    create_study,
    import_optuna,
    load_study,
    study_name,
    trials_of,
)

WEBKB = ("texas", "wisconsin", "cornell")
LARGER = {"squirrel": 30, "pubmed": 40, "citeseer": 40, "film": 40, "cora": 40, "chameleon": 40}
"""Number of trials of GREAD-BS near the published setting on larger graphs."""

OTHER_DATA = {"squirrel-filtered": "squirrel", "chameleon-filtered": "chameleon"}
OTHER_DATA |= {"cornell-fixed": "cornell"}
"""Datasets without published settings, and the dataset whose settings are used."""

OTHERS = tuple(f"gread-{reaction}" for reaction in ("f", "ac", "z", "st", "fb", "fb*"))
ALL_FAILED = "gread-z", "squirrel"
"""Model and dataset with a third anchor: no setting around the first two had finite results."""

SPLITS = range(10)
RULES = ("best-mean", "lowest-loss", "one-standard-error", "neighbours")
BEST_OF_ALL = "best of all by validation"
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Study:
    """Trials of one search.

    Attributes:
        dataset: A name of ``gread.DATASETS``.
        model: A name of ``gread.MODELS``.
        kind: ``wide``: random draws from the shipped space; ``tpe``: that space by TPE; ``near``:
            random draws around a known setting.
        trials: Number of trials.
        splits: Splits of every trial.
        seeds: Seeds of every trial.
        prune: Whether poor trials are pruned.
        around: Index in `anchors`, for a near study.
        best: Number of best settings that are compared with those of other studies.
    """

    dataset: str
    model: str
    kind: str
    trials: int
    splits: Sequence[int] = SPLITS
    seeds: Sequence[int] = (0,)
    prune: bool = False
    around: int = 0
    best: int = 5

    @property
    def name(self) -> str:
        """Name of the study."""
        kind = {"wide": "", "tpe": "-tpe", "near": f"-near-{self.around}"}[self.kind]
        return study_name(self.dataset, self.model) + kind


@dataclass(frozen=True)
class Contest:
    """Comparison of settings of a model on a dataset.

    Attributes:
        dataset: A name of ``gread.DATASETS``.
        model: A name of ``gread.MODELS``.
        studies: Studies whose best settings are compared.
        splits: Splits of the comparison.
        seeds: Seeds of the comparison.
        final: Seeds of the runs whose test accuracy is reported.
    """

    dataset: str
    model: str
    studies: tuple[Study, ...]
    splits: Sequence[int] = SPLITS
    seeds: Sequence[int] = (0, 1, 2)
    final: Sequence[int] = (3, 4, 5)


def contests() -> Iterator[Contest]:
    """Contests of all searches."""
    for dataset in WEBKB:
        about = dataset, "gread-bs"
        near = [
            Study(*about, "near", 20, seeds=(0, 1, 2), around=anchor) for anchor in range(1 + TOP)
        ]
        tpe = Study(*about, "tpe", 100, prune=True, best=10)
        yield Contest(*about, (Study(*about, "wide", 500, best=20), tpe, *near))
    fixed = Study("cornell-fixed", "gread-bs", "near", 60, seeds=(0, 1, 2))
    yield Contest("cornell-fixed", "gread-bs", (fixed,))
    few = {"splits": range(3), "prune": True}
    for dataset, trials in {**LARGER, **dict.fromkeys(list(OTHER_DATA)[:2], 40)}.items():
        study = Study(dataset, "gread-bs", "near", trials, **few)
        yield Contest(dataset, "gread-bs", (study,), seeds=(0,))
    for model in OTHERS:
        for dataset in WEBKB:
            both = [Study(dataset, model, "near", 30, prune=True, around=k) for k in range(2)]
            yield Contest(dataset, model, tuple(both))
        for dataset in LARGER:
            trials = 2 if dataset == "squirrel" else 4
            near = [Study(dataset, model, "near", trials, **few, around=k) for k in range(2)]
            if (model, dataset) == ALL_FAILED:
                near.append(Study(dataset, model, "near", 8, **few, around=2))
            yield Contest(dataset, model, tuple(near), range(3), (0,), (3,))


TOP = 5
"""Number of settings of the wide study that near studies use as anchors."""


def anchors(study: Study, store: ResultStore) -> list[Mapping]:
    """Anchors of near studies; those from an unfinished wide study are missing.

    For GREAD-BS, the published setting and the best of the wide study by validation. For other
    reactions, the paper's setting and the published one of GREAD-BS, with a positive β if a
    negative one diverges. If all of these fail, the selected setting of GREAD-F.
    """
    published = known("gread-bs", study.dataset, "published")
    if study.model != "gread-bs":
        positive = "positive-vector" in read_space(study.model).parts["beta"].ends()
        lent = published | ({"beta": "positive-vector"} if positive else {})
        found = [known(study.model, study.dataset, "paper"), lent]
        if (study.model, study.dataset) == ALL_FAILED:
            found.append(known("gread-f", study.dataset, "tuned"))
        return found
    wide = replace(study, kind="wide", trials=500)
    return [published, *(trial.settings for trial in ranking(wide, store)[:TOP])]


def known(model: str, dataset: str, source: str) -> dict:
    """Settings of a preset."""
    preset = find_preset(model, OTHER_DATA.get(dataset, dataset), source)
    return {**preset.hyper, **{name: getattr(preset.train, name) for name in TRAINING}}


TRAINING = ("epochs", "lr", "weight_decay", "patience")


def space_of(study: Study, store: ResultStore) -> Space:
    """Search space of a study."""
    if study.kind != "near":
        return read_space(study.model)
    return near(study.model, anchors(study, store)[study.around])


def near(model: str, settings: Mapping) -> Space:
    """Space of numbers near those of a setting; everything else is fixed."""
    wide = read_space(model)
    table = {**{name: value for name, value in settings.items() if value is not None}, **wide.fixed}
    for name, part in wide.parts.items():
        if isinstance(part, Range):
            value = settings[name]
            if name in FACTORS:
                low, high = (max(value, 1e-6) * factor for factor in FACTORS[name])
            else:
                low, high = max(0.0, value - MARGIN), min(0.95, value + MARGIN)
            log = {"log": True} if name in ("lr", "weight_decay") else {}
            table[name] = {"low": float(f"{low:.4g}"), "high": float(f"{high:.4g}"), **log}
    return Space(model, table)


FACTORS = {"lr": (0.5, 2.0), "weight_decay": (0.25, 4.0)}
FACTORS |= {"time": (0.75, 1.33), "step_size": (0.75, 1.33)}
MARGIN = 0.15
"""Half the width of the range of a dropout rate."""


@RECORDS.register("ensemble")
def ensemble(model, data) -> dict[str, list[list[int]]]:
    """Probabilities of all nodes in thousandths, at T and averaged over five times from T/2."""
    times = [model.time * share for share in (0.5, 0.625, 0.75, 0.875, 1.0)]
    states = model.evolve(data.x, data.edge_index, data.edge_weight, save_at=times).saved
    found = torch.stack([model.decoder(h).softmax(-1) for h in states])
    both = {"at_the_end": found[-1], "over_time": found.mean(0)}
    return {name: (1000 * p).round().int().tolist() for name, p in both.items()}


def run_study(study: Study, folder: str, device: str, workers: int = 1) -> str:
    """Run or resume a study."""
    import_optuna().logging.set_verbosity(30)
    start, store = time.time(), ResultStore(folder)
    space = space_of(study, store)
    if study.kind == "near":
        begin_with_the_anchor(study, space, store)
    search(
        study.dataset,
        study.model,
        trials=study.trials,
        store=store,
        space=space,
        sampler="tpe" if study.kind == "tpe" else "random",
        prune=study.prune,
        splits=list(study.splits),
        seeds=list(study.seeds),
        study=study.name,
        batch=25 if study.kind == "tpe" else study.trials,
        devices=[device],
        workers=workers,
    )
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return f"{study.name}: {study.trials} trials, {time.time() - start:.0f} s"


def begin_with_the_anchor(study: Study, space: Space, store: ResultStore) -> None:
    """Enqueue the anchor as the first trial."""
    plan = StudySettings(
        *(study.dataset, study.model, space.table, "random", study.prune),
        *(list(study.splits), list(study.seeds)),
    )
    kept = create_study(study.name, plan, None, store.path.parent / "studies", study.trials)
    if not kept.get_trials(deepcopy=False):
        anchor = anchors(study, store)[study.around]
        within = {n: min(max(anchor[n], p.low), p.high) for n, p in space.parts.items()}
        kept.enqueue_trial(within)


def share_device(processes: int, threads: int) -> None:
    """Limit a process to its share of the device.

    A tenth of the device is left for the CUDA contexts of all processes.
    """
    torch.set_num_threads(threads)
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(0.9 / processes)


def wide_studies(folder: str, device: str, processes: int, seconds: float) -> None:
    """Run the wide studies in sequence, each in all processes."""
    begin = time.time()
    for contest in contests():
        for study in contest.studies:
            if study.kind == "wide" and time.time() - begin < seconds:
                said = run_study(study, folder, device, processes)
                print(f"{time.time() - begin:5.0f} s  {said}", flush=True)


def near_studies(folder: str, device: str, processes: int, seconds: float) -> None:
    """Run the other studies concurrently until the time limit, longest first."""
    context = multiprocessing.get_context("spawn")
    setup = share_device, (processes, max(1, torch.get_num_threads() // processes))
    begin, others = time.time(), set(multiprocessing.active_children())
    store = ResultStore(folder)
    studies = [study for contest in contests() for study in contest.studies]
    open_ = [s for s in studies if s.kind != "wide" and len(trials_in(s, store)) < s.trials]
    open_.sort(key=lambda study: (study.kind != "tpe", LENGTHS.get(study.dataset, len(LENGTHS))))
    print(f"{len(open_)} studies", flush=True)
    with ProcessPoolExecutor(processes, context, *setup) as pool:
        left = {pool.submit(run_study, study, folder, device) for study in open_}
        while left and time.time() - begin < seconds:
            done, left = wait(left, timeout=1.0, return_when="FIRST_COMPLETED")
            for future in done:
                said = future.exception() or future.result()
                print(f"{time.time() - begin:5.0f} s  {said}", flush=True)
        if left:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
    unfinished = sum(not trials_in(study, store) for study in open_)
    if unfinished:
        sys.exit(f"{unfinished} studies are left")


LENGTHS = {name: place for place, name in enumerate((*LARGER, "squirrel-filtered"))}


def trials_in(study: Study, store: ResultStore) -> list[Trial]:
    """All trials of a study; empty if it is not finished."""
    if study.name not in _finished:
        try:
            kept, _ = load_study(study.name, None, store.path.parent / "studies")
            found = trials_of(kept, space_of(study, store))
        except (InputError, IndexError):
            return []
        if len(found) < study.trials:
            return []
        _finished[study.name] = found
    return _finished[study.name]


_finished: dict[str, list[Trial]] = {}
"""Cache of trials, because reading a journal takes a second."""


def ranking(study: Study, store: ResultStore) -> list[Trial]:
    """Complete trials of a finished study, best validation first."""
    complete = [trial for trial in trials_in(study, store) if trial.complete]
    return sorted(complete, key=lambda trial: (-trial.mean, trial.number))


def runs(
    contest: Contest, settings, seeds: Iterable[int], splits: Sequence[int] = SPLITS, **more
) -> list[RunSpec]:
    """Specs of a setting on splits and seeds."""
    plan = StudySettings(contest.dataset, contest.model, {}, "", False, splits, list(seeds))
    return [replace(spec, **more) for spec in plan.specs(settings)]


def candidates(contest: Contest, store: ResultStore) -> list[tuple[str, Mapping]]:
    """Settings to compare, with the kind of their study."""
    found = [
        (study.kind, trial.settings)
        for study in contest.studies
        for trial in ranking(study, store)[: study.best]
    ]
    if contest.model == "gread-bs":
        found.append(("published", known("gread-bs", contest.dataset, "published")))
    return found


def selected(contest: Contest, store: ResultStore, val: Mapping) -> dict:
    """Setting of each selection rule, by validation only, and the result of the last rule."""
    means = [
        (kind, fmean(val.get(s.key) or 0.0 for s in compared(contest, settings)), settings)
        for kind, settings in candidates(contest, store)
    ]
    ways: dict[str, Mapping] = {}
    if contest.model == "gread-bs":
        for kind in dict.fromkeys(kind for kind, _, _ in means):
            ways[kind] = max((m for m in means if m[0] == kind), key=lambda m: m[1])[2]
    for study in contest.studies:
        if study.kind == "wide":
            trials, space = trials_in(study, store), space_of(study, store)
            ways |= {f"wide, {rule}": select(trials, space, rule).settings for rule in RULES}
    kind, mean, settings = max(means, key=lambda m: m[1])
    return {
        "dataset": contest.dataset,
        "model": contest.model,
        "kind": kind,
        "validation": mean,
        "ways": {**ways, BEST_OF_ALL: settings},
    }


def compared(contest: Contest, settings) -> list[RunSpec]:
    """Runs that compare a setting with others."""
    return runs(contest, settings, contest.seeds, contest.splits)


def second_specs(store: ResultStore) -> Iterator[RunSpec]:
    """All runs that compare settings of several studies."""
    for contest in contests():
        for _, settings in candidates(contest, store):
            yield from compared(contest, settings)


def write_selection(store: ResultStore) -> None:
    """Write the selected settings and the results of all complete trials."""
    open_ = [s.name for c in contests() for s in c.studies if not trials_in(s, store)]
    if open_:
        sys.exit(f"studies are not finished: {', '.join(open_)}")
    missing = store.missing(second_specs(store))
    if missing:
        sys.exit(f"{len(missing)} runs of the second stage are missing")
    val, test = store.numbers("val"), store.numbers("test")
    with open(RESULTS / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["study", "trial", "runs", "validation", "test"])
        for contest in contests():
            for study in contest.studies:
                for trial in sorted(ranking(study, store), key=lambda trial: trial.number):
                    own = runs(contest, trial.settings, study.seeds, study.splits)
                    tests = fmean(test[spec.key] or 0.0 for spec in own)
                    means = (f"{100 * mean:.2f}" for mean in (trial.mean, tests))
                    writer.writerow([study.name, trial.number, len(own), *means])
    found = [selected(contest, store, val) for contest in contests()]
    (RESULTS / "selected.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def read_selection() -> Iterator[tuple[Contest, dict]]:
    """Read contests with their selected settings."""
    found = json.loads((RESULTS / "selected.json").read_text("utf-8"))
    yield from zip(contests(), found, strict=True)


def final_specs() -> Iterator[RunSpec]:
    """Specs of all runs whose test accuracy is reported."""
    for contest, found in read_selection():
        for way, settings in found["ways"].items():
            yield from runs(contest, settings, contest.final, record=record_of(contest, way))


def record_of(contest: Contest, way: str) -> tuple[str, ...]:
    """Records of final runs: probabilities for ensembles of the tuned setting."""
    return ("ensemble",) if contest.model == "gread-bs" and way == BEST_OF_ALL else ()


def compute(specs: Iterable[RunSpec], store: ResultStore, device: str, processes: int) -> None:
    """Compute missing runs."""
    wanted = list(dict.fromkeys(specs))
    begin, done = time.time(), 0

    def told(result) -> None:
        nonlocal done
        done += 1
        if done % 500 == 0:
            print(f"{time.time() - begin:5.0f} s  {done} runs", flush=True)

    print(f"{len(wanted)} runs, {len(store.missing(wanted))} missing", flush=True)
    launch(wanted, store, devices=[device], workers=processes, histories=False, on_result=told)
    print(f"{time.time() - begin:5.0f} s  all", flush=True)


def main(stage: str, folder: str, device: str = "cpu", processes: str = "1", seconds: str = "3600"):
    """Run a stage."""
    print(f"gread {gread.__version__}, {stage}", flush=True)
    store = ResultStore(folder)
    if stage in ("wide", "near"):
        work = wide_studies if stage == "wide" else near_studies
        work(folder, device, int(processes), float(seconds))
    elif stage == "select":
        write_selection(store)
    else:
        specs = {"second": lambda: second_specs(store), "final": final_specs}[stage]
        compute(specs(), store, device, int(processes))


if __name__ == "__main__":
    main(*sys.argv[1:])
