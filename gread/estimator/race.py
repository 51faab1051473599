"""Selection of a predictor: candidates, their comparison within a time budget, and a blend.

Every candidate is scored on nodes that it was not trained on: on folds of the labelled nodes where
these are few, on one part of them otherwise. The test nodes take no part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.base.toml import read_toml
from gread.estimator.blend import blend, mean
from gread.estimator.neighbourhood import joined, surroundings
from gread.estimator.scores import Figures
from gread.estimator.task import Classes, Task, Thresholds
from gread.graph.adjacency import OriginalAdjacency
from gread.graph.partition import sparse_tensor
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import HIDDEN_CHANNELS, Value
from gread.training.config import TrainConfig
from gread.training.fit import fit, logits_of

FEW, FOLDS = 2000, 5
"""Labelled nodes below which there are folds, and how many."""

PROPAGATION = "label-propagation"
EPOCHS, PATIENCE = 600, 60


def _by_value(change: Callable[[Tensor, Tensor, int], Tensor], x: Tensor) -> Tensor:
    """Features whose non-zeros are changed, from their rows and values and the number of rows."""
    if x.layout is torch.sparse_csr:
        rows = torch.repeat_interleave(x.crow_indices().diff())
        values = change(rows, x.values(), x.size(0))
        return sparse_tensor(x.crow_indices(), x.col_indices(), values, x.shape)
    # Without `nonzero`, whose number of values `torch.export` does not know beforehand.
    rows = torch.arange(x.size(0), device=x.device).repeat_interleave(x.size(1))
    return change(rows, x.flatten(), x.size(0)).view_as(x) * (x != 0)


def _share_of_row(rows: Tensor, values: Tensor, count: int) -> Tensor:
    totals = values.new_zeros(count).index_add_(0, rows, values.abs())
    return values / totals[rows].clamp_min(1e-12)


ENCODINGS: Registry[Callable[[Tensor], Tensor]] = Registry(
    "encoding",
    {
        "given": lambda x: x,
        "rows": partial(_by_value, _share_of_row),
        "binary": partial(_by_value, lambda rows, values, count: torch.ones_like(values)),
    },
)
"""What may be done to features before a network sees them."""


@dataclass(frozen=True)
class Candidate:
    """A candidate: a model with its settings and encoding.

    Attributes:
        title: For a reader.
        model: A name of ``gread.MODELS``, or label propagation.
        settings: Hyperparameters of the model and of the training.
        reason: Why it is tried.
        directed: Whether it uses the directions of edges.
        encoding: A name of `ENCODINGS`.
        smooth: Whether its predictions are corrected and smoothed by those of neighbours.
        balanced: Whether classes count alike in its loss, however many nodes they have.
        neighbours: Whether `gread.estimator.neighbourhood.surroundings` are among its features. Its
            network must see no edge: through two of them a node would see its own target.
        columns: Number of features of its network, once it is trained.
    """

    title: str
    model: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""
    directed: bool = False
    encoding: str = "given"
    smooth: bool = False
    balanced: bool = False
    neighbours: bool = False
    columns: int | None = None

    def __post_init__(self) -> None:
        if self.neighbours and self.model != "mlp":
            raise InputError(f"neighbours must be features of an mlp only, got {self.model!r}")

    @property
    def without_graph(self) -> bool:
        """Whether the candidate uses no edges."""
        return self.model == "mlp" and not self.smooth and not self.neighbours

    def transductive(self) -> bool:
        """Whether the candidate can predict only its graph, possibly with added nodes."""
        return self.smooth or self.neighbours or self.model == PROPAGATION or self.bound()

    def bound(self) -> bool:
        """Whether the candidate has weights for each node and cannot predict added nodes."""
        if self.model == PROPAGATION:
            return False
        return MODELS[self.model].transductive(split_settings(self.model, self.settings)[0])


@cache
def portfolio() -> tuple[Candidate, ...]:
    """Candidates of ``portfolio.toml``."""
    table = read_toml("estimator", "portfolio.toml") or {}
    return tuple(Candidate(**row) for row in table["candidates"])


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph with labelled nodes to learn from.

    Attributes:
        data: ``x``, ``edge_index`` with directions if there are any, ``edge_weight`` perhaps, and
            ``y``, the targets of the task, where there is something to learn.
        learned: Nodes to learn from, [n]; no test node is among them.
        task: What is predicted, and by which metric candidates are compared.
        held: A part of them that is kept for validation, where the user says so.
        class_weight: As in ``gread.fit``.
        seed: Of folds and trainings.
        device: Where networks are trained.
    """

    data: Data
    learned: NDArray[np.int64]
    task: Task
    held: NDArray[np.int64] | None = None
    class_weight: Tensor | None = None
    seed: int = 0
    device: str = "cpu"

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
    def undirected(self) -> tuple[Tensor, Tensor | None]:
        """Every edge in both directions."""
        weight, options = self.data.edge_weight, {"num_nodes": self.data.num_nodes}
        if not self.has_directions:
            return self.data.edge_index, weight
        if weight is None:
            return to_undirected(self.data.edge_index, **options), None
        return to_undirected(self.data.edge_index, weight, reduce="mean", **options)

    @cached_property
    def encoded(self) -> dict[str, Tensor]:
        """Features by encoding, made when asked for."""
        return {}

    def graph(self, candidate: Candidate, known: Tensor | None = None) -> Data:
        """The graph as a candidate uses it, without masks.

        Args:
            candidate: Which.
            known: Nodes whose targets may become features of others, [N].
        """
        x = self.encoded.get(candidate.encoding)
        if x is None:
            x = self.encoded[candidate.encoding] = ENCODINGS[candidate.encoding](self.data.x)
        edges = (
            (self.data.edge_index, self.data.edge_weight) if candidate.directed else self.undirected
        )
        if candidate.neighbours:
            assert known is not None
            targets = self.task.around(self.data.y)
            x = joined(x, surroundings(edges[0], x, known, targets, candidate.directed))
        data = Data(x=x, edge_index=edges[0])
        if self.data.y is not None:
            data.y = self.task.learned(self.data.y)
        if edges[1] is not None:
            data.edge_weight = edges[1]
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
        module: Its network; None of label propagation.
        predictions: Of every node, [N, k].
        epochs: How many were best.
        columns: Number of features of the network.
    """

    module: nn.Module | None
    predictions: Figures
    epochs: int = 0
    columns: int | None = None


@dataclass
class Scored:
    """A candidate in the race.

    Attributes:
        nodes: Those it was scored on, so far.
        predictions: Of these, [n, k].
        gain: See `Problem.gain`.
        epochs: Best numbers of epochs, one for each fold.
        seconds: What it took.
    """

    candidate: Candidate
    nodes: NDArray[np.int64]
    predictions: Figures
    gain: tuple[float, float]
    epochs: list[int]
    seconds: float


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
        return Trained(None, propagated(data, known, problem.task, problem.data.y))
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
    return Trained(module.cpu(), predictions, found.best.number + 1, data.num_features)


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
    Then variants of the best network are tried as long as there is time: other encodings of the
    features, correction by neighbours, balanced classes where accuracy is not the metric, and
    settings around its own.
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
        able = [one for one in candidates if problem.has_directions or not one.directed]
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
    nodes, predictions, epochs = [], [], []
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
    every, whole = np.concatenate(nodes), np.concatenate(predictions)
    seconds = time.monotonic() - begin
    return Scored(candidate, every, whole, problem.gain(whole, every), epochs, seconds)


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
        fresh = [one for one in _near(problem, best) if repr(one) not in tried]
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
    if not best.smooth:
        yield replace(
            best,
            title=f"{best.title}, smoothed",
            smooth=True,
            reason="neighbours' errors are alike",
        )
    for encoding in ENCODINGS:
        if encoding != best.encoding:
            yield replace(best, title=f"{best.title}, {encoding} features", encoding=encoding)


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
