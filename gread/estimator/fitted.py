"""A trained estimator: its settings, its graph, and predictions on this or another one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.memory import enough_memory
from gread.estimator.automatic import Blend
from gread.estimator.diagnosis import Diagnosis
from gread.estimator.graphs import as_graph, column_of
from gread.estimator.scores import AnyScores, Figures
from gread.estimator.task import Task, Thresholds, read_targets
from gread.graph.measures import log_degree
from gread.graph.partition import sparse_tensor, take_rows
from gread.graph.structure.catalog import add_structure
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import Value
from gread.tables.column import Column, column
from gread.tables.features import Preprocessing
from gread.tables.graph import Columns, TableGraph
from gread.tables.table import Table
from gread.training.config import TrainConfig
from gread.training.fit import logits_of
from gread.training.losses import LOSSES
from gread.training.memory import PROBE, parts_that_fit
from gread.training.metrics import METRICS

TRAIN: dict[str, Any] = {"epochs": 200, "lr": 0.01, "weight_decay": 5e-4, "patience": 50}
LARGE = 50_000  # nodes from which an epoch takes seconds and validation hardly fluctuates
TRAIN_LARGE = {"epochs": 50, "lr": 0.03, "patience": 20}
AUTO = "auto"  # the model that is chosen for the graph
DEGREE = "(degree)"  # column log(1 + neighbours), the features of a graph that has none


class FittedEstimator(BaseEstimator):
    """Settings and fitted state of an estimator, and its predictions."""

    kind = "auto"
    """Of the task, one of `gread.estimator.task.KINDS`."""

    task_: Task
    thresholds_: tuple[Thresholds, Thresholds]
    classes_: NDArray[Any]
    ids_: Sequence[Any]
    data_: Data
    preprocessing_: Preprocessing
    diagnosis_: Diagnosis
    settings_: dict[str, Any]
    config_: TrainConfig
    module_: nn.Module
    blend_: Blend

    def __init__(
        self,
        model: str = "gread-bs",
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
        directed: bool = False,
        class_weight: str | Mapping[Any, float] | None = None,
        metric: str | None = None,
        random_state: int = 0,
        device: str = "auto",
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
        self.directed = directed
        self.class_weight = class_weight
        self.metric = metric
        self.random_state = random_state
        self.device = device

    def predictions(self, X: Any = None, *, edges: Any = None) -> Figures:
        """What the task predicts of every node, [N, k]: probabilities, or numbers.

        Args:
            X: A graph with the same columns, new or grown; by default the one it was trained on.
            edges: Its edges, where X has none.
        """
        self._check_fitted(X)
        device = choose_device(self.device)
        if self.model == AUTO:
            data = self.data_ if X is None else self._inputs(self.graph(X, edges))
            known = self.data_.train_mask | self.data_.val_mask if X is None else None
            return self.blend_.predictions(data, known, device)
        if X is None:
            data, config = self.data_, self.config_
        else:
            if MODELS[self.model].transductive(self.settings_):
                raise InputError(
                    f"{self.model} has weights for every node of the graph it was trained on, so "
                    "it cannot predict on another: train one that can, for instance gread-bs"
                )
            data = self._inputs(self.graph(X, edges))
            data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
            config = self._divided(data, self.module_.to(device))
            config = replace(config, parts=min(config.parts, int(data.num_nodes)))
        data = self._structured(data).to(device if config.parts == 1 else "cpu")
        with enough_memory("a smaller graph, or a model trained with more parts"):
            outputs = logits_of(self.module_.to(device), data, data.train_mask, config)
        return self.task_.predictions(outputs, self.config_.loss)

    def predict(self, X: Any = None, *, edges: Any = None) -> NDArray[Any]:
        """Class or number of every node, or 0 and 1 for labels; arguments as in `predictions`."""
        predictions = self.predictions(X, edges=edges)
        found = self.task_.decided(predictions, self.thresholds_[X is not None])
        return self.classes_[found] if self.task_.targets == "classes" else found

    def score(self, X: Any = None, y: Any = None, *, edges: Any = None) -> float:
        """Accuracy, micro-F1 or R² on nodes whose targets are known, by default the test nodes."""
        first = next(iter(self.scores(X, y, edges=edges).measures().values()))
        return float("nan") if first is None else first

    def scores(self, X: Any = None, y: Any = None, *, edges: Any = None) -> AnyScores:
        """All measures, see `gread.estimator.scores`; arguments as in `score`."""
        self._check_fitted(X)
        thresholds = self.thresholds_[X is not None]
        if X is None:
            truth, known, found = self.data_.y.numpy(), self.data_.test_mask.numpy(), None
        else:
            graph = self.graph(X, edges)
            _, truth, _ = targets_of(X, y, graph, self.kind, self.task_)
            known, found = self.task_.known(truth), graph
            if not known.any():
                raise InputError(f"y must have the {self.task_.word} of some nodes, got none")
        return self.task_.scores(truth[known], self.predictions(found)[known], thresholds)

    def graph(self, X: Any, edges: Any = None) -> TableGraph:
        """The graph that is given, read as this classifier was told to."""
        columns = Columns(id=self.id, source=self.source, target=self.target, weight=self.weight)
        columns["directed"] = self.directed or self.model == AUTO
        return as_graph(X, edges, **columns)

    def config(self, nodes: int = 0) -> TrainConfig:
        """How it trains on a graph of so many nodes."""
        if self.model == AUTO:
            return self._automatic()
        hyper, given = split_settings(self.model, dict(self.settings or {}))
        found = TrainConfig(**(TRAIN | (TRAIN_LARGE if nodes >= LARGE else {}) | given))
        MODELS[self.model].check_parts(found.parts, hyper)
        return self._suited(found, given)

    def _automatic(self) -> TrainConfig:
        """What is settled of a training whose model is chosen: the metric."""
        given = dict(self.settings or {})
        others = sorted(given.keys() - {"metric"})
        if others:
            raise InputError(
                f"settings must be left out where the model is chosen, but for metric, got "
                f"{', '.join(others)}: name a model"
            )
        return self._suited(TrainConfig(**given), given)  # type: ignore[arg-type]

    def _suited(self, config: TrainConfig, given: Mapping[str, Value]) -> TrainConfig:
        """With the loss and the metric of the task, where no others are given."""
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
        """The model with these settings, untrained."""
        hyper = dict(self.settings_)
        outputs = self.task_.outputs_of(self.config_)
        sizes = self.preprocessing_.width, hyper.pop("hidden_channels"), outputs
        return MODELS[self.model].make(*sizes, num_nodes=len(self.ids_), **hyper)

    def _divided(self, data: Data, module: nn.Module) -> TrainConfig:
        """How it trains on a graph, by parts where it would not fit into memory."""
        config = self.config(int(data.num_nodes))
        if "parts" in (self.settings or {}) or not MODELS[self.model].divisible(self.settings_):
            return config
        found = parts_that_fit(module, _probe(data))
        if found.parts > 1:
            warnings.warn(str(found), stacklevel=3)
        return replace(config, parts=found.parts, halo=found.halo)

    def _inputs(self, graph: TableGraph) -> Data:
        """Features and edges."""
        table = graph.table()
        if DEGREE in self.preprocessing_.encoders:  # there are no features but this
            table = with_degrees(self.shown(graph)).table()
        x = as_tensor(self.preprocessing_.transform(table))
        data = Data(x=x, edge_index=graph.edge_index)
        if graph.edge_weight is not None:
            data.edge_weight = graph.edge_weight
        return data

    def shown(self, graph: TableGraph) -> TableGraph:
        """The graph as it is diagnosed: without directions that only candidates may use."""
        if self.model != AUTO or self.directed:
            return graph
        options: dict[str, Any] = {"num_nodes": graph.num_nodes, "reduce": "mean"}
        edges = to_undirected(graph.edge_index, graph.edge_weight, **options)
        return replace(graph, edge_index=edges[0], edge_weight=edges[1], directed=False)

    def _structured(self, data: Data) -> Data:
        """With what the model wants to know of the graph; a copy, so that it may be moved."""
        structure = MODELS[self.model].structure
        found = copy(data) if structure is None else copy(add_structure(data, structure).data)
        if data.y is not None:
            found.y = self.task_.learned(data.y)
        return found

    def _check_fitted(self, X: Any) -> None:
        """Requires a trained model, and its graph if no other is given."""
        learned = "blend_" if self.model == AUTO else "module_"
        check_is_fitted(self, learned, msg="this %(name)s must be fitted before it predicts")
        if X is None and "data_" not in vars(self):
            raise InputError("a graph must be given: this model was shared without its own")


def title_of(model: str) -> str:
    """What a reader calls a model."""
    return "The chosen blend" if model == AUTO else MODELS[model].title


def as_tensor(features: Any) -> Tensor:
    """Features [N, F] as a tensor, CSR if they are sparse."""
    if not issparse(features):
        return torch.from_numpy(features)
    features.sort_indices()
    crow, col = (torch.from_numpy(part).long() for part in (features.indptr, features.indices))
    return sparse_tensor(crow, col, torch.from_numpy(features.data), features.shape)


def _probe(data: Data) -> Data:
    """The graph with features of the first nodes alone, as dense ones, to measure costs on."""
    if data.x.layout is not torch.sparse_csr:
        return data
    first = take_rows(data.x, torch.arange(min(PROBE, data.x.size(0)))).to_dense()
    return Data(x=first, edge_index=data.edge_index, num_nodes=data.x.size(0))


def targets_of(
    X: Any, y: Any, graph: TableGraph, kind: str, task: Task | None = None
) -> tuple[Task, NDArray[Any], str]:
    """Targets by the names of columns, or as they are given; see `read_targets`."""
    if names := names_of(y, graph):
        return read_targets(graph.table(), names, kind, task)
    if y is None and isinstance(X, Data):
        y = X.y
    if y is None:
        raise InputError("y must be the name of the column of classes, or classes, got none")
    columns = {}
    values = np.asarray(y) if getattr(y, "ndim", 1) == 2 else None
    if values is not None and values.shape[1] > 1:  # of labels
        columns = {str(place): values[:, place] for place in range(values.shape[1])}
        names = list(map(str, getattr(y, "columns", columns)))
        columns = dict(zip(names, columns.values(), strict=True))
    else:
        columns = {"y": y if values is None else values[:, 0]}
    found = {name: checked_column(column, graph.num_nodes) for name, column in columns.items()}
    for name, one in found.items():
        if one.kind == "whole" and kind != "regression":  # −1 as elsewhere in scikit-learn
            found[name] = Column("whole", one.values, one.missing | (one.values == -1))
    return read_targets(Table("y", found), list(found), kind, task)


def names_of(y: Any, graph: TableGraph) -> list[str]:
    """The columns that are named; none where targets are given."""
    if isinstance(y, str):
        several = [name.strip() for name in y.split(",")]
        return [y] if y in graph.columns or len(several) == 1 else several
    if not isinstance(y, list | tuple) or len(y) == graph.num_nodes:
        return []
    return list(y) if all(isinstance(name, str) for name in y) else []


def checked_column(values: Any, count: int) -> Column:
    """A column with a value for each of ``count`` nodes."""
    found = column_of(values)
    if len(found) != count:
        raise InputError(f"there must be a value for each of {count} nodes, got {len(found)}")
    return found


def with_degrees(graph: TableGraph) -> TableGraph:
    """The graph with a column of what is known of every node of every graph."""
    neighbours = log_degree(graph.edge_index[1], graph.num_nodes).numpy()
    return replace(graph, columns={**graph.columns, DEGREE: column(neighbours)})
