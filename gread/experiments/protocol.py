"""Common parts of experiments: the paper's datasets, models, numbers, and runs of presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gread.base.toml import read_toml
from gread.models.catalog import MODELS
from gread.runs.presets import REPEATED, Preset, find_preset
from gread.runs.spec import RunSpec, Value
from gread.training.config import TrainConfig

DATASETS = (
    *("texas", "wisconsin", "cornell", "film", "squirrel", "chameleon"),
    *("cora", "citeseer", "pubmed"),
)
SEVERAL_SEEDS = ("texas", "wisconsin", "cornell")
"""Datasets with several seeds.

With 37 to 51 test nodes per split, one seed can move the mean by two points.
"""

GREAD = tuple(f"gread-{reaction}" for reaction in ("bs", "f", "ac", "z", "st", "fb", "fb*"))

STUDIED = tuple(
    n for n, entry in MODELS.items() if n in GREAD or entry.group not in ("GREAD", "tuned")
)
"""Models of the paper's artefacts: GREAD with the paper's reactions, and baselines.

The group "tuned" of the catalogue is excluded.
"""

PUBLISHED: Mapping[str, Any] = read_toml("experiments", "published.toml") or {}
"""Numbers that the paper prints, and some from its published code."""

PROTOCOL: Mapping[str, Any] = read_toml("experiments", "protocol.toml") or {}
"""Settings of the experiments that are not a model's preset."""


def preset_of(model: str, dataset: str) -> Preset:
    """Preset with which the paper's tables are repeated.

    GREAD has the settings of the published code or of the paper; a baseline has the best settings
    known here. A graph derived from one of the paper's has the settings of that graph. Every other
    graph has those known here, or the defaults. Settings of the honest comparison are not used.
    """
    dataset = PROTOCOL["newer"]["like"].get(dataset, dataset)
    source = None
    if model in GREAD and dataset in DATASETS:
        source = "published" if model == "gread-bs" else "paper"
    return find_preset(model, dataset, source, sources=REPEATED)


def runs_of(
    model: str,
    dataset: str,
    *,
    preset: Preset | None = None,
    change: Mapping[str, Value] | None = None,
    splits: int = 10,
    seeds: Sequence[int] | None = None,
    record: tuple[str, ...] = (),
) -> list[RunSpec]:
    """Runs of a model on the splits of a dataset.

    Args:
        model: A name of ``gread.MODELS``.
        dataset: A name of ``gread.DATASETS``.
        preset: Settings of the runs; by default those of `preset_of`.
        change: Hyperparameters that differ from the preset.
        splits: Number of splits, from the first.
        seeds: Seeds of each split; by default three if test sets are small, else one.
        record: Names of records to keep with the accuracies.
    """
    preset = preset or preset_of(model, dataset)
    if seeds is None:
        seeds = range(3) if dataset in SEVERAL_SEEDS else range(1)
    changed = replace(preset, hyper={**preset.hyper, **(change or {})})
    first = changed.spec(dataset, model, record)
    return [replace(first, seed=seed, split=split) for seed in seeds for split in range(splits)]


def runs_on(datasets: Sequence[str], models: Sequence[str], **options: Any) -> list[RunSpec]:
    """`runs_of` every model on every dataset, with the same options."""
    return [
        spec
        for dataset in datasets
        for model in models
        for spec in runs_of(model, dataset, **options)
    ]


def runs_in(
    about: Mapping[str, Any],
    dataset: str,
    model: str,
    record: tuple[str, ...] = (),
    **change: Value,
) -> list[RunSpec]:
    """Runs of a model with the settings of a section of ``protocol.toml``, one for each seed.

    Later parts of the section override earlier ones: ``common``, ``continuous``, the family of the
    model, ``layered`` by its name; and ``change`` overrides all of them.
    """
    entry = MODELS[model]
    parts = (
        about.get("common", {}),
        about["continuous"] if entry.continuous else {},
        about.get(entry.family, {}),
        about.get("layered", {}).get(model, {}),
        change,
    )
    hyper = {name: value for part in parts for name, value in part.items()}
    preset = Preset("protocol", hyper, TrainConfig(**about["train"]), about.get("options", {}))
    first = preset.spec(dataset, model, record)
    return [replace(first, seed=seed) for seed in range(about.get("seeds", 1))]
