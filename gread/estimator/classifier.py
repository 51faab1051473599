"""A user's graph in, predictions out, in the manners of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import degree

from gread.base.checks import check_count
from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.memory import TRAINING, enough_memory
from gread.estimator.diagnosis import diagnose
from gread.estimator.graphs import as_graph, column_of, masks_of_data
from gread.estimator.scores import Scores, score
from gread.graph.structure.catalog import add_structure
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import HIDDEN_CHANNELS, Value
from gread.tables.column import Column, column
from gread.tables.features import Preprocessing, choose_features
from gread.tables.graph import TableGraph
from gread.tables.labels import Labels, check_split, draw_split, read_labels, read_split
from gread.tables.table import Table
from gread.training.config import TrainConfig
from gread.training.fit import Epoch, fit, logits_of
from gread.training.memory import parts_that_fit

TRAIN: dict[str, Any] = {"epochs": 200, "lr": 0.01, "weight_decay": 5e-4, "patience": 50}
"""How to train, if nobody says: stop when 50 epochs have not improved validation."""

LARGE = 50_000
TRAIN_LARGE = {"epochs": 50, "lr": 0.03, "patience": 20}
"""On a graph of so many nodes an epoch takes seconds and validation hardly fluctuates."""

FRACTIONS = (0.6, 0.2, 0.2)
"""Train, validation and test, if nobody says."""

MASKS = ("train_mask", "val_mask", "test_mask")

DEGREE = "(degree)"
"""What stands in for features where there are none: log(1 + neighbours)."""


class GraphClassifier(ClassifierMixin, BaseEstimator):
    """Predicts the class of nodes from their columns and their neighbours.

    Nodes without a class are the ones to predict. The others are split: the first part trains, the
    second decides when to stop, the third says how good it is. Columns are encoded by a fitted
    preprocessing (`gread.tables.Preprocessing`), from training nodes alone.

    Args:
        model: A name of ``gread.MODELS``.
        settings: Hyperparameters of the model and of ``gread.TrainConfig``, by name. Without one,
            GREAD takes the adjacency, time and solver that the diagnosis recommends, and a graph
            that does not fit into memory is cut into parts (`gread.graph.partition`).
        features: Columns to use, or ``"auto"`` for all but label and split.
        id, source, target, weight: Columns, see `gread.tables.read_graph`.
        directed: Whether edges have one direction.
        class_weight: How much nodes of each class count: None for alike, ``"balanced"`` for
            inversely to the size of the class, or a mapping.
        random_state: Where the random numbers of split and training start.
        device: ``"auto"`` takes a GPU if there is one.

    Attributes:
        classes_: In the order of the columns of `predict_proba`.
        ids_: Of the nodes it was trained on.
        data_: Their graph: features, edges, classes (−1 where there is none) and masks.
        preprocessing_: From columns to features.
        diagnosis_: Of the graph, without the classes of the test.
        settings_: All hyperparameters of the model.
        config_: How it was trained.
        module_: The trained model.
        fit_: How training went.

    Example:
        >>> import gread
        >>> from sklearn.base import clone
        >>> data = gread.load("csbm", num_nodes=200, homophily=0.8, degree=8)
        >>> classifier = gread.GraphClassifier(settings={"epochs": 20}).fit(data)
        >>> classifier.predict_proba().shape
        (200, 2)
        >>> clone(classifier).get_params()["model"]
        'gread-bs'
    """

    def __init__(
        self,
        model: str = "gread-bs",
        *,
        settings: Mapping[str, Value] | None = None,
        features: str | Sequence[str] = "auto",
        id: str | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        directed: bool = False,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int = 0,
        device: str = "auto",
    ):
        self.model = model
        self.settings = settings
        self.features = features
        self.id = id
        self.source = source
        self.target = target
        self.weight = weight
        self.directed = directed
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        edges: Any = None,
        split: Any = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> GraphClassifier:
        """Trains on a graph.

        Args:
            X: The graph or its nodes, see `gread.estimator.as_graph`.
            y: The name of the column of classes, or classes [N], None, NaN or −1 where there is
                none; of a PyG ``Data`` by default its ``y``.
            edges: Its edges, where X has none.
            split: The name of a column that says train, val or test, or a list of these; of a PyG
                ``Data`` which of its splits, by default the first. Otherwise it is drawn.
            on_epoch: Called after every epoch, for progress.
        """
        return self.prepare(X, y, edges=edges, split=split).train(on_epoch)

    def prepare(
        self, X: Any, y: Any = None, *, edges: Any = None, split: Any = None
    ) -> GraphClassifier:
        """All of `fit` but the training: reads, splits, diagnoses, encodes."""
        self.config()  # misspelt names fail before anything is computed
        choose_device(self.device)
        check_count("random_state", self.random_state, minimum=0)
        graph = self.graph(X, edges)
        labels = _labels(X, y, graph)
        parts = self._split(X, split, graph, labels)
        others = [name for name in (y, split) if isinstance(name, str)]
        names = choose_features(graph.table(), self.features, others)
        graph = graph if names else _with_degrees(graph)
        seen = Labels(labels.classes, np.where(parts == 2, -1, labels.y))
        self.diagnosis_ = diagnose(graph, seen, names)
        rows = np.flatnonzero(parts == 0)
        self.preprocessing_ = Preprocessing.fit(graph.table(), names or [DEGREE], rows)
        self.classes_ = np.array(labels.classes)
        self.ids_: Sequence[Any] = graph.ids
        self.data_ = self._inputs(graph)
        self.data_.y = torch.from_numpy(labels.y)
        for part, name in enumerate(MASKS):
            self.data_[name] = torch.from_numpy(parts == part)
        self._class_weights()  # which may name others than there are
        return self

    def train(self, on_epoch: Callable[[Epoch], None] | None = None) -> GraphClassifier:
        """Builds the model and trains it on what is prepared."""
        hyper, _ = split_settings(self.model, dict(self.settings or {}))
        entry, device = MODELS[self.model], choose_device(self.device)
        begin = self.diagnosis_.recommendation
        hyper = {name: getattr(begin, name) for name in entry.diagnosed} | hyper
        self.settings_ = {"hidden_channels": HIDDEN_CHANNELS} | entry.hyperparameters | hyper
        weights = self._class_weights()
        with torch.random.fork_rng(devices=[]):
            self.config_ = self._divided(self.data_, self.built().to(device))
        data = self._structured(self.data_).to(device if self.config_.parts == 1 else "cpu")
        with torch.random.fork_rng(devices=[]), enough_memory(TRAINING):
            torch.manual_seed(self.random_state)
            self.module_ = self.built().to(device)
            self.fit_ = fit(
                self.module_,
                data,
                self.config_,
                class_weight=None if weights is None else weights.to(device),
                on_epoch=on_epoch,
            )
        return self

    def predict_proba(self, X: Any = None, *, edges: Any = None) -> NDArray[np.float64]:
        """The probability of every class, [N, classes].

        Args:
            X: A graph with the same columns, new or grown; by default the one it was trained on.
            edges: Its edges, where X has none.
        """
        self._check_fitted()
        device = choose_device(self.device)
        if X is None:
            self._check_graph()
            data, config = self.data_, self.config_
        else:
            self._check_inductive()
            data = self._inputs(self.graph(X, edges))
            data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
            config = self._divided(data, self.module_.to(device))
            config = replace(config, parts=min(config.parts, int(data.num_nodes)))
        data = self._structured(data).to(device if config.parts == 1 else "cpu")
        with enough_memory("a smaller graph, or a model trained with more parts"):
            logits = logits_of(self.module_.to(device), data, data.train_mask, config)
        found: NDArray[np.float64] = logits.double().softmax(dim=1).cpu().numpy()
        return found

    def predict(self, X: Any = None, *, edges: Any = None) -> NDArray[Any]:
        """The most probable class of every node; arguments as in `predict_proba`."""
        chosen = self.predict_proba(X, edges=edges).argmax(axis=1)
        found: NDArray[Any] = self.classes_[chosen]
        return found

    def score(self, X: Any = None, y: Any = None, *, edges: Any = None) -> float:
        """The accuracy on nodes with a class; by default on those that were kept for the test."""
        return self.scores(X, y, edges=edges).accuracy

    def scores(self, X: Any = None, y: Any = None, *, edges: Any = None) -> Scores:
        """All measures, see `gread.estimator.Scores`; arguments as in `score`."""
        self._check_fitted()
        if X is None:
            self._check_graph()
            tested = self.data_.test_mask.numpy()
            return score(self.data_.y.numpy()[tested], self.predict_proba()[tested])
        graph = self.graph(X, edges)
        labels = _labels(X, y, graph, self.classes_.tolist())
        if not labels.known.any():
            raise InputError("y must name the class of some nodes, got none")
        return score(labels.y[labels.known], self.predict_proba(graph)[labels.known])

    def like(
        self,
        model: str,
        settings: Mapping[str, Value],
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> GraphClassifier:
        """Another model or other settings on what is prepared here, trained."""
        other: GraphClassifier = clone(self).set_params(model=model, settings=settings)
        other.classes_, other.ids_, other.data_ = self.classes_, self.ids_, self.data_
        other.preprocessing_, other.diagnosis_ = self.preprocessing_, self.diagnosis_
        return other.train(on_epoch)

    def save(self, folder: str | Path) -> Path:
        """Writes a model folder, see `gread.estimator.folder`; it must not exist."""
        from gread.estimator.folder import save

        return save(self, folder)

    @staticmethod
    def load(folder: str | Path) -> GraphClassifier:
        """The classifier in a model folder, or in a repository of the Hugging Face Hub."""
        from gread.estimator.folder import load

        return load(folder)

    def graph(self, X: Any, edges: Any = None) -> TableGraph:
        """The graph that is given, read as this classifier was told to."""
        return as_graph(
            X,
            edges,
            id=self.id,
            source=self.source,
            target=self.target,
            weight=self.weight,
            directed=self.directed,
        )

    def _split(self, X: Any, split: Any, graph: TableGraph, labels: Labels) -> NDArray[np.int64]:
        """Parts of the nodes that have a class: 0 train, 1 validation, 2 test."""
        if isinstance(split, str):
            parts = read_split(graph.table(), split)
        elif split is not None and not isinstance(split, int):
            given = _checked(split, graph.num_nodes)
            parts = read_split(Table("split", {"split": given}), "split")
        else:
            masks = masks_of_data(X, split or 0) if isinstance(X, Data) else None
            drawn = draw_split(labels.y, FRACTIONS, self.random_state)
            parts = drawn if masks is None else masks
        parts = np.where(labels.known, parts, -1)
        check_split(parts, labels.y)
        return parts

    def config(self, nodes: int = 0) -> TrainConfig:
        """How it trains on a graph of so many nodes."""
        given = split_settings(self.model, dict(self.settings or {}))[1]
        found = TrainConfig(**(TRAIN | (TRAIN_LARGE if nodes >= LARGE else {}) | given))
        MODELS[self.model].check_parts(found.parts)
        return found

    def _divided(self, data: Data, module: nn.Module) -> TrainConfig:
        """How it trains on a graph, by parts where it would not fit into memory."""
        config = self.config(int(data.num_nodes))
        if "parts" in (self.settings or {}) or not MODELS[self.model].divisible:
            return config
        found = parts_that_fit(module, data)
        if found.parts > 1:
            warnings.warn(str(found), stacklevel=3)
        return replace(config, parts=found.parts, halo=found.halo)

    def _inputs(self, graph: TableGraph) -> Data:
        """Features and edges."""
        if DEGREE in self.preprocessing_.encoders:  # there are no features but this
            graph = _with_degrees(graph)
        x = torch.from_numpy(self.preprocessing_.transform(graph.table()))
        data = Data(x=x, edge_index=graph.edge_index)
        if graph.edge_weight is not None:
            data.edge_weight = graph.edge_weight
        return data

    def _structured(self, data: Data) -> Data:
        """With what the model wants to know of the graph; a copy, so that it may be moved."""
        structure = MODELS[self.model].structure
        return copy(data) if structure is None else add_structure(data, structure).data

    def built(self) -> nn.Module:
        """The model with these settings, untrained."""
        hyper = dict(self.settings_)
        sizes = self.preprocessing_.width, hyper.pop("hidden_channels"), len(self.classes_)
        return MODELS[self.model].make(*sizes, num_nodes=len(self.ids_), **hyper)

    def _class_weights(self) -> Tensor | None:
        """[classes], with a mean of 1 over the training nodes where they are balanced."""
        given = self.class_weight
        if given is None:
            return None
        classes = self.classes_.tolist()
        trained = self.data_.y[self.data_.train_mask].numpy()
        sizes = np.bincount(trained, minlength=len(classes))
        if given == "balanced":
            weights = len(trained) / (np.maximum(sizes, 1) * (sizes > 0).sum())
            return torch.tensor(weights, dtype=torch.float32)
        if not isinstance(given, Mapping):
            raise InputError(f"class_weight must be None, 'balanced' or a mapping, got {given!r}")
        for label in given:
            if label not in classes:
                known = ", ".join(map(repr, classes))
                raise InputError(f"class_weight must name the classes {known}, got {label!r}")
        return torch.tensor([float(given.get(label, 1.0)) for label in classes])

    def _check_fitted(self) -> None:
        if "module_" not in vars(self):
            raise NotFittedError("this GraphClassifier must be fitted before it predicts")

    def _check_graph(self) -> None:
        if "data_" not in vars(self):
            raise InputError("a graph must be given: this model was shared without its own")

    def _check_inductive(self) -> None:
        if MODELS[self.model].transductive:
            raise InputError(
                f"{self.model} has weights for every node of the graph it was trained on, so it "
                "cannot predict on another: train one that can, for instance gread-bs"
            )


def _labels(X: Any, y: Any, graph: TableGraph, classes: Sequence[Any] | None = None) -> Labels:
    """Classes by the name of a column, or as they are given."""
    if isinstance(y, str):
        return read_labels(graph.table(), y, classes)
    if y is None and isinstance(X, Data):
        y = X.y
    if y is None:
        raise InputError("y must be the name of the column of classes, or classes, got none")
    found = _checked(y, graph.num_nodes)
    if found.kind == "whole":  # as elsewhere in scikit-learn
        found = Column("whole", found.values, found.missing | (found.values == -1))
    return read_labels(Table("y", {"y": found}), "y", classes)


def _checked(values: Any, count: int) -> Column:
    found = column_of(values)
    if len(found) != count:
        raise InputError(f"there must be a value for each of {count} nodes, got {len(found)}")
    return found


def _with_degrees(graph: TableGraph) -> TableGraph:
    """The graph with a column of what is known of every node of every graph."""
    neighbours = degree(graph.edge_index[1], graph.num_nodes).log1p().numpy()
    return replace(graph, columns={**graph.columns, DEGREE: column(neighbours)})
