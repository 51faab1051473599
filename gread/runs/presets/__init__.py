"""Presets: tested settings from TOML files with their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from gread.base.errors import InputError
from gread.base.toml import read_file, read_toml
from gread.models.catalog import MODELS
from gread.runs.complete import check_keys, complete, known_hyperparameters
from gread.runs.spec import RunSpec, Value
from gread.training.config import TrainConfig

SOURCES = ("tuned", "published", "paper", "honest", "fair", "larger")
"""Sources of presets in order of precedence: `gread search`, the authors' published code (for
GREAD, only GREAD-BS; for a baseline, that of its own authors), the paper's appendix, and the
searches of the honest (docs/gread-x.md) and of the fair comparison (docs/baselines.md), and the
larger search of docs/gread-x.md."""

REPEATED = SOURCES[:3]
"""Sources for the paper's tables."""

OPTION = "options."
"""Prefix of settings that are options of the dataset."""

_TRAINING = tuple(part.name for part in fields(TrainConfig))


@dataclass(frozen=True)
class Preset:
    """Settings for one model on one dataset.

    Attributes:
        source: One of `SOURCES`, a file, or ``"default"`` without a preset.
        hyper: Hyperparameters of the model.
        train: Training settings.
        options: Options of the dataset, under ``options`` in the file.
    """

    source: str
    hyper: Mapping[str, Value] = field(default_factory=dict)
    train: TrainConfig = TrainConfig()
    options: Mapping[str, Value] = field(default_factory=dict)

    def spec(self, dataset: str, model: str, record: tuple[str, ...] = ()) -> RunSpec:
        """Completed spec with these settings on the first split with the first seed."""
        about: Any = {"train": self.train, "options": self.options, "record": record}
        return complete(RunSpec(dataset=dataset, model=model, hyper=self.hyper, **about))


def find_preset(
    model: str, dataset: str, source: str | None = None, *, sources: Sequence[str] = SOURCES
) -> Preset:
    """Find the preset of a model on a dataset; without one, return the defaults.

    Args:
        model: A name of ``gread.MODELS``.
        dataset: A name of ``gread.DATASETS``.
        source: One of `SOURCES`, or a TOML file in the format of `gread search --report`.
        sources: Sources to try in turn if ``source`` is None.

    Returns:
        The preset with its source.

    Raises:
        InputError: ``source`` is unknown or has no entry for the model and dataset.

    Example:
        >>> find_preset("gread-bs", "texas").hyper["solver"]
        'rk4'
    """
    own = source is not None and source.endswith(".toml")
    if source is not None and source not in SOURCES and not own:
        raise InputError(
            f"unknown preset {source!r}; choose from: {', '.join(SOURCES)}, or a .toml file"
        )
    MODELS[model]  # raises an error for an unknown name
    for place in [source] if source else sources:
        table = read_file(place) if own else _shipped(place, model)
        if table is not None and dataset in table:
            return _preset(place, model, table[dataset])
    if source is not None:
        raise InputError(f"there is no preset {source!r} for {model} on {dataset}")
    return Preset("default")


def split_settings(
    model: str, settings: Mapping[str, Value]
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Divide settings by name into those of the model and those of the training."""
    known = known_hyperparameters(model)
    check_keys(settings, known | dict.fromkeys(_TRAINING), model)
    hyper = {key: value for key, value in settings.items() if key in known}
    train = {key: value for key, value in settings.items() if key not in known}
    return hyper, train


def split_options(settings: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Divide settings into those of model and training, and options named ``options.NAME``.

    Example:
        >>> split_options({"lr": 0.01, "options.normalize_features": True})
        ({'lr': 0.01}, {'normalize_features': True})
    """
    options = {
        name.removeprefix(OPTION): value
        for name, value in settings.items()
        if name.startswith(OPTION)
    }
    return {k: v for k, v in settings.items() if not k.startswith(OPTION)}, options


def _shipped(source: str, model: str) -> Mapping[str, Any] | None:
    return read_toml(f"runs/presets/{source}", f"{model.replace('*', '-star')}.toml")


def _preset(source: str, model: str, table: Mapping[str, Any]) -> Preset:
    if not isinstance(table, Mapping):
        raise InputError(f"a preset must be a table of settings, got {table!r:.80} in {source}")
    settings = dict(table)
    options = settings.pop("options", {})
    if not isinstance(options, Mapping):
        raise InputError(f"options must be a table, got {options!r:.80} in {source}")
    hyper, train = split_settings(model, settings)
    return Preset(source, hyper, TrainConfig(**train), options)  # type: ignore[arg-type]
