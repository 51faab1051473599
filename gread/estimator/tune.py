"""Tuning of an estimator on a user's graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from gread.base.checks import check_positive
from gread.base.errors import InputError
from gread.estimator.classifier import GraphEstimator
from gread.estimator.fitted import AUTO, Tuning
from gread.search.objective import objective_of
from gread.search.space import read_space
from gread.search.study import import_optuna
from gread.training.loop import Epoch


def tune(
    classifier: GraphEstimator,
    minutes: float,
    on_trial: Callable[[int, GraphEstimator], None] | None = None,
) -> GraphEstimator:
    """Tune settings, and return the estimator with the best validation metric.

    Its attribute ``tuning_`` is a `Tuning`.

    Optuna draws settings from the search space of the model, except those that ``classifier`` was
    given. A training that is not finished in time does not count.

    Args:
        classifier: Fitted estimator of one model; returned if no trial is better.
        minutes: Minutes to spend.
        on_trial: Called after every trial with the number of trials and the best estimator so far.

    Example:
        >>> import gread
        >>> from gread.estimator import tune
        >>> data = gread.load("csbm", num_nodes=60, homophily=0.9, degree=6)
        >>> first = gread.GraphClassifier(settings={"epochs": 2}).fit(data)
        >>> tune(first, minutes=0.01).fit_.best.val >= first.fit_.best.val
        True
    """
    check_positive("minutes", minutes)
    if classifier.model_ == AUTO:
        raise InputError(f"tune must be given an estimator of one model, got model {AUTO!r}")
    if "fit_" not in vars(classifier):
        raise InputError(
            "tune must be given a fitted estimator, got one without the epochs of a training: fit "
            "it again if its model folder is from an earlier version"
        )
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = read_space(classifier.model_)
    sampler = optuna.samplers.TPESampler(seed=classifier.random_state)
    objective = objective_of(vars(classifier.config_))
    study = optuna.create_study(direction=objective.direction, sampler=sampler)
    given = dict(classifier.settings or {})
    end = time.monotonic() + 60 * minutes
    unit, best, values, diverged = classifier.task_.in_unit, classifier, list[float](), 0

    def check_time(_: Epoch) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    while time.monotonic() < end:
        trial = study.ask()
        try:
            other = classifier.like(classifier.model_, space.suggest(trial) | given, check_time)
        except TimeoutError:
            break
        except ArithmeticError:  # it diverged in its first epoch
            study.tell(trial, objective.failed)
            diverged += 1
            continue
        values.append(other.fit_.best.val)
        study.tell(trial, other.fit_.best.val)
        if objective.gain(other.fit_.best.val) > objective.gain(best.fit_.best.val):
            best = other
        if on_trial is not None:
            on_trial(len(values), best)
    old, new = (one.settings_ | asdict(one.config_) for one in (classifier, best))
    best.tuning_ = Tuning(
        len(values),
        diverged,
        unit(classifier.fit_.best.val),
        max(map(unit, values), key=objective.gain, default=None),
        best is not classifier,
        {name: (old.get(name), new[name]) for name in new if new[name] != old.get(name)},
    )
    return best
