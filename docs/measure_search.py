"""The searches of docs/reproducibility.md, stage after stage; each goes on where it was left.

    python docs/measure_search.py STAGE STORE [DEVICE] [PROCESSES] [MINUTES]

from the repository's root, with STAGE one of: search, second, final. None of them shows a test
accuracy; docs/report_search.py does, when all is over.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

import gread
from gread.inputs import InputError
from gread.runs import RECORDS, ResultStore, RunSpec, find_preset, launch
from gread.search import Space, Trial, read_space, search, select
from gread.search.study import (
    Plan,
    create_study,
    import_optuna,
    load_study,
    study_name,
    trials_of,
)

WEBKB = ("texas", "wisconsin", "cornell")
OTHERS = tuple(f"gread-{reaction}" for reaction in ("f", "ac", "z", "st", "fb", "fb*"))
SPLITS = range(10)
RULES = ("lowest-loss", "one-standard-error", "neighbours")


@dataclass(frozen=True)
class Cell:
    """One study, and what follows from it.

    Attributes:
        dataset: Where.
        model: Which.
        trials: How many.
        splits: Of the trials.
        prune: Whether the poor ones end early.
        sampler: How settings are drawn.
        kind: Empty, or what is different about this study.
        drawn: Seeds of the trials.
        best: So many settings go into the second stage,
        stage: on these splits,
        seeds: with these seeds.
        final: Seeds of the runs whose test accuracy is reported.
    """

    dataset: str
    model: str
    trials: int
    splits: Sequence[int] = SPLITS
    prune: bool = True
    sampler: str = "random"
    kind: str = ""
    drawn: Sequence[int] = (0,)
    best: int = 20
    stage: Sequence[int] = SPLITS
    seeds: Sequence[int] = (0, 1, 2)
    final: Sequence[int] = (3, 4, 5)

    @property
    def lent(self) -> bool:
        """Whether the settings are those of GREAD-BS's refined study: there is no other."""
        return self.kind == "lent"

    @property
    def study(self) -> str:
        """Its name."""
        if self.lent:
            return replace(self, model="gread-bs", kind="refined").study
        name = study_name(self.dataset, self.model)
        return f"{name}-{self.kind}" if self.kind else name

    @property
    def space(self) -> Space:
        """What settings are drawn from."""
        path = Path(__file__).parent / "paper-space.toml" if self.kind == "paper-space" else None
        return read_space("gread-bs" if self.lent else self.model, path)


def cells() -> Iterator[Cell]:
    """All studies, the most important first."""
    for dataset in WEBKB:
        yield Cell(dataset, "gread-bs", 500, prune=False)
    few = {"splits": range(3), "seeds": (0,)}
    for dataset, trials in LARGER.items():
        yield Cell(dataset, "gread-bs", trials, best=5, **few)
    yield Cell("cornell-fixed", "gread-bs", 100)
    refined = {"prune": False, "sampler": "tpe", "kind": "refined"}
    for dataset in (*WEBKB, "cornell-fixed"):
        yield Cell(dataset, "gread-bs", 150, drawn=(0, 1, 2), best=10, **refined)
    for dataset, trials in LARGER.items():
        yield Cell(dataset, "gread-bs", again(trials), best=5, **few, **refined)
    for model in OTHERS:
        for dataset in WEBKB:
            yield Cell(dataset, model, 100, best=10)
    for kind, sampler, trials in (("paper-space", "random", 500), ("tpe", "tpe", 100)):
        for dataset in WEBKB:
            yield Cell(dataset, "gread-bs", trials, sampler=sampler, kind=kind)
    one = {"best": 5, "stage": range(3), "seeds": (0,), "final": (3,)}
    for dataset in ("cora", "citeseer", "chameleon", "pubmed", "film", "squirrel"):
        for model in OTHERS:
            yield Cell(dataset, model, again(LARGER[dataset]), kind="lent", **one)


def again(trials: int) -> int:
    """Trials of the refined study after so many random ones on a larger graph."""
    return 3 * trials // 4


LARGER = {
    **{"cora": 150, "citeseer": 150, "chameleon": 100, "film": 60, "pubmed": 60, "squirrel": 50},
    **{"chameleon-filtered": 100, "squirrel-filtered": 60},
}
"""Trials of GREAD-BS: a trial on a larger graph takes longer, and its validation set is larger."""


