"""Simpler models on the same nodes, which show whether the graph helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from gread.base.registry import Registry
from gread.estimator.classifier import GraphEstimator
from gread.estimator.fitted import AUTO, title_of
from gread.estimator.race import propagated
from gread.estimator.scores import AnyScores, Headline, apart

BASELINES: Registry[Callable[[GraphEstimator], AnyScores]] = Registry("baseline")
"""From a fitted classifier to the scores of something simpler on the same split."""
SHARED = ["epochs", "patience", "parts", "halo", "loss", "metric"]  # settings of baselines too


def compare(classifier: GraphEstimator) -> dict[str, AnyScores]:
    """The scores of a fitted classifier on its test nodes, and of every baseline.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=100, homophily=0.9, degree=8)
        >>> classifier = gread.GraphClassifier(settings={"epochs": 5}).fit(data)
        >>> list(compare(classifier))
        ['GREAD-BS', 'MLP', 'Label propagation', 'GCN']
    """
    own = title_of(classifier.model_)
    if classifier.model_ == AUTO:  # these were candidates
        return {own: classifier.scores()}
    others = {name: make(classifier) for name, make in BASELINES.items() if name != own}
    return {own: classifier.scores()} | others


GRAPH_FREE = ("MLP",)
"""Titles of models that see no edge."""


def verdict(scores: Mapping[str, AnyScores]) -> str:
    """Whether the graph helps, in one sentence: the best model with edges against the best without.

    A difference below two of its standard errors, as if both were tried on other nodes, is none.
    Empty unless there are models of both kinds.

    Args:
        scores: By the titles of models, as `compare` gives them.
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
    pair = f"{graph}, the best with the graph, and {without}, the best without it,"
    if abs(difference) < _error(one, other):
        nodes = seeing[graph].nodes
        return (
            f"{pair} are {distance} apart, within the error of {nodes:,} nodes: the graph makes no "
            "certain difference."
        )
    if difference < 0:
        return (
            f"{without}, which sees no edge, is {distance} better than {graph}, the best with the "
            "graph: these models lose by the graph."
        )
    told = f"{graph} is {distance} better than {without}, which sees no edge"
    return f"{told}: the graph helps."


def advice(name: str, scores: Mapping[str, AnyScores]) -> str:
    """One sentence where another model is certainly better, else nothing."""
    best = _best(scores)
    own, other = scores[name].headline, scores[best].headline
    if best == name or not other.gain - own.gain >= _error(own, other):
        return ""
    return (
        f"{best} is {_apart(own, other)} better than {name}: look for better settings with "
        "--tune MINUTES, or take the simpler one."
    )


def _best(scores: Mapping[str, AnyScores]) -> str:
    """The best by the metric, the first of several."""
    return max(scores, key=lambda name: scores[name].headline.gain)


def _apart(one: Headline, other: Headline) -> str:
    """How far two values are apart, with the name of a metric that is not the usual one."""
    distance = apart(one.metric, one.gain - other.gain)
    return distance if one.metric == "accuracy" else f"{distance} of {one.metric}"


def _error(one: Headline, other: Headline) -> float:
    """Two standard errors of a difference, as if both were tried on other nodes."""
    return float(2 * np.hypot(one.error, other.error))


def _trained(model: str, classifier: GraphEstimator) -> AnyScores:
    """Another model with its own defaults, trained for as long."""
    given = dict(classifier.settings or {})
    settings = {name: given[name] for name in SHARED if name in given}
    return classifier.like(model, settings).scores()


BASELINES.add("MLP", partial(_trained, "mlp"))


@BASELINES.register("Label propagation")
def label_propagation(classifier: GraphEstimator) -> AnyScores:
    """Label propagation from the training nodes, see `gread.estimator.race.propagated`."""
    data = classifier.data_
    task, y = classifier.task_, data.y.numpy()
    spread = propagated(data, data.train_mask, task, data.y)
    val, test = data.val_mask.numpy(), data.test_mask.numpy()
    return task.scores(y[test], spread[test], task.thresholds(spread[val], y[val]))


BASELINES.add("GCN", partial(_trained, "gcn"))
