"""A trained estimator: its settings, its graph, and predictions on this or another graph."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from gread.base.checks import check_positive
from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.memory import enough_memory
from gread.data.splits import MASKS
from gread.estimator.automatic import Blend, Where
from gread.estimator.candidates import RELATIONS
from gread.estimator.diagnosis import Diagnosis
from gread.estimator.graphs import (
    Addition,
    as_addition,
    as_graph,
    column_of,
    relations_of,
    with_relations,
)
from gread.estimator.scores import AnyScores, Figures, Scores, calibration_error
from gread.estimator.task import Task, Thresholds, read_targets
from gread.graph.measures import log_degree
from gread.graph.partition import sparse_tensor, stack_rows, take_rows
from gread.graph.structure.catalog import add_structure
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import Value
from gread.tables.column import Column, column
from gread.tables.features import Preprocessing
from gread.tables.graph import Columns, Relations, TableGraph
from gread.tables.table import Table
from gread.training.config import TrainConfig
from gread.training.fit import logits_of
from gread.training.loop import Fit
from gread.training.losses import LOSSES
from gread.training.memory import PROBE, parts_that_fit
from gread.training.metrics import METRICS

MINUTES, PLENTY = 2.0, 20_000
"""Default minutes for the choice of a model, and the number of nodes up to which they apply."""

MOST = 12.0
"""Longest default time for the choice of a model, in minutes."""

TRAIN: dict[str, Any] = {"epochs": 200, "lr": 0.01, "weight_decay": 5e-4, "patience": 50}
LARGE = 50_000  # nodes from which an epoch takes seconds and validation hardly fluctuates
TRAIN_LARGE = {"epochs": 50, "lr": 0.03, "patience": 20}
AUTO = "auto"  # the model that is chosen for the graph
ONE = "gread-bs"
"""Default model if settings are given, or tuned."""
MOST_TYPES = 8
"""Largest number of edge types with separate operators; the rarest types share the last one."""
DEGREE = "(degree)"  # column log(1 + neighbours), for graphs without features


@dataclass(frozen=True)
class Tuning:
    """Result of a tuning.

    Attributes:
        trials: Number of trials that finished in time.
        diverged: Number of other trials, which diverged in their first epoch.
        before: Validation metric before the tuning.
        best: Best validation metric of the trials; None if none finished.
        helped: Whether ``best`` is better than ``before``.
        changed: Settings that the best trial changed, with old and new values; empty if the tuning
            did not help.
    """

    trials: int
    diverged: int
    before: float
    best: float | None
    helped: bool
    changed: Mapping[str, tuple[Any, Any]]


class FittedEstimator(BaseEstimator):
    """Settings and fitted state of an estimator, and its predictions."""

    kind = "auto"
    """Kind of the task, one of `gread.estimator.task.KINDS`."""

    task_: Task
    thresholds_: tuple[Thresholds, ...]
    classes_: NDArray[Any]
    ids_: Sequence[Any]
    types_: tuple[str, ...]
    data_: Data
    seen_: Data
    split_given_: bool
    preprocessing_: Preprocessing
    diagnosis_: Diagnosis
    settings_: dict[str, Any]
    config_: TrainConfig
    module_: nn.Module
    fit_: Fit
    tuning_: Tuning
    blend_: Blend

    def __init__(
        self,
        model: str | None = None,
        *,
        settings: Mapping[str, Value] | None = None,
        time: float | None = None,
        features: str | Sequence[str] = "auto",
        categorical: str | Sequence[str] = "",
        numeric: str | Sequence[str] = "",
        scaling: str = "auto",
        id: str | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        edge_type: str | None = None,
        time_column: str | None = None,
        directed: bool = False,
        class_weight: str | Mapping[Any, float] | None = None,
        metric: str | None = None,
        random_state: int = 0,
        device: str = "auto",
        graph: Any = None,
        verbose: bool = False,
    ):
        self.model = model
        self.settings = settings
        self.time = time
        self.features = features
        self.categorical = categorical
        self.numeric = numeric
        self.scaling = scaling
        self.id = id
        self.source = source
        self.target = target
        self.weight = weight
        self.edge_type = edge_type
        self.time_column = time_column
        self.directed = directed
        self.class_weight = class_weight
        self.metric = metric
        self.random_state = random_state
        self.device = device
        self.graph = graph
        self.verbose = verbose

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy that shares the graph, which may be large."""
        own = self.get_params(deep=False)
        own |= {name: clone(value, safe=False) for name, value in own.items() if name != "graph"}
        return type(self)(**own)

    @property
    def model_(self) -> str:
        """Name of the trained model: by default `AUTO`, or `ONE` with settings."""
        return self.model or (ONE if self.settings else AUTO)

    def predictions(self, X: Any = None, *, edges: Any = None, added: bool = False) -> Figures:
        """Predict probabilities or numbers of every node, [N, k].

        Args:
            X: Graph with the same columns; by default the training graph. With the argument
                ``graph`` of the estimator, node numbers.
            edges: Edges, if X does not contain them.
            added: Whether X contains nodes to add to the training graph, and ``edges`` join them to
                it and to each other; see `gread.estimator.graphs.as_addition`. Only added nodes
                are predicted.
        """
        self._check_fitted(X)
        where = self.where(X, added=added)
        if where is Where.GROWN:
            return self._predictions(self._grown(X, edges), where)[len(self.ids_) :]
        if where is Where.HERE:
            found = self._predictions(self.data_, where)
            return found if X is None else found[node_numbers(X, len(self.ids_))]
        data = self._inputs(self.read(X, edges))
        data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
        return self._predictions(data, where)

    def where(self, X: Any = None, *, added: bool = False) -> Where:
        """The kind of graph that the arguments of `predictions` select."""
        if added:
            return Where.GROWN
        return Where.HERE if X is None or self.graph is not None else Where.ELSEWHERE

    def _predictions(self, data: Data, where: Where) -> Figures:
        """Predictions for the training graph, with added nodes, or for another graph."""
        device = choose_device(self.device)
        if self.model_ == AUTO:
            elsewhere = where is Where.ELSEWHERE
            known = None if elsewhere else data.train_mask | data.val_mask
            return self.blend_.predictions(data, known, device, where)
        config = self.config_
        if where is not Where.HERE:
            if MODELS[self.model_].transductive(self.settings_):
                raise InputError(
                    f"{self.model_} has weights for every node of the graph it was trained on, so "
                    f"it cannot predict {where.title}: train one that can, for instance gread-bs"
                )
            config = self._divided(data, self.module_.to(device))
            config = replace(config, parts=min(config.parts, int(data.num_nodes)))
        data = self.structured(data).to(device if config.parts == 1 else "cpu")
        with enough_memory("a smaller graph, or a model trained with more parts"):
            outputs = logits_of(self.module_.to(device), data, data.train_mask, config)
        return self.task_.predictions(outputs, self.config_.loss)

    def predict(self, X: Any = None, *, edges: Any = None, added: bool = False) -> NDArray[Any]:
        """Predict the class or number of every node, or 0 and 1 for labels.

        The arguments are those of `predictions`.
        """
        predictions = self.predictions(X, edges=edges, added=added)
        found = self.task_.decided(predictions, self.thresholds_[self.where(X, added=added)])
        return self.classes_[found] if self.task_.targets == "classes" else found

    def left_out(self, *, added: bool = False) -> list[str]:
        """Members of the blend that cannot predict another graph, or added nodes with ``added``."""
        where = Where.GROWN if added else Where.ELSEWHERE
        return self.blend_.left_out(where) if self.model_ == AUTO else []

    def score(self, X: Any = None, y: Any = None, *, edges: Any = None) -> float:
        """Score by accuracy, micro-F1 or R² on labelled nodes, by default the test nodes."""
        first = next(iter(self.scores(X, y, edges=edges).measures().values()))
        return float("nan") if first is None else first

    def scores(self, X: Any = None, y: Any = None, *, edges: Any = None) -> AnyScores:
        """Compute all measures, see `gread.estimator.scores`; arguments as in `score`."""
        self._check_fitted(X)
        task, given = self.task_, X
        if X is None:
            truth, known = self.data_.y.numpy(), self.data_.test_mask.numpy()
            if not known.any():
                raise InputError("X must name nodes to score: this estimator has no test nodes")
        else:
            if self.graph is not None:
                table = given_targets(y, len(node_numbers(X, len(self.ids_))), self.kind)
                _, truth, _ = read_targets(table, list(table.columns), self.kind, task)
            else:
                given = self.read(X, edges)
                _, truth, _ = targets_of(X, y, given, self.kind, task)
            known = task.known(truth)
            if not known.any():
                raise InputError(f"y must have the {task.word} of some nodes, got none")
        where, y = self.where(X), truth[known]
        thresholds, predictions = self.thresholds_[where], self.predictions(given)[known]
        found = task.scores(y, predictions, thresholds)
        if self.model_ == AUTO and isinstance(found, Scores):
            before = task.tempered(predictions, 1 / self.blend_.temperatures[where])
            decided = task.decided(predictions, thresholds)
            found = replace(found, uncalibrated=calibration_error(y, before, decided))
        return found

    def read(self, X: Any, edges: Any = None) -> TableGraph:
        """Read a graph with the columns of this estimator."""
        return as_graph(X, edges, **self._columns())

    def addition(self, X: Any, edges: Any = None) -> Addition:
        """Read nodes and edges to add to the training graph."""
        self.check_graph("nodes cannot be added")
        return as_addition(self.ids_, X, edges, **self._columns())

    def _columns(self) -> Columns:
        names = ("id", "source", "target", "weight", "edge_type", "time_column")
        columns = Columns(**{name: getattr(self, name) for name in names})  # type: ignore[typeddict-item]
        columns["directed"] = self.directed or self.model_ == AUTO
        return columns

    def config(self, nodes: int = 0) -> TrainConfig:
        """Training settings, which depend on the number of nodes."""
        if self.model_ == AUTO:
            return self._automatic()
        hyper, given = split_settings(self.model_, dict(self.settings or {}))
        found = TrainConfig(**(TRAIN | (TRAIN_LARGE if nodes >= LARGE else {}) | given))
        MODELS[self.model_].check_parts(found.parts, hyper)
        return self._suited(found, given)

    def check_time(self) -> None:
        """Require a positive time, and only with the model `AUTO`."""
        if self.time is None:
            return
        check_positive("time", self.time)
        if self.model_ != AUTO:
            raise InputError(
                f"time must be omitted with model {self.model_!r}, got {self.time}: it is for "
                f"model {AUTO!r}"
            )

    def minutes(self) -> float:
        """Minutes for the choice of a model; by default in proportion to the number of nodes."""
        if self.time is not None:
            return self.time
        return min(max(MINUTES, MINUTES * len(self.ids_) / PLENTY), MOST)

    def _automatic(self) -> TrainConfig:
        """Training settings of `AUTO`; only the metric may be given."""
        given = dict(self.settings or {})
        others = sorted(given.keys() - {"metric"})
        if others:
            raise InputError(
                "settings must be omitted with model 'auto', except for metric, got "
                f"{', '.join(others)}: name a model"
            )
        return self._suited(TrainConfig(**given), given)  # type: ignore[arg-type]

    def _suited(self, config: TrainConfig, given: Mapping[str, Value]) -> TrainConfig:
        """Fill in the loss and the metric of the task."""
        metric = self.metric or config.metric
        if metric is not None:
            METRICS[metric]  # a misspelt name fails here
        LOSSES[config.loss]
        if "task_" not in vars(self):
            return config
        loss = config.loss if "loss" in given else self.task_.loss
        if metric is not None:
            self.task_.check_metric(metric)
        found = replace(config, loss=loss, metric=metric or self.task_.metric)
        self.task_.outputs_of(found)
        return found

    def built(self) -> nn.Module:
        """Build the untrained model with these settings."""
        hyper = dict(self.settings_)
        outputs = self.task_.outputs_of(self.config_)
        sizes = self.preprocessing_.width, hyper.pop("hidden_channels"), outputs
        return MODELS[self.model_].make(*sizes, num_nodes=len(self.ids_), **hyper)

    def _divided(self, data: Data, module: nn.Module) -> TrainConfig:
        """Training settings for a graph, partitioned if it does not fit into memory."""
        config = self.config(int(data.num_nodes))
        if "parts" in (self.settings or {}) or not MODELS[self.model_].divisible(self.settings_):
            return config
        found = parts_that_fit(module, _probe(data))
        if found.parts > 1:
            warnings.warn(str(found), stacklevel=3)
        return replace(config, parts=found.parts, halo=found.halo)

    def _inputs(self, graph: TableGraph) -> Data:
        """Features and edges."""
        table = graph.table()
        if DEGREE in self.preprocessing_.encoders:  # the only feature
            table = with_degrees(self.shown(graph)).table()
        x = as_tensor(self.preprocessing_.transform(table))
        data = Data(x=x, edge_index=graph.edge_index)
        if graph.edge_weight is not None:
            data.edge_weight = graph.edge_weight
        relations = self._relations(graph)
        return data if relations is None else with_relations(data, relations)

    def _relations(self, graph: TableGraph) -> Relations | None:
        """Edges of a graph with the types of the training graph; the rarest types are merged."""
        if graph.relations is None:
            return None
        return graph.relations.renamed(self.types_).merged(MOST_TYPES)

    def _grown(self, X: Any, edges: Any) -> Data:
        """Training graph with added nodes, which come last, and added edges.

        If only the new or only the old edges have weights, the others have weight 1. An edge that
        already exists counts once, with the mean of the weights.
        """
        addition = self.addition(X, edges)
        data, new, more = self.data_, addition.edges, len(addition.ids)
        pairs = torch.cat([data.edge_index, new.edge_index], dim=1)
        weight = None
        if data.edge_weight is not None or new.edge_weight is not None:
            both = (data.edge_index, data.edge_weight), (new.edge_index, new.edge_weight)
            weight = torch.cat([torch.ones(e.size(1)) if w is None else w for e, w in both])
        options: dict[str, Any] = {"num_nodes": new.num_nodes, "reduce": "mean"}
        pairs, weight = coalesce(pairs, weight, **options)
        if not (self.directed or data.is_directed()):  # an undirected graph stays undirected
            pairs, weight = to_undirected(pairs, weight, **options)
        if DEGREE in self.preprocessing_.encoders:  # edges change the degrees of old nodes too
            whole = replace(new, edge_index=pairs, edge_weight=weight)
            x = as_tensor(self.preprocessing_.transform(with_degrees(self.shown(whole)).table()))
        else:
            x = stack_rows(data.x, as_tensor(self.preprocessing_.transform(addition.table)))
        y = torch.cat([data.y, data.y.new_zeros(more, *data.y.shape[1:])]).numpy()
        y = self.task_.without(y, np.arange(new.num_nodes) >= len(self.ids_))
        found = Data(x=x, edge_index=pairs, y=torch.from_numpy(y))
        for name in MASKS:
            found[name] = torch.cat([data[name], torch.zeros(more, dtype=torch.bool)])
        if weight is not None:
            found.edge_weight = weight
        before, after = relations_of(data), self._relations(new)
        if before is None:
            return found
        directed = self.directed or before.directed(len(self.ids_))
        together = before if after is None else before.joined(after)
        return with_relations(found, together.once(new.num_nodes, directed=directed))

    def shown(self, graph: TableGraph) -> TableGraph:
        """Graph for the diagnosis, undirected if only candidates of `AUTO` use directions."""
        if self.model_ != AUTO or self.directed:
            return graph
        options: dict[str, Any] = {"num_nodes": graph.num_nodes, "reduce": "mean"}
        edges = to_undirected(graph.edge_index, graph.edge_weight, **options)
        return replace(graph, edge_index=edges[0], edge_weight=edges[1], directed=False)

    def structured(self, data: Data) -> Data:
        """A copy of the graph with the structure that the model needs."""
        structure = MODELS[self.model_].structure
        found = copy(data) if structure is None else copy(add_structure(data, structure).data)
        relations = relations_of(data)
        if relations is not None and self.settings_.get(RELATIONS, 1) > 1:
            found.edge_index, found.edge_weight = relations.index, relations.weight
            found.edge_type = relations.kind
        if data.y is not None:
            found.y = self.task_.learned(data.y)
        return found

    def _check_fitted(self, X: Any) -> None:
        """Require a trained model, and its graph if no other is given."""
        learned = "blend_" if self.model_ == AUTO else "module_"
        check_is_fitted(self, learned, msg="this %(name)s must be fitted before it can predict")
        if X is None:
            self.check_graph("a graph must be given")

    def check_graph(self, problem: str) -> None:
        """Require the training graph, which a model folder may lack."""
        if "data_" not in vars(self):
            raise InputError(
                f"{problem}: this model folder was shared without its training graph "
                "(graph.safetensors)"
            )