@RECORDS.register("ensemble")
def ensemble(model, data) -> dict[str, list[list[float]]]:
    """Probabilities of all nodes: at T, and their mean over five times from T/2 to T."""
    times = [model.time * share for share in (0.5, 0.625, 0.75, 0.875, 1.0)]
    states = model.evolve(data.x, data.edge_index, data.edge_weight, save_at=times).saved
    found = torch.stack([model.decoder(h).softmax(-1) for h in states])
    both = {"at_the_end": found[-1], "over_time": found.mean(0)}
    return {name: (p * 1e4).round().div(1e4).tolist() for name, p in both.items()}


def run_search(cell: Cell, folder: str, device: str) -> str:
    """One study, from where it is."""
    import_optuna().logging.set_verbosity(30)
    start, store = time.time(), ResultStore(folder)
    if cell.kind == "refined":
        begin_where_others_ended(cell, store)
    search(
        cell.dataset,
        cell.model,
        trials=cell.trials,
        store=store,
        space=cell.space,
        sampler=cell.sampler,
        prune=cell.prune,
        splits=list(cell.splits),
        seeds=list(cell.drawn),
        study=cell.study,
        batch=BATCHES.get(cell.kind, cell.trials),
        devices=[device],
    )
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return f"{cell.study}: {cell.trials} trials, {time.time() - start:.0f} s"


BATCHES = {"tpe": 64, "refined": 16}
"""Of studies that learn from the trials before."""


def begin_where_others_ended(cell: Cell, store: ResultStore) -> None:
    """The first trials of a refined study: the best of the first one, and the published setting."""
    first = first_of(cell)
    plan = Plan(
        *(cell.dataset, cell.model, cell.space.table, cell.sampler, cell.prune),
        *(list(cell.splits), list(cell.drawn)),
    )
    study = create_study(cell.study, plan, None, store.path.parent / "studies", cell.trials)
    if not study.get_trials(deepcopy=False):
        known = published(cell)
        best = sorted(trials_in(first, store), key=lambda trial: (-trial.mean, trial.number))
        for settings in [*([known] if known else []), *(trial.settings for trial in best[:10])]:
            study.enqueue_trial({n: v for n, v in settings.items() if n in cell.space.parts})


def share_device(processes: int, threads: int) -> None:
    """What a process does first: it takes no more than its part.

    A tenth of the device is left for what CUDA itself needs in each process.
    """
    torch.set_num_threads(threads)
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(0.9 / processes)


