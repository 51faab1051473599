"""Search spaces in TOML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gread.base.errors import InputError
from gread.base.memory import GB, free_memory
from gread.base.toml import read_file, read_toml
from gread.models.catalog import MODELS
from gread.runs.presets import split_options, split_settings
from gread.runs.spec import HIDDEN_CHANNELS, Value
from gread.search.objective import objective_of
from gread.training.config import TrainConfig

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

DIGITS = 4  # significant digits of sampled numbers, so that short presets match stored runs

CHECKED = 128  # number of values of an integer range that are checked


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Value, ...]

    def suggest(self, name: str, trial: BaseTrial) -> Value:
        """The value of a trial."""
        return trial.suggest_categorical(name, self.values)

    def ends(self) -> tuple[Value, ...]:
        """Values that the model must accept."""
        return self.values

    def distance(self, one: Any, other: Any) -> float:
        """0 for equal values, else 1."""
        return float(one != other)


@dataclass(frozen=True)
class Range:
    """A number from ``low`` to ``high``, inclusive; an integer if both are."""

    low: float
    high: float
    log: bool = False

    def suggest(self, name: str, trial: BaseTrial) -> Value:
        """The value of a trial."""
        if self._whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        drawn = trial.suggest_float(name, self.low, self.high, log=self.log)
        return min(self.high, max(self.low, float(f"{drawn:.{DIGITS}g}")))

    def ends(self) -> tuple[Value, ...]:
        """The bounds."""
        return self.low, self.high

    @property
    def values(self) -> tuple[Value, ...]:
        """Values that the model must accept: all integers of a range of up to 128, or the bounds.

        Of a longer range, these are the first 127 integers and the last. They include a width that
        is not a multiple of a number of heads.
        """
        if not self._whole:
            return self.ends()
        low, high = int(self.low), int(self.high)
        return *range(low, min(high, low + CHECKED - 1)), high

    def distance(self, one: Any, other: Any) -> float:
        """Distance as a fraction of the range, on its linear or logarithmic scale."""
        scale = math.log if self.log else float
        return abs(scale(one) - scale(other)) / (scale(self.high) - scale(self.low))

    @property
    def _whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


class Space:
    """Search space of a model.

    Args:
        model: A name of ``gread.MODELS``.
        table: Names of hyperparameters and of `gread.TrainConfig`, each with a list (a choice), a
            table with ``low``, ``high`` and optionally ``log = true`` (a range), or a fixed value.
            A table under the name of a model replaces entries for that model. ``"options.NAME"``
            is an option of the dataset.

    Attributes:
        table: Entries for this model.
        parts, fixed: Sampled entries, and fixed entries.
        objective: Validation metric by which trials are compared.

    Example:
        >>> space = Space("gread-bs", {"epochs": 50, "time": {"low": 0.1, "high": 6.0}})
        >>> space.fixed
        {'epochs': 50}
        >>> Space("gread-bs", {"tme": [1.0, 2.0]})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        gread.base.errors.InputError: gread-bs has no hyperparameter 'tme', did you mean 'time'? ...
    """

    def __init__(self, model: str, table: Mapping[str, Any]):
        MODELS[model]  # an unknown name fails here
        common = {name: entry for name, entry in table.items() if name not in MODELS}
        self.model = model
        own = table.get(model, {})
        if not isinstance(own, Mapping):
            raise InputError(f"{model} must be a table of settings, got {own!r:.80}")
        self.table: dict[str, Any] = common | dict(own)
        named, _ = split_options(self.table)
        split_settings(model, named)  # raises an error for an unknown setting
        drawn = {n: entry for n, entry in self.table.items() if isinstance(entry, list | dict)}
        self.parts = {name: _part(name, entry) for name, entry in drawn.items()}
        self.fixed = {name: value for name, value in self.table.items() if name not in self.parts}
        if not self.parts:
            raise InputError("a space must have a choice or a range, got none")
        for name, part in self.parts.items():
            for value in part.values:  # together with values that a trial may have
                self._check(self.first | {name: value})
        self.objective = objective_of(self.table)

    @property
    def first(self) -> dict[str, Value]:
        """The first value of every entry."""
        return self.fixed | {name: part.ends()[0] for name, part in self.parts.items()}

    def _check(self, settings: Mapping[str, Value]) -> None:
        """Build the model, so that invalid values raise an error before training."""
        hyper, train = split_settings(self.model, split_options(settings)[0])
        TrainConfig(**train)  # type: ignore[arg-type]
        hyper = {"hidden_channels": HIDDEN_CHANNELS} | hyper
        with torch.device("meta"):  # without allocating memory
            made = MODELS[self.model].make(1, hyper.pop("hidden_channels"), 2, num_nodes=1, **hyper)
        size = 4 * sum(parameter.numel() for parameter in made.parameters())
        if size > free_memory():
            raise InputError(f"{dict(settings)} makes a model of {size / GB:,.0f} GB, too large")

    def suggest(self, trial: BaseTrial) -> dict[str, Value]:
        """Sample the settings of a trial, including fixed ones."""
        drawn = {name: part.suggest(name, trial) for name, part in self.parts.items()}
        return self.fixed | drawn

    def distance(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> float:
        """Euclidean distance of settings; ranges have length 1, different choices distance 1."""
        parts = self.parts.items()
        return math.hypot(*(part.distance(one[name], other[name]) for name, part in parts))


def read_space(model: str, path: str | Path | None = None) -> Space:
    """Read a space from a TOML file, or the one shipped for the model.

    Example:
        >>> read_space("gread-bs").parts["lr"]
        Range(low=0.001, high=0.06, log=True)
    """
    if path is None:
        shipped = read_toml("search/spaces", f"{MODELS[model].family or model}.toml")
        if shipped is None:
            raise InputError(
                f"there is no search space for {model}: write one in TOML and name it with "
                "--space FILE (docs/search.md)"
            )
        return Space(model, shipped)
    table = read_file(path)
    try:
        return Space(model, table)
    except InputError as error:
        raise InputError(f"the space {path} does not fit: {error}") from error


def _part(name: str, entry: list[Value] | dict[str, Any]) -> Choice | Range:
    if isinstance(entry, list):
        if not entry or not all(isinstance(value, bool | int | float | str) for value in entry):
            raise InputError(f"{name} must be a list of values to choose from, got {entry!r}")
        return Choice(tuple(entry))
    numbers: list[Any] = [entry.get("low"), entry.get("high")]
    if (
        not {"low", "high"} <= set(entry) <= {"low", "high", "log"}
        or not all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
        or not isinstance(entry.get("log", False), bool)
    ):
        raise InputError(
            f"{name} must be a range like {{ low = 0.1, high = 1.0, log = true }}, got {entry!r}"
        )
    if not entry["low"] < entry["high"]:
        raise InputError(f"{name} must have a low below its high, got {entry!r}")
    if entry.get("log", False) and not entry["low"] > 0:
        raise InputError(f"{name} must have a low above zero for its logarithm, got {entry!r}")
    return Range(entry["low"], entry["high"], entry.get("log", False))
