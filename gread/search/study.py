"""Optuna studies in a file or a database, and samplers. Optuna is imported when needed."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.runs.presets import Preset, split_options, split_settings
from gread.runs.spec import RunSpec, Value
from gread.runs.store import StoreError
from gread.search.objective import Objective, objective_of
from gread.search.selection import Trial
from gread.training.config import TrainConfig

if TYPE_CHECKING:
    import optuna

    from gread.search.space import Space

SAMPLERS: Registry[Callable[[int], Any]] = Registry("sampler")  # from a seed to a sampler


@SAMPLERS.register("random")
def random_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Independent random settings, as in the paper."""
    return import_optuna().samplers.RandomSampler(seed)


@SAMPLERS.register("tpe")
def tpe_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Tree-structured Parzen estimator; running trials of a batch are treated as poor."""
    optuna = import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)


@dataclass(frozen=True)
class StudySettings:
    """Fixed settings of a study, which make its trials comparable.

    Attributes are arguments of `gread.search.search`; ``space`` is the table of a `Space`.
    """

    dataset: str
    model: str
    space: Mapping[str, Any]
    sampler: str
    prune: bool
    splits: Sequence[int]
    seeds: Sequence[int]
    options: Mapping[str, Value] = field(default_factory=dict)

    @property
    def objective(self) -> Objective:
        """Validation metric by which trials are compared."""
        return objective_of(self.space)

    def specs(self, settings: Mapping[str, Value]) -> list[RunSpec]:
        """Runs of a setting: all splits with the first seed, then with the next."""
        own, options = split_options(settings)
        hyper, train = split_settings(self.model, own)
        config = TrainConfig(**train)  # type: ignore[arg-type]
        preset = Preset("search", hyper, config, {**self.options, **options})
        first = preset.spec(self.dataset, self.model)
        return [
            replace(first, seed=seed, split=split) for seed in self.seeds for split in self.splits
        ]


def study_name(dataset: str, model: str) -> str:
    """The default name of a study.

    Example:
        >>> study_name("texas", "gread-fb*")
        'texas-gread-fb-star'
    """
    return f"{dataset}-{model.replace('*', '-star')}"


def create_study(
    name: str, plan: StudySettings, storage: str | None, folder: Path, trials: int
) -> optuna.Study:
    """Create a study, or open one with the same settings.

    Args:
        name: Name of the study.
        plan: Settings of the study.
        storage: URL of a database; by default the study is a journal in ``folder``.
        folder: Folder of the journal.
        trials: Total number of trials; an earlier larger number is kept.
    """
    optuna = import_optuna()
    if not re.fullmatch(r"[\w.+-]+", name):
        raise InputError(f"a study must be named with letters, digits and .+-_, got {name!r}")
    place = storage or journal(name, folder)
    with storage_errors(place):
        study = optuna.create_study(
            storage=_open(place),
            study_name=name,
            direction=plan.objective.direction,
            load_if_exists=True,
        )
        wanted = json.loads(json.dumps(asdict(plan)))
        if "plan" not in study.user_attrs:
            study.set_user_attr("plan", wanted)
        known = study.user_attrs["plan"]
    for part, value in wanted.items():
        if known[part] != value:
            raise InputError(
                f"study {name!r} has {part} {_shown(known[part])}, got {_shown(value)}: "
                "choose another --study"
            )
    if trials > study.user_attrs.get("trials", 0):
        study.set_user_attr("trials", trials)
    return study


def load_study(name: str, storage: str | None, folder: Path) -> tuple[optuna.Study, StudySettings]:
    """Open an existing study with its settings."""
    optuna = import_optuna()
    place = storage or journal(name, folder)
    if isinstance(place, Path) and not place.exists():
        raise InputError(f"there is no study {name!r} at {place}: --trials starts it")
    with storage_errors(place):
        try:
            study = optuna.load_study(storage=_open(place), study_name=name)
            return study, StudySettings(**study.user_attrs["plan"])
        except KeyError as error:
            raise InputError(f"there is no study {name!r} of gread in {place}") from error


def trials_of(study: optuna.Study, space: Space) -> list[Trial]:
    """Finished trials, complete and pruned, by number."""
    from optuna.trial import FixedTrial, TrialState

    finished = (TrialState.COMPLETE, TrialState.PRUNED)
    return [
        Trial(
            trial.number,
            space.suggest(FixedTrial(trial.params)),
            tuple(trial.user_attrs["validation"]),
            complete=trial.state == TrialState.COMPLETE,
            losses=tuple(trial.user_attrs["losses"]),
        )
        for trial in study.get_trials(deepcopy=False, states=finished)
    ]


def journal(name: str, folder: Path) -> Path:
    """Path of the journal of a study."""
    return folder / f"{name}.journal"


def import_optuna() -> Any:
    """Import Optuna, or raise an error that names the extra."""
    try:
        import optuna
    except ImportError as error:
        text = "a search needs the package optuna: pip install 'gread[search]'"
        raise InputError(text) from error
    return optuna


@contextmanager
def storage_errors(place: str | Path) -> Iterator[None]:
    """Context manager that converts errors of the storage to `StoreError`."""
    if isinstance(place, Path):  # a journal needs no SQLAlchemy, whose import takes half a second
        yield
        return
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError, ImportError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        if isinstance(error, ImportError):
            reason = f"{reason}; for PostgreSQL: pip install 'gread[postgresql]'"
        with suppress(ArgumentError):  # not a URL, so it contains no password
            place = make_url(str(place)).render_as_string(hide_password=True)
        raise StoreError(f"the storage {place} cannot be used: {reason}") from error


def _open(place: str | Path) -> optuna.storages.BaseStorage:
    from optuna.storages import JournalStorage, RDBStorage

    from gread.search.journal import Journal  # imports Optuna

    if isinstance(place, Path):
        path = place.absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return JournalStorage(Journal(path))
        except Exception as error:  # Optuna does not validate a journal
            raise StoreError(f"the journal {path} cannot be used: {error}") from error
    from sqlalchemy.exc import DBAPIError

    for patience in (0.2, 0.5, 1.0):  # concurrent creation of tables fails in one process
        try:
            return RDBStorage(place)
        except DBAPIError:
            time.sleep(patience)
    return RDBStorage(place)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else "..."