def search_all(folder: str, device: str, processes: int, seconds: float) -> None:
    """All studies, several at a time, until the time is over."""
    context = multiprocessing.get_context("spawn")
    setup = share_device, (processes, max(1, torch.get_num_threads() // processes))
    begin, others = time.time(), set(multiprocessing.active_children())
    with ProcessPoolExecutor(processes, context, *setup) as pool:
        left = {pool.submit(run_search, cell, folder, device) for cell in cells() if not cell.lent}
        while left and time.time() - begin < seconds:
            done, left = wait(left, timeout=1.0, return_when="FIRST_COMPLETED")
            for future in done:
                print(f"{time.time() - begin:5.0f} s  {future.exception() or future.result()}")
        if left:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)


def trials_in(cell: Cell, store: ResultStore) -> list[Trial]:
    """The complete trials of a finished study; none of one that is not."""
    try:
        study, _ = load_study(cell.study, None, store.path.parent / "studies")
    except InputError:
        return []
    found = trials_of(study, cell.space)
    return [t for t in found if t.complete] if len(found) >= cell.trials else []


def runs(
    cell: Cell, settings, seeds: Iterable[int], splits: Sequence[int] = SPLITS, **more
) -> list[RunSpec]:
    """A setting on all splits."""
    plan = Plan(cell.dataset, cell.model, {}, "", False, splits, list(seeds))
    return [replace(spec, **more) for spec in plan.specs(settings)]


def second_stage(cell: Cell, trials: Sequence[Trial]) -> dict[int, list[RunSpec]]:
    """The runs of the best settings by validation, by the number of the trial."""
    best = sorted(trials, key=lambda trial: (-trial.mean, trial.number))[: cell.best]
    return {trial.number: runs(cell, trial.settings, cell.seeds, cell.stage) for trial in best}


def first_of(refined: Cell) -> Cell:
    """The study that a refined one goes on from."""
    return next(c for c in cells() if c.study == study_name(refined.dataset, refined.model))


def published(cell: Cell) -> dict | None:
    """The settings of the published code, where it has some."""
    try:
        preset = find_preset(cell.model, cell.dataset, "published")
    except InputError:
        return None
    return {**preset.hyper, **{k: getattr(preset.train, k) for k in TRAINING}}


TRAINING = ("epochs", "lr", "weight_decay", "patience")


def selected(cell: Cell, store: ResultStore, val: dict[str, float | None]) -> dict[str, dict]:
    """The setting that each rule selects, by validation alone: rule to settings."""
    trials = trials_in(cell, store)
    if not trials:
        return {}
    means = {
        number: fmean(val.get(spec.key) or 0.0 for spec in specs)
        for number, specs in second_stage(cell, trials).items()
    }
    settings = {trial.number: dict(trial.settings) for trial in trials}
    winner = max(means, key=lambda number: (means[number], -number))
    found = {"search": settings[winner]}
    if cell.kind == "refined":
        rivals = selected(first_of(cell), store, val)
        rival = rivals.get("better by validation", rivals["search"])
        own = fmean(val.get(spec.key) or 0.0 for spec in runs(cell, rival, cell.seeds))
        found["best of all by validation"] = rival if own > means[winner] else settings[winner]
    if cell.model == "gread-bs" and not cell.kind:
        if cell.dataset in WEBKB:
            found["no second stage"] = dict(select(trials, cell.space).settings)
            found |= {rule: dict(select(trials, cell.space, rule).settings) for rule in RULES}
        known = published(cell)
        if known:
            own = fmean(val.get(spec.key) or 0.0 for spec in runs(cell, known, cell.seeds))
            found["published"] = known
            found["better by validation"] = known if own > means[winner] else settings[winner]
    return found


def second_specs(store: ResultStore) -> Iterator[RunSpec]:
    """All runs of the second stage."""
    for cell in cells():
        for specs in second_stage(cell, trials_in(cell, store)).values():
            yield from specs
        known = published(cell) if cell.model == "gread-bs" and not cell.kind else None
        if known:
            yield from runs(cell, known, cell.seeds)


def final_specs(store: ResultStore) -> Iterator[RunSpec]:
    """All runs whose test accuracy is reported."""
    val = store.numbers("val")
    for cell in cells():
        for rule, settings in selected(cell, store, val).items():
            more = {"record": ("ensemble",)} if with_ensembles(cell, rule) else {}
            yield from runs(cell, settings, cell.final, **more)


def with_ensembles(cell: Cell, rule: str) -> bool:
    """Whether the probabilities of these runs are kept."""
    main = {"": "search", "refined": "best of all by validation"}
    return cell.model == "gread-bs" and main.get(cell.kind) == rule


def compute(specs: Iterable[RunSpec], store: ResultStore, device: str, processes: int) -> None:
    """What is missing of them."""
    wanted = list(dict.fromkeys(specs))
    begin, done = time.time(), 0

    def told(result) -> None:
        nonlocal done
        done += 1
        if done % 500 == 0:
            print(f"{time.time() - begin:5.0f} s  {done} runs", flush=True)

    print(f"{len(wanted)} runs, {len(store.missing(wanted))} missing", flush=True)
    launch(
        wanted,
        store,
        devices=[device],
        workers=processes,
        histories=False,
        on_result=told,
    )
    print(f"{time.time() - begin:5.0f} s  all", flush=True)


def main(stage: str, folder: str, device: str = "cpu", processes: str = "1", minutes: str = "60"):
    """Computes a stage."""
    print(f"gread {gread.__version__}, {stage}, {sum(1 for _ in cells())} studies", flush=True)
    store = ResultStore(folder)
    if stage == "search":
        search_all(folder, device, int(processes), 60 * float(minutes))
    else:
        specs = {"second": second_specs, "final": final_specs}[stage]
        compute(specs(store), store, device, int(processes))


if __name__ == "__main__":
    main(*sys.argv[1:])
