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
    """Check ``spec`` against what is registered and fill in every hyperparameter left out.

    A completed spec stores the values of all hyperparameters, so a default that changes later
    changes neither the key nor the meaning of runs already stored. A hyperparameter that a model
    gained later (``ModelEntry.added``) is left out while it has the value that means "as before".
    A model that uses both directions of edges gets a graph that has them, if there is one.
    Completing a completed spec changes nothing.

    Raises:
        InputError: There is no such model, dataset or hyperparameter, or the model cannot be
            trained so.

    Example:
        >>> spec = complete(RunSpec(dataset="cora", model="gcn", hyper={"dropout": 0.5}))
        >>> spec.hyper["hidden_channels"], spec.hyper["dropout"]
        (64, 0.5)
    """
    dataset = DATASETS[spec.dataset]  # an unknown name fails before anything is computed
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
    """The hyperparameters of a model with their defaults, ``hidden_channels`` first."""
    return {"hidden_channels": HIDDEN_CHANNELS} | MODELS[model].hyperparameters


def check_keys(given: Mapping[str, Value], known: Mapping[str, Any], model: str) -> None:
    """Require hyperparameters of the model."""
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f", did you mean {near[0]!r}? Choose" if near else "; choose"
            choices = ", ".join(sorted(known))
            raise InputError(f"{model} has no hyperparameter {key!r}{hint} from: {choices}")
