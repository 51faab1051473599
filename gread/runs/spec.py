"""Specs of runs: plain values with a key.

A spec loads without PyTorch and without the registries, so stored runs can always be read.
`gread.runs.complete` checks a spec and fills in defaults before it is computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.training.config import TrainConfig

Value: TypeAlias = bool | int | float | str | None

HIDDEN_CHANNELS = 64
"""Default width of a model."""

ALWAYS = ("epochs", "lr", "weight_decay", "patience")
"""Fields of `TrainConfig` in every stored spec.

Every other field was added later and is omitted at its default, so older specs keep their key. Its
default means "as before" and never changes.
"""

TOGETHER = {"halo": "parts"}
"""Fields that depend on another field and are omitted together with it."""

_PLAIN = (bool, int, float, str, type(None))
_DEFAULTS = vars(TrainConfig())
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One training: a model with its hyperparameters on one split of a dataset, from one seed.

    Attributes:
        dataset: A name of ``gread.DATASETS``.
        model: A name of ``gread.MODELS``.
        split: Column of the masks.
        seed: Random seed.
        hyper: Hyperparameters of the model, including ``hidden_channels``. `launch`, `run` and
            `ResultStore` fill in defaults.
        train: Training settings.
        options: Options of the dataset.
        record: Additional measurements to store; names of ``gread.runs.RECORDS``.
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
        for name in (self.dataset, self.model, *self.record):
            if not isinstance(name, str):
                raise InputError(f"dataset, model and record must be names, got {name!r:.80}")
        check_count("split", self.split, minimum=0)
        check_count("seed", self.seed, minimum=0)
        check_plain(self.hyper)
        check_plain(self.options)

    @cached_property
    def key(self) -> str:
        """Digest of the whole spec: the same for the same settings, on every machine.

        Results are stored under the key of the completed spec, see `gread.runs.complete`.
        """
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:20]

    def __hash__(self) -> int:
        return hash(self.key)

    def to_json(self) -> str:
        """The spec as canonical JSON."""
        return _canonical(self.values())

    def values(self) -> dict[str, Any]:
        """The fields as plain values; `train` omits defaults except for `ALWAYS`."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # without copies
        values["hyper"], values["options"] = dict(self.hyper), dict(self.options)
        values["train"] = {
            name: value
            for name, value in vars(self.train).items()
            if name in ALWAYS or not _at_default(self.train, TOGETHER.get(name, name))
        }
        return values

    @staticmethod
    def from_json(text: str) -> RunSpec:
        """Read a spec from the JSON of `to_json`.

        Raises:
            InputError: The text is not a spec.
        """
        try:
            return RunSpec.from_values(json.loads(text))
        except InputError:
            raise
        except Exception as error:  # untrusted text may be invalid in any way
            raise InputError(f"a spec must have the format of gread, got {error!r:.200}") from error

    @staticmethod
    def from_values(values: dict[str, Any]) -> RunSpec:
        """Build a spec from its `values`."""
        train, record = TrainConfig(**values["train"]), tuple(values["record"])
        return RunSpec(**(values | {"train": train, "record": record}))


def _at_default(train: TrainConfig, name: str) -> bool:
    return bool(getattr(train, name) == _DEFAULTS[name])


def check_plain(values: Mapping[str, object]) -> None:
    """Raise an error for values other than numbers, strings and booleans."""
    for key, value in values.items():
        if not isinstance(value, _PLAIN):
            raise InputError(f"{key} must be a number, text, true or false, got {value!r:.80}")
