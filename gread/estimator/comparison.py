"""Simpler models on the same nodes, which show whether the graph helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch.nn.functional import one_hot
from torch_geometric.nn import LabelPropagation

from gread.base.registry import Registry
from gread.estimator.classifier import GraphClassifier
from gread.estimator.scores import Scores, score
from gread.models.catalog import MODELS

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
    own = MODELS[classifier.model].title
    others = {name: make(classifier) for name, make in BASELINES.items() if name != own}
    return {own: classifier.scores()} | others


def verdict(name: str, own: Scores, mlp: Scores) -> str:
    """Whether the graph helps, in one sentence: a classifier beside an MLP, which sees no edge.

    A difference below two of its standard errors, as if both were tried on other nodes, is none.
    """
    points = 100 * (own.accuracy - mlp.accuracy)
    if abs(points) < _luck(own, mlp):
        return (
            f"{name} and an MLP, which sees no edge, are {abs(points):.1f} points apart, no more "
            f"than luck on {own.nodes} nodes: do not count on the graph."
        )
    if points < 0:
        return f"{name} is {-points:.1f} points worse than an MLP: the graph harms."
    return f"{name} is {points:.1f} points better than an MLP, which sees no edge: the graph helps."


def advice(name: str, scores: Mapping[str, Scores]) -> str:
    """One sentence where something simpler is better than luck explains, else nothing."""
    own = scores[name]
    best = max(scores, key=lambda other: scores[other].accuracy)
    points = 100 * (scores[best].accuracy - own.accuracy)
    if points < _luck(own, scores[best]) or best == name:
        return ""
    return (
        f"{best} is {points:.1f} points better than {name}: look for better settings with "
        "--tune MINUTES, or take the simpler one."
    )


def _luck(one: Scores, other: Scores) -> float:
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
    """Y ← 0.9 Ã Y + 0.1 Y(0), fifty times: the graph and the classes of training nodes alone.

    Zhou et al., NeurIPS 2003. A node that nothing reaches gets the shares of the classes.
    """
    data = classifier.data_
    known = one_hot(data.y.clamp(min=0), len(classifier.classes_)).float()
    found = LabelPropagation(num_layers=50, alpha=0.9)(
        known, data.edge_index, data.train_mask, data.edge_weight
    )
    shares = known[data.train_mask].mean(dim=0)
    total = found.sum(dim=1, keepdim=True)
    spread = torch.where(total > 0, found / total.clamp(min=1e-30), shares).double()
    return score(data.y[data.test_mask].numpy(), spread[data.test_mask].numpy())


BASELINES.add("GCN", partial(_trained, "gcn"))
