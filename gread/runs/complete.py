"""Completion of specs with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from gread.base.errors import InputError
from gread.data.catalog import DATASETS
from gread.models.catalog import MODELS
from gread.runs.spec import HIDDEN_CHANNELS, RunSpec, Value


def complete(spec: RunSpec) -> RunSpec:
    """Check ``spec`` against the registries and fill in missing hyperparameters.

    A completed spec has the values of all hyperparameters, so a later change of a default affects
    neither the key nor the meaning of stored runs. A hyperparameter that a model gained later
    (``ModelEntry.added``) is omitted at the value that means "as before". For a model that uses
    both edge directions, the graph is loaded with directions if it has any. The function is
    idempotent.

    Raises:
        InputError: The model, dataset or a hyperparameter is unknown, or the combination is not
            supported.

    Example:
        >>> spec = complete(RunSpec(dataset="cora", model="gcn", hyper={"dropout": 0.5}))
        >>> spec.hyper["hidden_channels"], spec.hyper["dropout"]
        (64, 0.5)
    """
    dataset = DATASETS[spec.dataset]  # raises an error for an unknown name
    entry = MODELS[spec.model]
    known = known_hyperparameters(spec.model)
    check_keys(spec.hyper, known, spec.model)
    entry.check_parts(spec.train.parts, spec.hyper)
    added = dict(entry.added)
    hyper = {
        name: value
        for name, value in (known | added | dict(spec.hyper)).items()
        if name not in added or value != added[name]
    }
    options = dict(spec.options)
    if dataset.directed and hyper.get("direction") == "both":
        options["directed"] = True
    changed = hyper != spec.hyper or options != spec.options
    return replace(spec, hyper=hyper, options=options) if changed else spec


def known_hyperparameters(model: str) -> dict[str, Any]:
    """Hyperparameters of a model with their defaults, ``hidden_channels`` first."""
    return {"hidden_channels": HIDDEN_CHANNELS} | MODELS[model].hyperparameters


def check_keys(given: Mapping[str, Value], known: Mapping[str, Any], model: str) -> None:
    """Raise an error for names that are not hyperparameters of the model."""
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f", did you mean {near[0]!r}? Choose" if near else "; choose"
            choices = ", ".join(sorted(known))
            raise InputError(f"{model} has no hyperparameter {key!r}{hint} from: {choices}")
