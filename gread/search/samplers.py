"""Samplers of Optuna's by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gread.base.registry import Registry
from gread.search.study import import_optuna

if TYPE_CHECKING:
    import optuna

SAMPLERS: Registry[Callable[[int], Any]] = Registry("sampler")
"""From a seed to a sampler of Optuna's."""


@SAMPLERS.register("random")
def random_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Every setting for itself, as in the paper."""
    return import_optuna().samplers.RandomSampler(seed)


@SAMPLERS.register("tpe")
def tpe_sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Settings like the good ones so far; those of a batch that is under way count as poor."""
    optuna = import_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
