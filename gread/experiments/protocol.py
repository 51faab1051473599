"""What the experiments share: the paper's datasets, models and numbers, and runs of a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gread.base.toml import read_toml
from gread.runs.complete import complete
from gread.runs.presets import Preset, find_preset
from gread.runs.spec import RunSpec, Value

DATASETS = (
    *("texas", "wisconsin", "cornell", "film", "squirrel", "chameleon"),
    *("cora", "citeseer", "pubmed"),
)
SEVERAL_SEEDS = ("texas", "wisconsin", "cornell")
"""Here 37 to 51 test nodes a split let one seed move the mean by two points."""

GREAD = tuple(f"gread-{reaction}" for reaction in ("bs", "f", "ac", "z", "st", "fb", "fb*"))

_published = read_toml("experiments", "published.toml")
_protocol = read_toml("experiments", "protocol.toml")
assert _published is not None
assert _protocol is not None
PUBLISHED: Mapping[str, Any] = _published
"""Numbers that the paper prints, and some that its published code reaches."""

PROTOCOL: Mapping[str, Any] = _protocol
"""Settings of the experiments that are not a model's preset."""


def preset_of(model: str, dataset: str) -> Preset:
    """What the paper's tables are repeated with.

    GREAD has the settings of the published code or of the paper, so that the tables are what those
    give; a baseline the best that are known here. A graph that the paper does not have is treated
    as the one that it comes from; one that comes from none has what is known here, or defaults.
    """
    dataset = PROTOCOL["newer"]["like"].get(dataset, dataset)
    source = None
    if model in GREAD and dataset in DATASETS:
        source = "published" if model == "gread-bs" else "paper"
    return find_preset(model, dataset, source)


def runs_of(
    model: str,
    dataset: str,
    *,
    change: Mapping[str, Value] | None = None,
    splits: int = 10,
    seeds: Sequence[int] | None = None,
    record: tuple[str, ...] = (),
) -> list[RunSpec]:
    """A model on the splits of a dataset with its preset.

    Args:
        model: A name of ``gread.MODELS``.
        dataset: A name of ``gread.DATASETS``.
        change: Hyperparameters that differ from the preset.
        splits: How many, from the first; by default all ten.
        seeds: Which; by default three where test sets are small, else one.
        record: What to keep besides the accuracies.
    """
    preset = preset_of(model, dataset)
    if seeds is None:
        seeds = range(3) if dataset in SEVERAL_SEEDS else range(1)
    first = complete(
        RunSpec(
            dataset=dataset,
            model=model,
            hyper={**preset.hyper, **(change or {})},
            train=preset.train,
            options=preset.options,
            record=record,
        )
    )
    return [replace(first, seed=seed, split=split) for seed in seeds for split in range(splits)]
