"""Explanations of predictions by edges and features."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.config import ModelConfig
from torch_geometric.nn import MessagePassing

from gread.base.errors import InputError
from gread.base.memory import enough_memory
from gread.estimator.automatic import Where
from gread.estimator.fitted import AUTO, FittedEstimator, title_of
from gread.estimator.neighbourhood import joined
from gread.estimator.scores import Figures
from gread.estimator.task import Task
from gread.estimator.trees import Trees
from gread.training.fit import inputs_of
from gread.training.losses import LOSSES, Loss, Targets

EPOCHS = 100
"""Training epochs of the masks."""

OTHERS = 64
"""Number of nodes whose values replace those of the explained node, for trees."""

MODES: dict[Targets, str] = {
    "classes": "multiclass_classification",
    "labels": "binary_classification",
    "numbers": "regression",
}
"""Explanation modes of PyG by kind of target; the binary loss is the mean over several labels."""


@dataclass(frozen=True)
class Explanation:
    """The edges and features with the largest influence on a prediction.

    A notebook shows it as tables, and ``print`` as text.

    Attributes:
        node: Id of the node.
        prediction: Predicted class, labels or number.
        probability: Probability of the class; None for labels and numbers.
        model: Title of the network or the trees that are explained.
        edges: Ids of source and target with the weight of the edge in a mask, 0 to 1; each
            pair occurs once in an undirected graph.
        features: Names of features with their weights in a mask, 0 to 1. For trees, the
            largest weight is 1.
    """

    node: Any
    prediction: Any
    probability: float | None
    model: str
    edges: tuple[tuple[Any, Any, float], ...]
    features: tuple[tuple[str, float], ...]

    @property
    def _title(self) -> str:
        several = isinstance(self.prediction, tuple)
        shown = ", ".join(map(str, self.prediction)) or "none" if several else self.prediction
        shown = f"{shown:.5g}" if isinstance(shown, float) else shown
        sure = "" if self.probability is None else f" with probability {self.probability:.2f}"
        return f"{self.node} is predicted as {shown}{sure} ({self.model})"

    def __str__(self) -> str:
        lines = [self._title, *(f"{a} → {b}  {weight:.2f}" for a, b, weight in self.edges)]
        return "\n".join(lines + [f"{name}  {weight:.2f}" for name, weight in self.features])

    def _repr_html_(self) -> str:
        """Two tables, for a notebook."""
        edges = [(f"{a} → {b}", weight) for a, b, weight in self.edges]
        tables = _table("edge", edges) + _table("feature", self.features)
        return f"<p>{escape(self._title)}</p>{tables}"


def _table(head: str, rows: Sequence[tuple[str, float]]) -> str:
    body = "".join(f"<tr><td>{escape(n)}</td><td>{weight:.2f}</td></tr>" for n, weight in rows)
    return f"<table><tr><th>{head}</th><th>weight</th></tr>{body}</table>" if rows else ""


def explain(classifier: FittedEstimator, node: Any, most: int) -> Explanation:
    """Explain a prediction on the training graph, see `gread.GraphClassifier.explain`."""
    place, task = _place(classifier, node), classifier.task_
    title, module, data, directed, positions = _network(classifier)
    found = classifier.predictions()
    decided = task.decided(found, classifier.thresholds_[Where.HERE])
    target = task.learned(torch.from_numpy(decided))
    with torch.random.fork_rng(devices=[]), enough_memory("a smaller graph"):
        torch.manual_seed(classifier.random_state)
        if isinstance(module, Trees):
            edges = torch.zeros(data.edge_index.size(1))
            features = _influences(module, task, data.x, place, decided[place])
        else:
            edges, features = _masks(module, LOSSES[classifier.config_.loss], data, target, place)
    names, ids = classifier.preprocessing_.names(), classifier.ids_
    names = [*names, *(f"position[{column}]" for column in range(positions))]
    more = range(len(features) - len(names))  # see `gread.estimator.neighbourhood`
    names = [*names, *(f"neighbourhood[{column}]" for column in more)]
    best = features.topk(min(most, int((features > 0).sum())))
    return Explanation(
        ids[place],
        _named(task, decided[place]),
        float(found[place, decided[place]]) if task.targets == "classes" else None,
        title,
        tuple(_pairs(edges, data.edge_index, ids, directed, most)),
        tuple((names[at], value) for value, at in zip(*map(Tensor.tolist, best), strict=True)),
    )


def _named(task: Task, decided: Any) -> Any:
    """Predicted class, labels or number of a node."""
    if task.targets == "labels":
        return tuple(name for name, has in zip(task.names, decided, strict=True) if has)
    return task.names[decided] if task.targets == "classes" else float(decided)


def _place(classifier: FittedEstimator, node: Any) -> int:
    classifier.check_graph("a node cannot be explained")
    try:
        return list(classifier.ids_).index(node)
    except ValueError:
        raise InputError(
            f"node must be the id of a node of the training graph, got {node!r}"
        ) from None


def _network(classifier: FittedEstimator) -> tuple[str, nn.Module, Data, bool, int]:
    """Return title, network, graph, directedness and number of positions of the model to explain.

    Of a blend, the member with the largest weight is explained.
    """
    if classifier.model_ != AUTO:
        data = classifier.structured(classifier.data_)
        return title_of(classifier.model_), classifier.module_, data, classifier.directed, 0
    networks = [one for one in classifier.blend_.members if one.module is not None]
    if not networks:
        raise InputError(
            "a blend must contain a network or trees to be explained, got only label propagation"
        )
    best = max(networks, key=lambda one: (one.weight, one.elsewhere))
    assert best.module is not None
    known = classifier.data_.train_mask | classifier.data_.val_mask
    directed = best.candidate.directed
    problem = classifier.blend_.problem(classifier.data_)
    data = problem.graph(best.candidate, known)
    data.train_mask = known
    title = f"{best.candidate.title}, the strongest trained model of the blend"
    positions = problem.positions(directed=directed).size(1) if best.candidate.positions else 0
    module = best.module
    if best.candidate.compressed:
        components = problem.principal
        data.x = joined(classifier.data_.x, data.x[:, components.size(1) :])
        module = deepcopy(module)
        module.register_forward_pre_hook(partial(_compress, components))
    return title, module, data, directed, positions


def _compress(components: Tensor, module: nn.Module, given: tuple[Tensor, ...]) -> Any:
    """Inputs with components instead of the original features."""
    x, *others = given
    return torch.cat([x[:, : len(components)] @ components, x[:, len(components) :]], 1), *others


def _influences(trees: Trees, task: Task, x: Tensor, place: int, decided: Any) -> Tensor:
    """Influence of every feature on the prediction of a node, [F]; the largest is 1.

    It is the mean absolute change of the prediction if another node's value replaces the node's.
    With classes, the prediction is the probability of the predicted class.
    """
    chosen = [int(decided)] if task.targets == "classes" else slice(None)

    def predictions(rows: Tensor) -> Figures:
        return task.predictions(trees(rows), task.loss)[:, chosen]

    others = torch.randperm(len(x))[:OTHERS]
    now, found = predictions(x[place : place + 1]), torch.zeros(x.size(1))
    for column in trees.columns():
        rows = x[place].repeat(len(others), 1)
        rows[:, column] = x[others, column]
        found[column] = float(np.abs(predictions(rows) - now).mean())
    return found / found.max() if found.any() else found


class _Scores(nn.Module):
    """Scores from the outputs of a network, with the shape of its targets, for explainers."""

    def __init__(self, module: nn.Module, loss: Loss):
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x: Tensor, edge_index: Tensor, **others: Tensor) -> Tensor:
        found = self.loss.scores(self.module(x, edge_index, **others))
        return found.squeeze(-1) if self.loss.targets == "numbers" else found


def _masks(
    module: nn.Module, loss: Loss, data: Data, target: Tensor, place: int
) -> tuple[Tensor, Tensor]:
    """Masks of edges [E] and of features [F] that GNNExplainer learns (Ying et al., NeurIPS 2019).

    All edges have weight 0 if the network passes no messages along them: it uses no edges, or
    others, such as those between nodes two hops apart.
    """
    x = data.x.to_dense() if data.x.layout is torch.sparse_csr else data.x
    others = inputs_of(module, data, data.train_mask)
    if data.edge_weight is not None:
        others["edge_weight"] = data.edge_weight
    passes = any(isinstance(part, MessagePassing) for part in module.modules())
    for kind in ("object", None) if passes else (None,):
        explainer = Explainer(
            _Scores(deepcopy(module).cpu().eval(), loss),  # a failed explainer leaves masks
            algorithm=GNNExplainer(epochs=EPOCHS),
            explanation_type="phenomenon",
            node_mask_type="common_attributes",
            edge_mask_type=kind,
            model_config=ModelConfig(MODES[loss.targets], "node", "raw"),
        )
        try:
            found = explainer(x, data.edge_index, target=target, index=place, **others)
        except (ValueError, AssertionError):  # no gradient reaches these edges
            if kind is None:
                raise
            continue
        edges = found.get("edge_mask")
        none = torch.zeros(data.edge_index.size(1))
        return none if edges is None else edges, found.node_mask.view(-1)
    raise AssertionError("features have a mask")


def _pairs(
    mask: Tensor, edge_index: Tensor, ids: Sequence[Any], directed: bool, most: int
) -> list[tuple[Any, Any, float]]:
    """The edges with the largest weights; in an undirected graph, the larger of both directions."""
    found: dict[tuple[int, int], float] = {}
    order = mask.argsort(descending=True)[: 2 * most]
    for at in order[mask[order] > 0].tolist():
        a, b = edge_index[:, at].tolist()
        if directed or (b, a) not in found:
            found.setdefault((a, b), float(mask[at]))  # the largest of several types
    return [(ids[a], ids[b], weight) for (a, b), weight in found.items()][:most]
