"""Simpler models on the same nodes, which show whether the graph helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from gread.base.registry import Registry
from gread.estimator.classifier import GraphEstimator
from gread.estimator.fitted import AUTO, title_of
from gread.estimator.propagation import propagated
from gread.estimator.scores import AnyScores, Headline, apart

BASELINES: Registry[Callable[[GraphEstimator], AnyScores]] = Registry("baseline")
"""Functions from a fitted estimator to the scores of a simpler model on the same split."""
SHARED = ["epochs", "patience", "parts", "halo", "loss", "metric"]  # settings that baselines share


def compare(classifier: GraphEstimator) -> dict[str, AnyScores]:
    """Score a fitted estimator and every baseline on its test nodes.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=100, homophily=0.9, degree=8)
        >>> classifier = gread.GraphClassifier(settings={"epochs": 5}).fit(data)
        >>> list(compare(classifier))
        ['GREAD-BS', 'MLP', 'Label propagation', 'GCN']
    """
    own = title_of(classifier.model_)
    if classifier.model_ == AUTO:  # the baselines were candidates
        return {own: classifier.scores()}
    others = {name: make(classifier) for name, make in BASELINES.items() if name != own}
    return {own: classifier.scores()} | others


GRAPH_FREE = ("MLP",)
"""Titles of models that use no edges."""


def verdict(scores: Mapping[str, AnyScores]) -> str:
    """Summarize in one sentence whether the graph helps.

    The best model that uses edges is compared with the best that does not. A difference below two
    standard errors, computed as for independent samples, is not significant.

    Args:
        scores: Scores by title of the model, as returned by `compare`.

    Returns:
        The sentence; empty unless there are models of both kinds.
    """
    blind = {name: found for name, found in scores.items() if name in GRAPH_FREE}
    seeing = {name: found for name, found in scores.items() if name not in GRAPH_FREE}
    if not blind or not seeing:
        return ""
    without, graph = _best(blind), _best(seeing)
    one, other = seeing[graph].headline, blind[without].headline
    if one.value is None or other.value is None:
        return ""
    difference, distance = one.gain - other.gain, _apart(one, other)
    pair = f"{graph} (best with the graph) and {without} (best without it)"
    if abs(difference) < _error(one, other):
        nodes = seeing[graph].nodes
        return (
            f"{pair} differ by {distance}, within the error of {nodes:,} nodes: the graph makes no "
            "significant difference."
        )
    if difference < 0:
        return (
            f"{without}, which uses no edges, is {distance} better than {graph}, the best with the "
            "graph: the graph does not help these models."
        )
    better = f"{graph} is {distance} better than {without}, which uses no edges"
    return f"{better}: the graph helps."


def advice(name: str, scores: Mapping[str, AnyScores]) -> str:
    """Recommend a baseline if it is significantly better; otherwise return an empty string."""
    best = _best(scores)
    own, other = scores[name].headline, scores[best].headline
    if best == name or not other.gain - own.gain >= _error(own, other):
        return ""
    return (
        f"{best} is {_apart(own, other)} better than {name}: tune with --tune MINUTES, or use the "
        "simpler model."
    )


def _best(scores: Mapping[str, AnyScores]) -> str:
    """Title of the best model by the metric; the first if several are equal."""
    return max(scores, key=lambda name: scores[name].headline.gain)


def _apart(one: Headline, other: Headline) -> str:
    """The difference of two values, with the name of the metric unless it is accuracy."""
    distance = apart(one.metric, one.gain - other.gain)
    return distance if one.metric == "accuracy" else f"{distance} of {one.metric}"


def _error(one: Headline, other: Headline) -> float:
    """Two standard errors of a difference of independent values."""
    return float(2 * np.hypot(one.error, other.error))


def _trained(model: str, classifier: GraphEstimator) -> AnyScores:
    """Train another model with its defaults and the settings in `SHARED`, and score it."""
    given = dict(classifier.settings or {})
    settings = {name: given[name] for name in SHARED if name in given}
    return classifier.like(model, settings).scores()


BASELINES.add("MLP", partial(_trained, "mlp"))


@BASELINES.register("Label propagation")
def label_propagation(classifier: GraphEstimator) -> AnyScores:
    """Score label propagation from the training nodes, see `gread.estimator.propagation`."""
    data = classifier.data_
    task, y = classifier.task_, data.y.numpy()
    spread = propagated(data, data.train_mask, task, data.y)
    val, test = data.val_mask.numpy(), data.test_mask.numpy()
    return task.scores(y[test], spread[test], task.thresholds(spread[val], y[val]))


BASELINES.add("GCN", partial(_trained, "gcn"))
