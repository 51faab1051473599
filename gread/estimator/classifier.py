"""A classifier and a regressor of nodes that follow the scikit-learn estimator API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count, check_positive
from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.files import whole_folder
from gread.base.memory import TRAINING, enough_memory
from gread.base.registry import Registry
from gread.data.splits import MASKS
from gread.estimator.automatic import Where, fit_blend
from gread.estimator.diagnosis import diagnose
from gread.estimator.fitted import (
    AUTO,
    DEGREE,
    MOST_TYPES,
    FittedEstimator,
    checked_column,
    given_targets,
    names_of,
    node_numbers,
    targets_of,
    title_of,
    with_degrees,
)
from gread.estimator.folder import load, write
from gread.estimator.graphs import masks_of_data
from gread.estimator.race import POSITIONS, RELATIONS, Problem, Scored, balanced, takes_types
from gread.estimator.scores import Figures
from gread.estimator.task import Task, read_targets
from gread.models.catalog import MODELS
from gread.runs.presets import split_settings
from gread.runs.spec import HIDDEN_CHANNELS, Value
from gread.tables.features import Preprocessing, choose_features, named
from gread.tables.graph import TableGraph
from gread.tables.labels import check_split, draw_split, read_split, read_times, split_by_time
from gread.tables.table import Table
from gread.training.fit import fit
from gread.training.loop import Epoch

if TYPE_CHECKING:
    from gread.estimator.explanation import Explanation

MINUTES, PLENTY = 2.0, 20_000  # for a choice, on a graph with as many nodes
LEAST, MOST = 1.0, 14.0
FRACTIONS = (0.6, 0.2, 0.2)  # train, validation and test of a drawn split
WITHOUT_TEST = (0.8, 0.2, 0.0)  # where others keep the nodes of the test

E = TypeVar("E", bound="GraphEstimator")
T = TypeVar("T")


class GraphEstimator(FittedEstimator):
    """Predicts targets of nodes from their columns and their neighbours.

    What the targets are is recognized by `gread.estimator.task.read_targets`. `GraphClassifier`
    describes the arguments.
    """

    cuts_: tuple[float, float]

    def fit(
        self: E,
        X: Any,
        y: Any = None,
        *,
        edges: Any = None,
        split: Any = None,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_score: Callable[[Scored], None] | None = None,
    ) -> E:
        """Trains on a graph.

        Args:
            X: The graph or its nodes, see `gread.estimator.as_graph`.
            y: The name of the column of targets, or targets [N], None or NaN where there is none,
                of classes also −1; names of several columns of 0 and 1, or 0 and 1 [N, labels]; of
                a PyG ``Data`` by default its ``y``.
            edges: Its edges, where X has none.
            split: The name of a column that says train, val or test, or a list of these; of a PyG
                ``Data`` which of its splits, by default the first. Otherwise it is drawn.
            on_epoch: Called after every epoch.
            on_score: Called with every candidate, where the model is chosen.
        """
        self.prepare(X, y, edges=edges, split=split)
        if not self.verbose:
            return self.train(on_epoch, on_score)
        from gread.estimator.progress import FitProgress

        with FitProgress(Console(stderr=True, markup=False, highlight=False)) as shown:
            shown.begin("training", self)
            return self.train(_both(shown.advance, on_epoch), _both(shown.score, on_score))

    def prepare(self: E, X: Any, y: Any = None, *, edges: Any = None, split: Any = None) -> E:
        """All of `fit` but the training: reads, splits, diagnoses, encodes."""
        if hasattr(self, "task_"):
            del self.task_  # of a training before
        self.config()  # misspelt names fail before anything is computed
        choose_device(self.device)
        check_count("random_state", self.random_state, minimum=0)
        if self.graph is not None:
            graph, task, targets, recognized = self._named(X, y, edges, split)
            others = []
        else:
            graph = self.read(X, edges)
            task, targets, recognized = targets_of(X, y, graph, self.kind)
            others = [*names_of(y, graph), *([split] if isinstance(split, str) else [])]
            others += [] if self.time_column is None else [self.time_column]
        parts, told = self._split(X, split, graph, task, targets)
        known = graph if graph.rows is None else graph.before(self.cuts_[1])
        kinds = (one.relations.names for one in (known, graph) if one.relations is not None)
        self.types_ = tuple(dict.fromkeys(name for some in kinds for name in some))
        usual, chosen = task.best_metric(targets, parts)
        given = self.metric or self.config().metric
        self.task_ = replace(task.fitted(targets, parts == 0), metric=given or usual)
        self.config()  # loss and metric must fit the targets
        names = choose_features(graph.table(), self.features, others)
        shown = self.shown(known)
        shown = shown if names else with_degrees(shown)
        seen = task.described(task.without(targets, parts == 2))
        self.preprocessing_ = Preprocessing.fit(
            shown.table(),
            names or [DEGREE],
            np.flatnonzero(parts == 0),
            categorical=named(graph.table(), self.categorical),
            numeric=named(graph.table(), self.numeric),
            scaling=self.scaling,
        )
        notes = [recognized, "" if given else chosen, self._told_of_types(known), told]
        self.diagnosis_ = replace(
            diagnose(shown, seen, names, self.preprocessing_),
            target=task.word,
            notes=tuple(note for note in notes if note),
        )
        has_masks = isinstance(X, Data) and all(name in X for name in MASKS)
        self.split_given_ = split is not None or has_masks or self.time_column is not None
        self.classes_ = np.array(task.names)
        self.ids_ = graph.ids
        self.data_ = self._with_targets(graph, targets, parts)
        self.seen_ = self.data_
        if known is not graph:
            self.seen_ = self._with_targets(known, targets, parts)
        self._class_weights()  # which may name others than there are
        return self

    def _with_targets(
        self, graph: TableGraph, targets: NDArray[Any], parts: NDArray[np.int64]
    ) -> Data:
        """Features, edges, targets and masks."""
        data = self._inputs(graph)
        data.y = torch.from_numpy(targets)
        for part, name in enumerate(MASKS):
            data[name] = torch.from_numpy(parts == part)
        return data

    def train(
        self: E,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_score: Callable[[Scored], None] | None = None,
    ) -> E:
        """Builds the model and trains it on what is prepared."""
        if self.model_ == AUTO:
            return self._choose(on_score)
        hyper, _ = split_settings(self.model_, dict(self.settings or {}))
        entry, device = MODELS[self.model_], choose_device(self.device)
        begin = self.diagnosis_.recommendation
        hyper = {name: getattr(begin, name) for name in entry.diagnosed} | hyper
        if takes_types(self.model_):
            hyper = {RELATIONS: self.data_.get(RELATIONS, 1)} | hyper
        self.settings_ = {"hidden_channels": HIDDEN_CHANNELS} | entry.hyperparameters | hyper
        self.config_ = self.config(len(self.ids_))
        with torch.random.fork_rng(devices=[]):
            self.config_ = self._divided(self.seen_, self.built().to(device))
        data = self.structured(self.seen_).to(device if self.config_.parts == 1 else "cpu")
        if not data.test_mask.any():  # of each epoch, the score of the test is then of no use
            data.test_mask = data.val_mask
        with torch.random.fork_rng(devices=[]), enough_memory(TRAINING):
            torch.manual_seed(self.random_state)
            self.module_ = self.built().to(device)
            about: Any = {"class_weight": self._class_weights(), "on_epoch": on_epoch}
            self.fit_ = fit(self.module_, data, self.config_, **about)
        held, task = self.data_.val_mask.numpy(), self.task_
        found: Any = None
        if task.tunes:
            found = self._predictions(self.seen_, Where.HERE)
            found = task.thresholds(found[held], self.data_.y.numpy()[held])
        self.thresholds_ = (found,) * len(Where)
        return self

    def _choose(self: E, on_score: Callable[[Scored], None] | None) -> E:
        """Races candidates and blends the best."""
        data, config = self.seen_, self.config()
        learned = (data.train_mask | data.val_mask).nonzero().squeeze(1).numpy()
        held = data.val_mask.nonzero().squeeze(1).numpy() if self.split_given_ else None
        minutes = self.time
        if minutes is None:
            minutes = min(max(LEAST, MINUTES * len(self.ids_) / PLENTY), MOST)
        check_positive("time", minutes)
        problem = Problem(
            data,
            learned,
            self.task_,
            held,
            class_weight=self._class_weights(),
            seed=self.random_state,
            device=choose_device(self.device),
            grows=self.seen_ is not self.data_,
        )
        self.settings_, self.config_ = {}, config
        self.blend_, choices = fit_blend(problem, 60 * minutes, on_score)
        for one in self.blend_.members:
            if one.candidate.positions:  # those of another machine may have other signs
                directed = one.candidate.directed
                data[POSITIONS[directed]] = problem.positions(directed=directed)
        self.choice_ = choices[Where.HERE]
        self.thresholds_ = tuple(one.thresholds for one in choices)
        return self

    def like(
        self: E,
        model: str,
        settings: Mapping[str, Value],
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> E:
        """Another model or other settings on what is prepared here, trained."""
        other: E = clone(self).set_params(model=model, settings=settings)
        other.task_, other.classes_ = self.task_, self.classes_
        other.ids_, other.types_ = self.ids_, self.types_
        other.data_, other.seen_ = self.data_, self.seen_
        other.preprocessing_, other.diagnosis_ = self.preprocessing_, self.diagnosis_
        return other.train(on_epoch)

    def save(self, folder: str | Path) -> Path:
        """Writes a model folder, see `gread.estimator.folder`; it must not exist."""
        with whole_folder(folder) as part:
            tested = bool(self.data_.test_mask.any())
            write(self, part, {title_of(self.model_): self.scores()} if tested else {})
        return Path(folder)

    def explain(self, node: Any, most: int = 10) -> Explanation:
        """The edges and features that count most for the prediction of a node.

        PyG's ``GNNExplainer`` learns a mask of the edges and one of the features, with which the
        network still predicts the same class, labels or number. Of a blend, the network with the
        largest weight is explained. A mask is learned: what counts little may come out otherwise
        with another ``random_state``.

        Args:
            node: Id of a node of the training graph.
            most: How many edges and features at most.

        Example:
            >>> import gread
            >>> data = gread.load("csbm", num_nodes=60, homophily=0.9, degree=6)
            >>> classifier = gread.GraphClassifier(settings={"epochs": 5}).fit(data)
            >>> found = classifier.explain(7, most=3)
            >>> len(found.edges), found.model
            (3, 'GREAD-BS')
        """
        from gread.estimator.explanation import explain  # slow to import

        check_count("most", most)
        self._check_fitted(node)
        return explain(self, node, most)

    def export(self, file: str | Path) -> dict[str, Any]:
        """Writes a file that scores without gread, see `gread.estimator.export.export`."""
        from gread.estimator.export import export  # slow to import

        self._check_fitted(file)
        return export(self, file)

    @classmethod
    def load(cls: type[E], folder: str | Path) -> E:
        """The estimator in a model folder, or in a repository of the Hugging Face Hub."""
        return load(folder, cls)

    def _split(
        self, X: Any, split: Any, graph: TableGraph, task: Task, targets: NDArray[Any]
    ) -> tuple[NDArray[np.int64], str]:
        """Parts of the nodes with a target: 0 train, 1 validation, 2 test; and a sentence."""
        tested, known, told = self.graph is None, task.known(targets), ""
        if self.time_column is not None:
            if split is not None or not tested:
                raise InputError(
                    "time_column must be left out where a split or the graph of the estimator is "
                    f"given, got {self.time_column!r}"
                )
            parts, told = self._split_by_time(graph, known)
        elif not tested:
            parts = draw_split(task.strata(targets), WITHOUT_TEST, self.random_state)
        elif isinstance(split, str):
            parts = read_split(graph.table(), split)
        elif split is not None and not isinstance(split, int):
            given = checked_column(split, graph.num_nodes)
            parts = read_split(Table("split", {"split": given}), "split")
        elif isinstance(X, Data) and all(name in X for name in MASKS):
            parts = masks_of_data(X, split or 0)
        else:
            parts = draw_split(task.strata(targets), FRACTIONS, self.random_state)
        parts = np.where(known, parts, -1)
        check_split(parts, known, tested=tested)
        task.check(targets, parts)
        return parts, told

    def _split_by_time(
        self, graph: TableGraph, known: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], str]:
        """The latest nodes test, those before them validate."""
        assert self.time_column is not None
        times = read_times(graph.table(), self.time_column)
        gone = times.missing & known
        where = f"time column {self.time_column!r} of {graph.name}"
        if gone.any():
            raise InputError(
                f"{where} must hold the time of every labelled node, got none in row "
                f"{int(gone.argmax()) + 1}"
            )
        if graph.rows is not None and graph.rows.times.dates != times.dates:
            kinds = ("dates", "numbers") if times.dates else ("numbers", "dates")
            raise InputError(
                f"{where} and that of the edges must be alike, got {kinds[0]} and {kinds[1]}"
            )
        parts, self.cuts_ = split_by_time(times.values, known, FRACTIONS)
        validation, test = map(times.text, self.cuts_)
        told = (
            f"Split by {self.time_column}: nodes before {validation} train, nodes before {test} "
            "validate, later ones test."
        )
        if graph.rows is None:
            return parts, f"{told} Edges have no times: training uses all of them."
        hidden = int((graph.rows.times.values >= self.cuts_[1]).sum())
        return parts, f"{told} Training uses no edge from {test} on ({hidden:,} edges)."

    def _told_of_types(self, graph: TableGraph) -> str:
        """What becomes of types of edges, in a sentence or two; nothing where there are none."""
        if graph.relations is None:
            return ""
        told = graph.relations.about(MOST_TYPES)
        if len(self.types_) > 1 and self.model_ != AUTO and not takes_types(self.model_):
            told += f" {title_of(self.model_)} uses all types alike; gread-x and auto do not."
        return told

    def _named(
        self, X: Any, y: Any, edges: Any, split: Any
    ) -> tuple[TableGraph, Task, NDArray[Any], str]:
        """The graph of the constructor, and the targets of the nodes that X names."""
        if edges is not None or split is not None:
            raise InputError(
                "edges and split must be left out where the estimator has a graph: X names the "
                "nodes to learn from"
            )
        graph = self.read(self.graph)
        nodes = node_numbers(X, graph.num_nodes)
        given = given_targets(y, len(nodes), self.kind)
        task, targets, recognized = read_targets(given, list(given.columns), self.kind)
        for name in choose_features(graph.table(), self.features, []):
            cells = graph.table()[name].cells()
            if any(_same(cells, nodes, one.cells()) for one in given.columns.values()):
                raise InputError(
                    f"features must not name the column to predict, got {name!r}: leave it out of "
                    "the graph"
                )
        spread = np.zeros((graph.num_nodes, *targets.shape[1:]), dtype=targets.dtype)
        spread[nodes] = targets
        absent = ~np.isin(np.arange(graph.num_nodes), nodes)
        return graph, task, task.without(spread, absent), recognized

    def _class_weights(self) -> Tensor | None:
        """[classes]; balanced weights have a mean of 1 over the training nodes."""
        given = self.class_weight
        if given is None:
            return None
        if self.task_.targets != "classes":
            raise InputError(f"class_weight must be None for {self.task_.targets}, got {given!r}")
        classes = self.classes_.tolist()
        if given == "balanced":
            return balanced(self.data_.y[self.data_.train_mask], len(classes))
        if not isinstance(given, Mapping):
            raise InputError(f"class_weight must be None, 'balanced' or a mapping, got {given!r}")
        for label in given:
            if label not in classes:
                known = ", ".join(map(repr, classes))
                raise InputError(f"class_weight must name the classes {known}, got {label!r}")
        return torch.tensor([float(given.get(label, 1.0)) for label in classes])


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """Predicts the class of nodes, or their labels, from their columns and their neighbours.

    Nodes without a class are the ones to predict. The others are split into training, validation
    and test. Columns are encoded by a `gread.tables.Preprocessing`, fitted to training nodes alone.

    Args:
        model: A name of ``gread.MODELS``, or ``"auto"`` for the best blend of candidates
            (`gread.estimator.automatic`). By default ``"auto"``, or GREAD-BS if there are settings.
        settings: Hyperparameters of the model and of ``gread.TrainConfig``, by name;
            ``loss="binary"`` suits two classes. Without a setting, GREAD takes the adjacency, time
            and solver that the diagnosis recommends, and a graph that does not fit into memory is
            cut into parts (`gread.graph.partition`).
        time: Minutes for the choice of ``"auto"``; by default two for 20,000 nodes, in proportion
            to the nodes, at least one and at most 14.
        features: Columns to use, or ``"auto"`` for all but label and split.
        categorical, numeric: Columns whose values are categories, or quantities, where that differs
            from what `gread.tables.codes.are_codes` finds.
        scaling: Of counts, one of ``gread.tables.SCALINGS``.
        id, source, target, weight, edge_type: Columns, see `gread.tables.read_graph`.
        time_column: Column of the nodes' times, numbers or dates, by which they are split: the
            latest test, those before them validate. It is not a feature. If edges have a column of
            this name, training uses no edge from the beginning of the test on.
        directed: Whether edges have one direction.
        class_weight: How much nodes of each class count: None for alike, ``"balanced"`` for
            inversely to the size of the class, or a mapping.
        metric: A name of ``gread.training.METRICS``, which selects the epoch, or candidates; by
            default accuracy, average precision where a class has more than 90 % of the nodes, and
            ROC-AUC of labels.
        random_state: Where the random numbers of split and training start.
        device: ``"auto"`` takes a GPU if there is one.
        graph: A graph as in `gread.estimator.as_graph`, for tools of scikit-learn such as
            ``cross_val_score``, ``GridSearchCV`` and ``Pipeline``. X is then the numbers of some of
            its nodes everywhere, and y their targets; other nodes have none, and `fit` keeps no
            test. Copies share it, and a model folder does not hold it.
        verbose: Whether to show progress: a bar in a terminal or a notebook, else a line from time
            to time.

    Attributes:
        classes_: In the order of the columns of `predict_proba`; of labels, these.
        task_: What is predicted, and the metric, see `gread.estimator.task`.
        thresholds_: From which probability on the rarer of two classes, or each label, is
            predicted: on the graph of the training, on others, and for nodes that are added; tuned
            on validation nodes. None for the most probable class.
        types_: Of edges, the commonest first.
        cuts_: Of a split by time, when validation and test begin; dates as days since 0001-01-01.
        seen_: The graph that training uses, without edges from the beginning of the test on.
        ids_, data_: The training graph: features, edges, classes (−1 for none) and masks.
        preprocessing_: From columns to features.
        diagnosis_: Of the graph, without the classes of the test.
        settings_, config_: All settings of the model and of the training.
        module_, fit_: The trained model, and the epochs of its training.
        tuning_: Of `gread.estimator.tune`: how many trials there were, and what they changed.
        blend_, choice_: Where the model is chosen: what was, and the scores of all candidates.

    Example:
        >>> import gread
        >>> from sklearn.base import clone
        >>> data = gread.load("csbm", num_nodes=200, homophily=0.8, degree=8)
        >>> classifier = gread.GraphClassifier(settings={"epochs": 20}).fit(data)
        >>> classifier.predict_proba().shape
        (200, 2)
        >>> clone(classifier).get_params()["settings"]
        {'epochs': 20}
    """

    kind = "classification"
    score = GraphEstimator.score

    def predict_proba(self, X: Any = None, *, edges: Any = None, added: bool = False) -> Figures:
        """The probability of every class, or of every label, [N, classes].

        Arguments are those of `predictions`.
        """
        return self.predictions(X, edges=edges, added=added)


class GraphRegressor(RegressorMixin, GraphEstimator):
    """Predicts a number of nodes from their columns and their neighbours.

    Arguments and attributes are those of `GraphClassifier`, without ``class_weight`` and
    ``classes_``. A network learns numbers with mean 0 and deviation 1 over the training nodes, so
    values of the metric ``"mae"`` in ``fit_`` are in deviations.

    Example:
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=200, homophily=0.8, degree=8)
        >>> data.y = 3 * data.x[:, 0] + 7
        >>> regressor = gread.GraphRegressor("mlp", settings={"epochs": 50}).fit(data)
        >>> regressor.predict().shape, regressor.score() > 0.5
        ((200,), True)
    """

    kind = "regression"
    score = GraphEstimator.score


ESTIMATORS: Registry[type[GraphEstimator]] = Registry(
    "task", {one.kind: one for one in (GraphEstimator, GraphClassifier, GraphRegressor)}
)
"""By the kind of their task."""


def _both(show: Callable[[T], None], given: Callable[[T], Any] | None) -> Callable[[T], Any]:
    """Shows what happens before a user's function, of which the result counts."""

    def call(what: T) -> Any:
        show(what)
        return None if given is None else given(what)

    return call


def _same(cells: list[Any], nodes: NDArray[np.int64], targets: list[Any]) -> bool:
    """Whether a column has just these targets at these nodes."""
    found = ((cells[node], target) for node, target in zip(nodes, targets, strict=True))
    return all(target is None or target == cell for cell, target in found)