def title_of(model: str) -> str:
    """Title of a model for readers."""
    return "The chosen blend" if model == AUTO else MODELS[model].title


def as_tensor(features: Any) -> Tensor:
    """Features [N, F] as a tensor, CSR if they are sparse."""
    if not issparse(features):
        return torch.from_numpy(features)
    features.sort_indices()
    crow, col = (torch.from_numpy(part).long() for part in (features.indptr, features.indices))
    return sparse_tensor(crow, col, torch.from_numpy(features.data), features.shape)


def _probe(data: Data) -> Data:
    """Graph for measuring memory use: sparse features become dense ones of the first nodes only."""
    if data.x.layout is not torch.sparse_csr:
        return data
    first = take_rows(data.x, torch.arange(min(PROBE, data.x.size(0)))).to_dense()
    return Data(x=first, edge_index=data.edge_index, num_nodes=data.x.size(0))


def targets_of(
    X: Any, y: Any, graph: TableGraph, kind: str, task: Task | None = None
) -> tuple[Task, NDArray[Any], str]:
    """Targets from named columns or given values, see `read_targets`."""
    if names := names_of(y, graph):
        return read_targets(graph.table(), names, kind, task)
    if y is None and isinstance(X, Data):
        y = X.y
    table = given_targets(y, graph.num_nodes, kind)
    return read_targets(table, list(table.columns), kind, task)


