"""Search: sample settings, train them on all splits and seeds, store their validation metric."""

from __future__ import annotations

import math
import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.runs.executors.find import find_executor
from gread.runs.executors.job import Executor
from gread.runs.launch import launch
from gread.runs.result import Result
from gread.runs.run import check_splits
from gread.runs.spec import RunSpec, Value
from gread.runs.store import ResultStore
from gread.search.selection import Trial, select
from gread.search.space import Space, read_space
from gread.search.study import (
    SAMPLERS,
    StudySettings,
    create_study,
    journal,
    storage_errors,
    study_name,
    trials_of,
)
from gread.search.worker import Worker, abandoned

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class SearchProgress:
    """Progress of a search, without test metrics.

    Attributes:
        finished, trials: Number of finished trials (complete or pruned) of all processes, and total
            number of trials of the study.
        runs: Number of runs that this process has computed.
        best: Best trial by mean validation metric; None before the first complete trial.
    """

    finished: int
    trials: int
    runs: int
    best: Trial | None


def search(
    dataset: str,
    model: str = "gread-bs",
    *,
    trials: int,
    store: ResultStore,
    space: Space | None = None,
    sampler: str = "random",
    prune: bool = False,
    splits: Sequence[int] = range(10),
    seeds: Sequence[int] = (0,),
    options: Mapping[str, Value] | None = None,
    study: str | None = None,
    storage: str | None = None,
    batch: int | None = None,
    executor: str | Executor = "local",
    devices: Sequence[str] = ("cpu",),
    workers: int | None = None,
    root: str | None = None,
    deterministic: bool = False,
    imports: Sequence[str] = (),
    on_progress: Callable[[SearchProgress], None] | None = None,
) -> list[Trial]:
    """Search until the study has ``trials`` finished trials, and return them.

    A trial is a setting on all splits and seeds. Its value is the mean of the validation metric; a
    failed run has the worst value (0, or infinity for nll). The same call resumes an interrupted
    search: it skips stored runs and continues the trials of dead processes. Any number of processes
    and machines may call it at the same time.

    Trial ``k`` of a random search depends only on the name of the study and on ``k``.

    Args:
        dataset: A name of ``gread.DATASETS``.
        model: A name of ``gread.MODELS``.
        trials: Total number of trials, including those of other processes and earlier calls.
        store: Store of the runs.
        space: Search space; by default the one shipped for the model.
        sampler: A name of `SAMPLERS`.
        prune: Whether to stop trials that are not in the best third on the first few splits; see
            `rungs`.
        splits: Splits of every trial, which the dataset must have; repeated ones count once.
        seeds: Seeds of every trial; repeated ones count once.
        options: Options of the dataset.
        study: Name of the study; by default derived from dataset and model.
        storage: URL of a database that machines can share; by default a journal in the store.
        batch: Number of concurrent trials; by default 8. On a GPU or a cluster, the default is 512
            for a random search and 64 for a sampler that learns from earlier trials.
        executor: Executor of the runs, as in `gread.runs.launch`.
        devices: Devices of the runs, used in turn.
        workers: Number of processes; by default 1, on a GPU up to 8, because preparing small
            populations takes longer than training them.
        root: Data root.
        deterministic: As in `gread.runs.run`.
        imports: Modules that every process imports first.
        on_progress: Function that is called after every run and every trial.

    Returns:
        All finished trials of the study.

    Example:
        >>> import tempfile
        >>> store = ResultStore(tempfile.mkdtemp())
        >>> space = Space("gread-bs", {"epochs": 2, "time": {"low": 0.5, "high": 3.0}})
        >>> found = search("csbm", trials=3, space=space, splits=[0, 1], store=store)
        >>> len(found), len(store)
        (3, 6)
    """
    check_count("trials", trials)
    if workers is not None:
        check_count("workers", workers)
    SAMPLERS[sampler]  # a misspelt name fails before the study is created
    where = find_executor(executor) if isinstance(executor, str) else executor
    on_gpu = any(device.startswith("cuda") for device in devices)
    learns = prune or sampler != "random"
    usual = 8 if not on_gpu and not where.remote else 64 if learns else 512
    size = usual if batch is None else batch
    check_count("batch", size)
    if workers is None and on_gpu and not where.remote:
        workers = min(8, max(1, (os.cpu_count() or 1) // 2))
    if not splits or not seeds:
        raise InputError("a search must have a split and a seed, got none")
    space = space or read_space(model)
    name = study or study_name(dataset, model)
    every = [*dict.fromkeys(splits)], [*dict.fromkeys(seeds)], dict(options or {})
    plan = StudySettings(dataset, model, space.table, sampler, prune, *every)
    check_splits(plan.specs(space.first), root)
    folder = store.path.parent / "studies"
    kept = create_study(name, plan, storage, folder, trials)
    compute = partial(
        launch,
        store=store,
        executor=where,
        devices=devices,
        workers=workers,
        root=root,
        deterministic=deterministic,
        histories=False,  # histories of thousands of runs are never read
        imports=imports,
    )
    with storage_errors(storage or journal(name, folder)), Worker(kept) as worker:
        if len(trials_of(kept, space)) < trials:
            where.start(devices[0], workers, imports)  # processes start while trials are sampled
        return _Search(kept, plan, space, trials, store, compute, worker, on_progress).run(size)


def rungs(runs: int, prune: bool) -> list[int]:
    """Numbers of runs after which a trial may be pruned; the last is all of them.

    Successive halving with factor 3: the best third of all trials continues after a ninth of the
    runs, and the best third of those after a third of the runs.
    """
    steps = {math.ceil(runs / 9), math.ceil(runs / 3), runs} if prune else {runs}
    return sorted(steps)


@dataclass(frozen=True, eq=False)
class _Job:
    """A running trial and the keys of its runs."""

    trial: optuna.Trial
    settings: Mapping[str, Value]
    specs: Sequence[RunSpec]
    keys: Sequence[str]


@dataclass
class _Search:
    """The work of one process on a study."""

    study: optuna.Study
    plan: StudySettings
    space: Space
    trials: int
    store: ResultStore
    compute: Callable[..., None]
    worker: Worker
    on_progress: Callable[[SearchProgress], None] | None
    known: list[Trial] = field(default_factory=list)
    best: Trial | None = None
    runs: int = 0

    def run(self, size: int) -> list[Trial]:
        """Run until the study has all its trials."""
        while True:
            self._update(trials_of(self.study, self.space))
            if len(self.known) >= self.trials:
                return self.known
            if jobs := self._jobs(size):
                self._evaluate(jobs)
            else:
                time.sleep(0.5)  # other processes compute the last trials, or have died

    def _update(self, trials: list[Trial]) -> None:
        self.known = trials
        complete = any(trial.complete for trial in trials)
        self.best = select(trials, self.space) if complete else None
        self._report_progress()

    def _report_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(SearchProgress(len(self.known), self.trials, self.runs, self.best))

    def _jobs(self, size: int) -> list[_Job]:
        """Return at most ``size`` trials: abandoned ones of other processes, then new ones."""
        from optuna.exceptions import UpdateFinishedTrialError

        jobs: list[_Job] = []
        for left in abandoned(self.study)[:size]:
            with suppress(UpdateFinishedTrialError):  # its process is alive
                jobs.append(self._job(left))
        while len(jobs) < size and (trial := _ask(self.study, self.trials)) is not None:
            jobs.append(self._job(trial))
        return jobs

    def _job(self, trial: optuna.Trial) -> _Job:
        """Sample the settings, or complete those of a killed process."""
        self.worker.takes(trial)
        seed = zlib.crc32(f"{self.study.study_name} {trial.number}".encode())
        self.study.sampler = SAMPLERS[self.plan.sampler](seed)
        kept = self.study.get_trials(deepcopy=False)[trial.number]
        given = kept.system_attrs.get("fixed_params", {})
        for name in self.space.parts:  # values sampled before, which determine the rest
            if name in kept.distributions and name not in given:
                of = kept.distributions[name]
                self.study.sampler.sample_independent(self.study, kept, name, of)
        settings = self.space.suggest(trial)
        specs = self.plan.specs(settings)
        keys = [spec.key for spec in specs]
        trial.set_user_attr("runs", keys)
        return _Job(trial, settings, specs, keys)

    def _evaluate(self, jobs: Iterable[_Job]) -> None:
        *early, last = rungs(len(self.plan.splits) * len(self.plan.seeds), self.plan.prune)
        for step in early:
            found: dict[_Job, Trial] = {}
            self._compute(jobs, step, found.__setitem__)
            jobs = self._best_third(found, step)
        self._compute(jobs, last, self._finish)

    def _compute(
        self, jobs: Iterable[_Job], step: int, on_job: Callable[[_Job, Trial], None]
    ) -> None:
        """Compute the first ``step`` runs of each job, and call ``on_job`` when they are complete.

        A failed run has the worst value of the metric.
        """
        failed = self.space.objective.failed
        values, losses = self.store.numbers("val"), self.store.numbers("val_loss")
        waiting = dict.fromkeys(jobs)
        users: dict[str, list[_Job]] = {}
        for job in waiting:
            for key in job.keys[:step]:
                users.setdefault(key, []).append(job)

        def hand_over(some: Iterable[_Job]) -> None:
            for job in some:
                keys = job.keys[:step]
                if all(key in values for key in keys):
                    del waiting[job]
                    found = (values[key] for key in keys)
                    validation = tuple(failed if value is None else value for value in found)
                    known = validation, keys == job.keys, tuple(losses[key] for key in keys)
                    on_job(job, Trial(job.trial.number, job.settings, *known))

        def take(result: Result) -> None:
            key = result.spec.key
            values[key], losses[key] = result.val, result.val_loss
            self.runs += 1
            hand_over(users[key])
            self._report_progress()

        specs = [spec for job in waiting for spec in job.specs[:step]]
        hand_over(list(waiting))
        self.compute(specs, on_result=take)
        if waiting:  # another process has stored them
            values |= self.store.numbers("val")
            losses |= self.store.numbers("val_loss")
            hand_over(list(waiting))

    def _best_third(self, found: Mapping[_Job, Trial], step: int) -> list[_Job]:
        """Report all jobs, then prune those outside the best third of the whole study.

        Optuna's SuccessiveHalvingPruner compares a trial only with earlier ones, so it would never
        prune the first of a batch.
        """
        before = self._reported(step)
        for job, trial in found.items():
            if trial.number not in before:  # reported by a process that is dead now
                job.trial.report(trial.mean, step)
        gain = self.space.objective.gain
        gains = {number: gain(mean) for number, mean in self._reported(step).items()}
        bound = sorted(gains.values(), reverse=True)[math.ceil(len(gains) / 3) - 1]
        going = [job for job in found if gains[job.trial.number] >= bound]
        for job in found.keys() - going:
            self._finish(job, found[job])
        return going

    def _reported(self, step: int) -> dict[int, float]:
        """Mean values after a number of runs, by trial."""
        return {
            trial.number: trial.intermediate_values[step]
            for trial in self.study.get_trials(deepcopy=False)
            if step in trial.intermediate_values
        }

    def _finish(self, job: _Job, trial: Trial) -> None:
        """Report a trial to the study as complete, or as pruned if runs are left."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        value, state = (trial.mean, None) if trial.complete else (None, TrialState.PRUNED)
        with suppress(UpdateFinishedTrialError):  # another process presumed this one dead
            job.trial.set_user_attr("validation", trial.validation)
            job.trial.set_user_attr("losses", trial.losses)
            self.study.tell(job.trial, value, state, skip_if_finished=True)
        self._update([*self.known, trial])


def _ask(study: optuna.Study, trials: int) -> optuna.Trial | None:
    """Create a trial unless the study has ``trials``; of concurrent ones, the first are kept."""
    from optuna.trial import TrialState

    def others(below: float) -> int:
        known = study.get_trials(deepcopy=False)
        return sum(t.number < below and t.state != TrialState.FAIL for t in known)

    if others(math.inf) >= trials:
        return None
    trial = study.ask()
    if others(trial.number) >= trials:
        study.tell(trial, state=TrialState.FAIL)
        return None
    return trial
