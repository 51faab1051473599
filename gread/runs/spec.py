"""Everything that determines a number, as a value with a key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeAlias

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.data.catalog import DATASETS
from gread.models.catalog import MODELS
from gread.training.config import TrainConfig

Value: TypeAlias = bool | int | float | str | None

HIDDEN_CHANNELS = 64


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training: a model with its hyperparameters on one split of a dataset, from one seed.

    Attributes:
        dataset: A name of ``gread.DATASETS``.
        model: A name of ``gread.MODELS``.
        split: Which column of the masks.
        seed: Where the random numbers start.
        hyper: Hyperparameters of the model, ``hidden_channels`` among them; what is left out is
            filled in with the model's defaults, so that a spec says all.
        train: How to train.
        options: Options of the dataset.
        record: What to keep besides the accuracies; names of ``gread.runs.RECORDS``.
    """

    dataset: str
    model: str
    split: int = 0
    seed: int = 0
    hyper: Mapping[str, Value] = field(default_factory=dict)
    train: TrainConfig = TrainConfig()
    options: Mapping[str, Value] = field(default_factory=dict)
    record: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        DATASETS[self.dataset]  # an unknown name fails where it is written
        check_count("split", self.split, minimum=0)
        check_count("seed", self.seed, minimum=0)
        known = {"hidden_channels": HIDDEN_CHANNELS} | MODELS[self.model].hyperparameters
        check_keys(self.hyper, known, self.model)
        check_plain(self.hyper)
        check_plain(self.options)
        MODELS[self.model].check_parts(self.train.parts)
        object.__setattr__(self, "hyper", known | dict(self.hyper))

    @cached_property
    def key(self) -> str:
        """A name for all of it: the same for the same settings, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:20]

    def __hash__(self) -> int:
        return hash(self.key)

    def to_json(self) -> str:
        """Canonical JSON."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # asdict copies all
        values["options"] = dict(self.options)
        values["train"] = train = dict(vars(self.train))
        if self.train.parts == 1:  # the whole graph, as in specs from before there were parts
            del train["parts"], train["halo"]
        if self.train.processes == 1:
            del train["processes"]
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> RunSpec:
        """The spec that `to_json` wrote.

        Raises:
            InputError: It is none, whatever it is instead.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            values["train"] = TrainConfig(**values["train"])
            values["record"] = tuple(values["record"])
            return RunSpec(**values)
        except InputError:
            raise
        except Exception as error:  # a stranger's text may be wrong in any way
            raise InputError(f"a spec must be as gread writes it, got {error!r:.200}") from error


def check_plain(values: Mapping[str, object]) -> None:
    """Requires values that are no lists, tables, dates or the like."""
    for key, value in values.items():
        if not isinstance(value, bool | int | float | str | None):
            raise InputError(f"{key} must be a number, text, true or false, got {value!r:.80}")


def check_keys(given: Mapping[str, Value], known: Mapping[str, Any], model: str) -> None:
    """Requires that every key is one the model takes."""
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f", did you mean {near[0]!r}? Choose" if near else "; choose"
            choices = ", ".join(sorted(known))
            raise InputError(f"{model} has no hyperparameter {key!r}{hint} from: {choices}")