def given_targets(y: Any, count: int, kind: str) -> Table:
    """Targets of ``count`` nodes, given as values [count] or [count, labels], as columns."""
    if y is None:
        raise InputError("y must be the name of the column of classes, or classes, got none")
    values = np.asarray(y) if getattr(y, "ndim", 1) == 2 else None
    if values is not None and values.shape[1] > 1:  # one column per label
        columns = {str(place): values[:, place] for place in range(values.shape[1])}
        names = list(map(str, getattr(y, "columns", columns)))
        columns = dict(zip(names, columns.values(), strict=True))
    else:
        columns = {"y": y if values is None else values[:, 0]}
    found = {name: checked_column(column, count) for name, column in columns.items()}
    for name, one in found.items():
        if one.kind == "whole" and kind != "regression":  # −1 means unlabelled, as in scikit-learn
            found[name] = Column("whole", one.values, one.missing | (one.values == -1))
    return Table("y", found)


def names_of(y: Any, graph: TableGraph) -> list[str]:
    """Names of target columns; empty if ``y`` contains the targets."""
    if isinstance(y, str):
        several = [name.strip() for name in y.split(",")]
        return [y] if y in graph.columns or len(several) == 1 else several
    if not isinstance(y, list | tuple) or len(y) == graph.num_nodes:
        return []
    return list(y) if all(isinstance(name, str) for name in y) else []


def node_numbers(X: Any, count: int) -> NDArray[np.int64]:
    """Node numbers below ``count``, given as [n], or as [n, 1] like a table with one column."""
    found = np.asarray(X)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"X must be whole numbers of nodes [n] or [n, 1] if the estimator has a graph, got "
            f"{found.dtype} {list(found.shape)}"
        )
    if found.size and not 0 <= found.min() <= found.max() < count:
        wrong = found.min() if found.min() < 0 else found.max()
        raise InputError(f"X must name nodes 0 to {count - 1}, got node {wrong}")
    return found.astype(np.int64)


def checked_column(values: Any, count: int) -> Column:
    """A column with a value for each of ``count`` nodes."""
    found = column_of(values)
    if len(found) != count:
        raise InputError(f"there must be a value for each of {count} nodes, got {len(found)}")
    return found


def with_degrees(graph: TableGraph) -> TableGraph:
    """Add a column of degrees as log(1 + neighbours), a feature that every graph has."""
    neighbours = log_degree(graph.edge_index[1], graph.num_nodes).numpy()
    return replace(graph, columns={**graph.columns, DEGREE: column(neighbours)})
