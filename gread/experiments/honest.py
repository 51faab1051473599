"""The honest comparison: strong competitors, one budget, graphs beyond the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gread.experiments.protocol import PROTOCOL, runs_of
from gread.runs.presets import Preset, split_settings
from gread.runs.spec import RunSpec, Value
from gread.training.config import TrainConfig

BUDGET: Mapping[str, Any] = PROTOCOL["honest"]
GRAPHS: tuple[str, ...] = (*BUDGET["newer"], *BUDGET["nine"], *BUDGET["beyond"])
SPLITS = {"arxiv-subject": 1, "arxiv-year": 5}
"""Of graphs that have fewer than ten."""


def training_of(dataset: str) -> dict[str, Value]:
    """Epochs and metric, the same for every model on a graph."""
    found: dict[str, Value] = {"epochs": BUDGET["epochs"].get(dataset, 300)}
    if dataset in BUDGET["metric"]:
        found["metric"] = BUDGET["metric"][dataset]
    return found


def splits_of(dataset: str) -> int:
    """How many splits it has."""
    return SPLITS.get(dataset, 10)


def runs_of_table(model: str, dataset: str, settings: Mapping[str, Value]) -> list[RunSpec]:
    """Runs from seeds that the search has not seen."""
    hyper, train = split_settings(model, settings)
    preset = Preset("honest", hyper, TrainConfig(**train))  # type: ignore[arg-type]
    seeds = BUDGET["seeds"][: 1 if dataset in BUDGET["large"] else None]
    splits = splits_of(dataset)
    return runs_of(model, dataset, preset=preset, seeds=seeds, splits=splits)
