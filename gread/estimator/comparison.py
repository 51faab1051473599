"""Simpler models on the same nodes, which show whether the graph helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gread.base.registry import Registry
from gread.estimator.classifier import GraphClassifier
from gread.estimator.fitted import AUTO, title_of
from gread.estimator.race import propagated
from gread.estimator.scores import Scores, score

BASELINES: Registry[Callable[[GraphClassifier], Scores]] = Registry("baseline")
"""From a fitted classifier to the scores of something simpler on the same split."""
SHARED = ["epochs", "patience", "parts", "halo", "loss", "metric"]  # settings of baselines too


def compare(classifier: GraphClassifier) -> dict[str, Scores]:
    """The scores of a fitted classifier on its test nodes, and of every baseline.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=100, homophily=0.9, degree=8)
        >>> classifier = gread.GraphClassifier(settings={"epochs": 5}).fit(data)
        >>> list(compare(classifier))
        ['GREAD-BS', 'MLP', 'Label propagation', 'GCN']
    """
    own = title_of(classifier.model)
    if classifier.model == AUTO:  # these were candidates
        return {own: classifier.scores()}
    others = {name: make(classifier) for name, make in BASELINES.items() if name != own}
    return {own: classifier.scores()} | others


GRAPH_FREE = ("MLP",)
"""Titles of models that see no edge."""


def verdict(scores: Mapping[str, Scores]) -> str:
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
    points = 100 * (seeing[graph].accuracy - blind[without].accuracy)
    pair = f"{graph}, the best with the graph, and {without}, the best without it,"
    if abs(points) < _error(seeing[graph], blind[without]):
        nodes = seeing[graph].nodes
        return (
            f"{pair} are {abs(points):.1f} points apart, within the error of {nodes:,} nodes: the "
            "graph makes no certain difference."
        )
    if points < 0:
        return (
            f"{without}, which sees no edge, is {-points:.1f} points better than {graph}, the best "
            "with the graph: these models lose by the graph."
        )
    told = f"{graph} is {points:.1f} points better than {without}, which sees no edge"
    return f"{told}: the graph helps."


def advice(name: str, scores: Mapping[str, Scores]) -> str:
    """One sentence where another model is certainly better, else nothing."""
    own, best = scores[name], _best(scores)
    points = 100 * (scores[best].accuracy - own.accuracy)
    if points < _error(own, scores[best]) or best == name:
        return ""
    return (
        f"{best} is {points:.1f} points better than {name}: look for better settings with "
        "--tune MINUTES, or take the simpler one."
    )


def _best(scores: Mapping[str, Scores]) -> str:
    """The most accurate, the first of several."""
    return max(scores, key=lambda name: scores[name].accuracy)


def _error(one: Scores, other: Scores) -> float:
    """Two standard errors of a difference in points, as if both were tried on other nodes."""
    variance = sum(found.accuracy * (1 - found.accuracy) / found.nodes for found in (one, other))
    return float(200 * variance**0.5)


def _trained(model: str, classifier: GraphClassifier) -> Scores:
    """Another model with its own defaults, trained for as long."""
    given = dict(classifier.settings or {})
    settings = {name: given[name] for name in SHARED if name in given}
    return classifier.like(model, settings).scores()


BASELINES.add("MLP", partial(_trained, "mlp"))


@BASELINES.register("Label propagation")
def label_propagation(classifier: GraphClassifier) -> Scores:
    """Label propagation from the training nodes, see `gread.estimator.race.propagated`."""
    data = classifier.data_
    spread = propagated(data, data.train_mask, len(classifier.classes_))
    test = data.test_mask.numpy()
    return score(data.y.numpy()[test], spread[test])


BASELINES.add("GCN", partial(_trained, "gcn"))
