"""Selection of a predictor: candidates, their comparison within a time budget, and a blend.

Every candidate is scored on nodes that it was not trained on: on folds of the labelled nodes where
these are few, on one part of them otherwise. The test nodes take no part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.base.errors import InputError
from gread.base.toml import read_toml
from gread.estimator.blend import blend, mean
from gread.estimator.compression import components, is_heavy, is_wide
from gread.estimator.graphs import relations_of
from gread.estimator.neighbourhood import directions, joined, surroundings
from gread.estimator.scores import Figures
from gread.estimator.task import Classes, Task, Thresholds
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.structure.spectral import spectral_positions
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import HIDDEN_CHANNELS, Value
from gread.tables.graph import Relations
from gread.tables.scaling import SCALINGS, rescaled
from gread.training.config import TrainConfig
from gread.training.fit import fit, logits_of

FEW, FOLDS = 2000, 5
"""Labelled nodes below which there are folds, and how many."""

PROPAGATION = "label-propagation"
POSITIONS = ("positions", "directed_positions")
"""Names of positions in a graph, without and with directions."""
RELATIONS = "num_relations"
"""The hyperparameter of models with an operator for each type of edges."""
EPOCHS, PATIENCE = 600, 60


TRIED = ("none", "row", "binary")
"""Scalings of features that are tried of the best network."""


@dataclass(frozen=True)
class Candidate:
    """A candidate: a model with its settings and encoding.

    Attributes:
        title: For a reader.
        model: A name of ``gread.MODELS``, or label propagation.
        settings: Hyperparameters of the model and of the training.
        reason: Why it is tried.
        directed: Whether it uses the directions of edges.
        typed: Whether it uses the types of edges.
        scaling: Of all its features, a name of `gread.tables.SCALINGS`.
        compressed: Whether it sees the principal components of its features instead of them.
        smooth: Whether its predictions are corrected and smoothed by those of neighbours.
        balanced: Whether classes count alike in its loss, however many nodes they have.
        neighbours: Whether `gread.estimator.neighbourhood.surroundings` are among its features. Its
            network must see no edge: through two of them a node would see its own target.
        positions: Whether `gread.graph.structure.spectral.spectral_positions` are among its
            features.
        columns: Number of features of its network, once it is trained.
    """

    title: str
    model: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""
    directed: bool = False
    typed: bool = False
    scaling: str = "none"
    compressed: bool = False
    smooth: bool = False
    balanced: bool = False
    neighbours: bool = False
    positions: bool = False
    columns: int | None = None

    def __post_init__(self) -> None:
        if self.neighbours and self.model != "mlp":
            raise InputError(f"neighbours must be features of an mlp only, got {self.model!r}")
        if self.typed and not self.can_be_typed():
            raise InputError(f"typed must be false for {self.model!r}, which has one operator")

    def can_be_typed(self) -> bool:
        """Whether its features or its network may tell types of edges apart."""
        return self.neighbours or takes_types(self.model)

    def features(self, x: Tensor, components: Tensor | None) -> Tensor:
        """What it sees of features [N, F]: scaled, or their components.

        Args:
            x: Features.
            components: Those of the graph of the training, see
                `gread.estimator.compression.components`.
        """
        if not self.compressed:
            return rescaled(x, self.scaling)
        assert components is not None
        return x @ components.to(x.device)

    @property
    def without_graph(self) -> bool:
        """Whether the candidate uses no edges."""
        return self.model == "mlp" and not (self.smooth or self.neighbours or self.positions)

    def transductive(self) -> bool:
        """Whether the candidate can predict only its graph, possibly with added nodes."""
        return self.smooth or self.neighbours or self.model == PROPAGATION or self.bound()

    def bound(self) -> bool:
        """Whether the candidate is tied to the nodes of its graph and cannot predict added nodes.

        A grown graph has other eigenvectors.
        """
        if self.model == PROPAGATION:
            return False
        return self.positions or MODELS[self.model].transductive(
            split_settings(self.model, self.settings)[0]
        )


def takes_types(model: str) -> bool:
    """Whether a model of the catalogue may have an operator for each type of edges."""
    return model in MODELS and RELATIONS in MODELS[model].hyperparameters


@cache
def portfolio() -> tuple[Candidate, ...]:
    """Candidates of ``portfolio.toml``."""
    table = read_toml("estimator", "portfolio.toml") or {}
    return tuple(Candidate(**row) for row in table["candidates"])


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph with labelled nodes to learn from.

    Attributes:
        data: ``x``, ``edge_index`` with directions if there are any, ``edge_weight`` perhaps, types
            of edges as `relations_of` takes them, and ``y``, the targets of the task, where there
            is something to learn.
        learned: Nodes to learn from, [n]; no test node is among them.
        task: What is predicted, and by which metric candidates are compared.
        held: A part of them that is kept for validation, where the user says so.
        class_weight: As in ``gread.fit``.
        seed: Of folds and trainings.
        device: Where networks are trained.
        components: See `Candidate.features`; by default they are computed when needed.
        grows: Whether predictions are on a graph with more edges, in which positions are others.
    """

    data: Data
    learned: NDArray[np.int64]
    task: Task
    held: NDArray[np.int64] | None = None
    class_weight: Tensor | None = None
    seed: int = 0
    device: str = "cpu"
    components: Tensor | None = None
    grows: bool = False

    @cached_property
    def folds(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Nodes to train on and nodes to score on."""
        if self.held is not None:
            return [(np.setdiff1d(self.learned, self.held), self.held)]
        y = self.task.strata(self.data.y.numpy()[self.learned])
        rare = np.bincount(y)
        least = int(rare[rare > 0].min())
        about: dict[str, Any] = {"random_state": self.seed}
        if len(y) < FEW:
            count = max(2, min(FOLDS, least))
            parts = StratifiedKFold(count, shuffle=True, **about).split(y, y)
        else:
            parts = StratifiedShuffleSplit(1, test_size=0.2, **about).split(
                y, y if least > 1 else None
            )
        return [(self.learned[train], self.learned[held]) for train, held in parts]

    @cached_property
    def has_directions(self) -> bool:
        """Whether some edge lacks its reverse."""
        return bool(self.data.is_directed())

    @cached_property
    def relations(self) -> Relations | None:
        """Edges with their types and directions, if they have types."""
        return relations_of(self.data)

    @cached_property
    def undirected_relations(self) -> Relations | None:
        """Every edge of each type in both directions."""
        if self.relations is None:
            return None
        return self.relations.once(int(self.data.num_nodes), directed=False)

    def able(self, candidate: Candidate) -> bool:
        """Whether the graph has what a candidate is for: types, directions, positions that stay."""
        if candidate.positions and self.grows:
            return False
        if not candidate.typed:
            return self.has_directions or not candidate.directed
        if self.relations is None or self.undirected_relations is None:
            return False
        lacking = self.undirected_relations.index.size(1) > self.relations.index.size(1)
        return lacking or not candidate.directed

    @cached_property
    def undirected(self) -> tuple[Tensor, Tensor | None]:
        """Every edge in both directions."""
        weight, options = self.data.edge_weight, {"num_nodes": self.data.num_nodes}
        if not self.has_directions:
            return self.data.edge_index, weight
        if weight is None:
            return to_undirected(self.data.edge_index, **options), None
        return to_undirected(self.data.edge_index, weight, reduce="mean", **options)

    @cached_property
    def principal(self) -> Tensor:
        """The components of the features, [F, k]."""
        return components(self.data.x) if self.components is None else self.components

    @cached_property
    def encoded(self) -> dict[str, Tensor]:
        """Features as candidates see them and positions by name, made when they are needed."""
        return {}

    def suited(self, candidate: Candidate) -> Candidate:
        """A candidate that sees compressed features where the given ones are heavy."""
        heavy = candidate.model != PROPAGATION and is_heavy(self.data.x)
        return replace(candidate, compressed=heavy)

    def positions(self, *, directed: bool) -> Tensor:
        """Spectral positions of the nodes, [N, F]: those in the graph, or computed once."""
        name = POSITIONS[directed]
        if self.data.get(name) is not None:
            found: Tensor = self.data[name]
            return found
        if name not in self.encoded:
            edges, nodes = (
                self.data.edge_index if directed else self.undirected[0],
                self.data.num_nodes,
            )
            self.encoded[name] = spectral_positions(edges, int(nodes or 0), directed=directed)
        return self.encoded[name]

    def graph(self, candidate: Candidate, known: Tensor | None = None) -> Data:
        """The graph as a candidate uses it, without masks.

        Args:
            candidate: Which.
            known: Nodes whose targets may become features of others, [N].
        """
        name = "compressed" if candidate.compressed else candidate.scaling
        x = self.encoded.get(name)
        if x is None:
            principal = self.principal if candidate.compressed else None
            x = self.encoded[name] = candidate.features(self.data.x, principal)
        edges = (
            (self.data.edge_index, self.data.edge_weight) if candidate.directed else self.undirected
        )
        if candidate.positions:
            x = joined(x, self.positions(directed=candidate.directed).to(x.device))
        relations = None
        if candidate.typed:
            relations = self.relations if candidate.directed else self.undirected_relations
            assert relations is not None
        if candidate.neighbours:
            assert known is not None
            parts = [edges[0], *(relations.parts() if relations is not None else ())]
            groups = [directions(part, len(known), candidate.directed) for part in parts]
            x = joined(x, surroundings(groups, x, known, self.task.around(self.data.y)))
            relations = None
        if relations is not None:
            edges = relations.index, relations.weight
        data = Data(x=x, edge_index=edges[0])
        if self.data.y is not None:
            data.y = self.task.learned(self.data.y)
        if edges[1] is not None:
            data.edge_weight = edges[1]
        if relations is not None:
            data.edge_type = relations.kind
        return data

    def gain(self, predictions: Figures, nodes: NDArray[np.int64]) -> tuple[float, float]:
        """The value to maximize, see `Task.gain`."""
        return self.task.gain(predictions, self.data.y.numpy()[nodes])

    def weights(self, candidate: Candidate, nodes: NDArray[np.int64]) -> Tensor | None:
        """Class weights of a candidate that learns from ``nodes``."""
        if self.class_weight is not None or not candidate.balanced:
            return self.class_weight
        return balanced(self.data.y[nodes], self.task.width)


def balanced(y: Tensor, classes: int) -> Tensor:
    """Weights of classes, inversely to their sizes, with a mean of 1 over the nodes."""
    sizes = y.bincount(minlength=classes).float()
    return len(y) / (sizes.clamp_min(1) * (sizes > 0).sum())


@dataclass(frozen=True)
class Trained:
    """A trained candidate.

    Attributes:
        candidate: What it is, with all that its network is built from.
        module: Its network; None of label propagation.
        predictions: Of every node, [N, k].
        epochs: How many were best.
        stopped: Whether its time was over before it had learned.
    """

    candidate: Candidate
    module: nn.Module | None
    predictions: Figures
    epochs: int = 0
    stopped: bool = False


@dataclass
class Scored:
    """A candidate in the race.

    Attributes:
        nodes: Those it was scored on, so far.
        predictions: Of these, [n, k].
        gain: See `Problem.gain`.
        epochs: Best numbers of epochs, one for each fold.
        seconds: What it took.
        stopped: Whether its time was over in some fold.
    """

    candidate: Candidate
    nodes: NDArray[np.int64]
    predictions: Figures
    gain: tuple[float, float]
    epochs: list[int]
    seconds: float
    stopped: bool


def train(
    problem: Problem,
    candidate: Candidate,
    nodes: NDArray[np.int64],
    held: NDArray[np.int64] | None,
    *,
    epochs: int = EPOCHS,
    until: float = float("inf"),
    seed: int = 0,
) -> Trained:
    """Train a candidate on ``nodes``.

    Args:
        problem: The graph.
        candidate: What to train.
        nodes: To learn from.
        held: Nodes that decide the epoch; without any it is the one with the lowest loss on
            ``nodes``, which is the last or close to it.
        epochs: How many, at most.
        until: When to stop, as `time.monotonic` counts; the best epoch so far counts.
        seed: Of the training.
    """
    known = torch.zeros(problem.data.num_nodes, dtype=torch.bool)
    known[nodes] = True
    data = problem.graph(candidate, known)
    if candidate.model == PROPAGATION:
        spread = propagated(data, known, problem.task, problem.data.y)
        return Trained(candidate, None, spread)
    candidate = replace(candidate, columns=data.num_features)
    if data.get("edge_type") is not None:
        assert problem.relations is not None
        types = {RELATIONS: len(problem.relations.names)}
        candidate = replace(candidate, settings={**candidate.settings, **types})
    _, given = split_settings(candidate.model, candidate.settings)
    task = problem.task
    usual: dict[str, Any] = {"epochs": epochs, "patience": PATIENCE}
    config = TrainConfig(**usual | {"loss": task.loss, "metric": task.metric} | given)
    if held is None:
        config = replace(config, epochs=epochs, patience=None, metric=task.steady)
    data.train_mask = known
    data.val_mask = data.test_mask = known if held is None else _mask(held, known)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = built(candidate, data.num_features, task.width, data.num_nodes)
        module = module.to(problem.device)
        data = data.to(problem.device)
        found = fit(
            module,
            data,
            config,
            class_weight=problem.weights(candidate, nodes),
            on_epoch=lambda epoch: time.monotonic() > until,
        )
    predictions = predicted(module, data, task)
    if candidate.smooth:
        predictions = smoothed(data, known, task, problem.data.y, predictions)
    stopped = time.monotonic() > until
    return Trained(candidate, module.cpu(), predictions, found.best.number + 1, stopped)


def built(candidate: Candidate, features: int, outputs: int, nodes: int) -> nn.Module:
    """The network of a candidate, untrained."""
    own, _ = split_settings(candidate.model, candidate.settings)
    hyper: dict[str, Any] = {"hidden_channels": HIDDEN_CHANNELS} | own
    sizes = candidate.columns or features, hyper.pop("hidden_channels"), outputs
    return MODELS[candidate.model].make(*sizes, num_nodes=nodes, **hyper)


def predicted(module: nn.Module, data: Data, task: Task) -> Figures:
    """Predictions of every node, [N, k]."""
    outputs = logits_of(module, data, data.train_mask, TrainConfig()).detach()
    return task.predictions(outputs, task.loss)


def _mask(nodes: NDArray[np.int64], like: Tensor) -> Tensor:
    found = torch.zeros_like(like)
    found[nodes] = True
    return found


VARIANTS = 4
"""How many variants of the best there should be time for."""

ALPHA, ROUNDS = 0.9, 50
"""Share of the neighbours in propagation, and how often it is repeated."""


def _spread(data: Data, start: Tensor, alpha: float = ALPHA) -> Tensor:
    """S ← α Ã S + (1 − α) S₀, with D^-½ A D^-½ for Ã: Zhou et al., NeurIPS 2003."""
    adj = OriginalAdjacency(self_loops=0.0)(start, data.edge_index, data.edge_weight)
    state = start
    for _ in range(ROUNDS):
        state = alpha * (adj @ state) + (1 - alpha) * start
    return state


def propagated(data: Data, known: Tensor, task: Task, y: Tensor) -> Figures:
    """Label propagation: targets of known nodes spread along edges, Zhou et al., NeurIPS 2003.

    Each node gets the mean of known targets, weighted by how much of each reaches it. A node that
    no known node reaches gets the mean over all of them. Ã is normalized with the edge weights;
    PyG's ``LabelPropagation`` normalizes it only if there are none.
    """
    column = known.unsqueeze(1).float()
    start = task.spread(y) * column
    found = _spread(data, torch.cat([start, column], 1))
    total = found[:, -1:]
    everywhere = start[known].mean(0)
    spread = torch.where(total > 0, found[:, :-1] / total.clamp_min(1e-30), everywhere)
    return spread.double().numpy()


def smoothed(data: Data, known: Tensor, task: Task, y: Tensor, predictions: Figures) -> Figures:
    """Correct and smooth: Huang et al., ICLR 2021.

    The errors on known nodes are spread along edges and taken off, scaled to their mean size; then
    the targets of known nodes and the predictions of the others are spread.
    """
    device = data.edge_index.device
    p = torch.from_numpy(predictions).float().to(device)
    truth = task.spread(y).to(device)
    column = known.to(device).unsqueeze(1)
    error = (truth - p) * column
    spread = _spread(data, error)
    size = error.abs().sum() / column.sum() / p.size(1)
    scale = (size / spread.abs().mean(1, keepdim=True).clamp_min(1e-12)).clamp(max=1.0)
    corrected = torch.where(column, truth, task.limited(p + scale * spread))
    found, weight = (_spread(data, one, 0.8) for one in (corrected, torch.ones_like(p[:, :1])))
    return task.restored(found, weight).double().cpu().numpy()


def race(
    problem: Problem,
    candidates: Sequence[Candidate],
    seconds: float,
    on_score: Callable[[Scored], None] | None = None,
) -> list[Scored]:
    """Score candidates within a time budget, best first.

    Every candidate may take twice its share of what is left; what it does not need is for the
    others. One that can predict on other graphs is always among them, if it trains for one epoch.
    Then variants of the best network are tried as long as there is time: itself with more time if
    its own was over, other scalings of the features, correction by neighbours, balanced classes
    where accuracy is not the metric, and settings around its own.
    """
    begin = time.monotonic()
    end = begin + seconds
    found: list[Scored] = []

    def enter(candidate: Candidate, others: int) -> None:
        left = max(0.0, end - time.monotonic())
        if not left and any(not one.candidate.transductive() for one in found):
            return
        one = _scored(problem, candidate, time.monotonic() + left / (0.5 * others + 1))
        if one is not None:
            found.append(one)
            if on_score is not None:
                on_score(one)

    try:
        able = [problem.suited(one) for one in candidates if problem.able(one)]
        for number, candidate in enumerate(able):
            enter(candidate, len(able) - number)
        for variant in _variants(problem, found, end):
            enter(variant, VARIANTS)
    except KeyboardInterrupt:
        if not found:
            raise
    found.sort(key=lambda one: one.gain, reverse=True)
    return found


def _scored(problem: Problem, candidate: Candidate, until: float) -> Scored | None:
    """Scores on every fold, for each of which there is the same time; None where it diverges."""
    begin = time.monotonic()
    nodes, predictions, epochs, stopped = [], [], [], False
    for number, (learned, held) in enumerate(problem.folds):
        now = time.monotonic()
        share = now + max(0.0, until - now) / (len(problem.folds) - number)
        try:
            one = train(problem, candidate, learned, held, until=share, seed=problem.seed)
        except ArithmeticError:
            return None
        nodes.append(held)
        predictions.append(one.predictions[held])
        epochs.append(one.epochs)
        stopped = stopped or one.stopped
    every, whole = np.concatenate(nodes), np.concatenate(predictions)
    seconds = time.monotonic() - begin
    return Scored(candidate, every, whole, problem.gain(whole, every), epochs, seconds, stopped)


def _variants(problem: Problem, found: list[Scored], end: float) -> Iterator[Candidate]:
    """Variants of the best network while time remains."""
    tried: set[str] = set()
    random = np.random.default_rng(0)
    while time.monotonic() < end:
        ranked = sorted(found, key=lambda one: one.gain, reverse=True)
        networks = [one.candidate for one in ranked if one.candidate.model != PROPAGATION]
        if not networks:
            return
        best = networks[0]
        near = _near(problem, best)
        if any(one.candidate is best and one.stopped for one in found):
            near = chain([replace(best, reason="its time was over")], near)
        fresh = [one for one in near if repr(one) not in tried]
        if not fresh:
            fresh = [_moved(best, random)]
        tried.add(repr(fresh[0]))
        yield fresh[0]


def _near(problem: Problem, best: Candidate) -> Iterator[Candidate]:
    """Variants of a network."""
    uneven = isinstance(problem.task, Classes) and problem.task.metric != "accuracy"
    if uneven and problem.class_weight is None and not best.balanced:
        yield replace(
            best, title=f"{best.title}, balanced", balanced=True, reason="some classes are rare"
        )
    typed = best.can_be_typed() and replace(best, typed=True, title=f"{best.title}, typed")
    if typed and not best.typed and problem.able(typed):
        yield replace(typed, reason="edges have types")
    placed = replace(best, positions=True, title=f"{best.title}, positions")
    if not best.positions and problem.able(placed):
        yield replace(placed, reason="where a node stands in the graph may tell its class")
    if not best.smooth:
        yield replace(
            best,
            title=f"{best.title}, smoothed",
            smooth=True,
            reason="neighbours' errors are alike",
        )
    if is_wide(problem.data.x) and not best.compressed:
        yield replace(
            best,
            title=f"{best.title}, compressed features",
            compressed=True,
            scaling="none",
            reason="there are many columns",
        )
    for scaling in TRIED:
        if best.compressed or scaling != best.scaling:
            title = f"{best.title}, features {SCALINGS[scaling].about}"
            yield replace(best, title=title, scaling=scaling, compressed=False)


def _moved(best: Candidate, random: np.random.Generator) -> Candidate:
    """Other settings close to those of the best."""
    settings = dict(best.settings)
    for name in ("lr", "weight_decay"):
        settings[name] = float(
            f"{float(settings.get(name) or 1e-4) * 2.0 ** random.uniform(-1.5, 1.5):.3g}"
        )
    for name in ("dropout", "input_dropout"):
        if name in settings:
            moved = float(settings[name] or 0.0) + random.uniform(-0.2, 0.2)
            settings[name] = round(min(0.8, max(0.0, moved)), 2)
    for name, choices in (("hidden_channels", (64, 128, 256)), ("num_steps", (1, 2, 3, 4))):
        if name in settings and random.uniform() < 0.4:
            settings[name] = int(random.choice(choices))
    title = best.title.removesuffix(", tuned")
    return replace(
        best, title=f"{title}, tuned", settings=settings, reason="settings around the best"
    )


@dataclass(frozen=True)
class Choice:
    """Result of a comparison of candidates.

    Attributes:
        scored: All candidates, the best first.
        weights: Of each of them in the blend.
        temperature: Of the blend.
        gain: Of the blend on the nodes of the race, see `Problem.gain`.
        thresholds: Of the blend, see `gread.estimator.task`.
    """

    scored: list[Scored]
    weights: list[float]
    temperature: float
    gain: tuple[float, float]
    thresholds: Thresholds = None


def choose(problem: Problem, scored: list[Scored]) -> Choice:
    """The best blend of candidates by the nodes that they were scored on, calibrated there."""
    task, nodes = problem.task, scored[0].nodes
    y = problem.data.y.numpy()[nodes]
    found = [one.predictions for one in scored]
    weights = blend(found, lambda p: problem.gain(p, nodes))
    mixed = mean(weights, found)
    t = task.temperature(mixed, y)
    thresholds = task.thresholds(task.tempered(mixed, t), y)
    return Choice(scored, weights, t, problem.gain(mixed, nodes), thresholds)
