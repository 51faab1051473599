"""A classifier and a regressor of nodes that follow the scikit-learn estimator API."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from gread.base.checks import check_count
from gread.base.devices import choose_device
from gread.base.errors import InputError
from gread.base.files import whole_folder
from gread.base.memory import TRAINING, enough_memory
from gread.base.registry import Registry
from gread.data.splits import MASKS
from gread.estimator.automatic import Where, fit_blend
from gread.estimator.candidates import RELATIONS, takes_types
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
from gread.estimator.problem import POSITIONS, Problem, balanced
from gread.estimator.race import OnScore
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

FRACTIONS = (0.6, 0.2, 0.2)  # train, validation and test of a drawn split
WITHOUT_TEST = (0.8, 0.2, 0.0)  # if the caller keeps the test nodes, as `cross_val_score` does

PREPARED = (
    *("task_", "classes_", "ids_", "types_", "data_", "seen_"),
    *("preprocessing_", "diagnosis_", "split_given_", "cuts_"),
)
"""Attributes that `GraphEstimator.prepare` sets; the last one only with a split by time."""

E = TypeVar("E", bound="GraphEstimator")
T = TypeVar("T")


class GraphEstimator(FittedEstimator):
    """Estimator of node targets that uses columns and neighbours.

    `gread.estimator.task.read_targets` recognizes the kind of targets. `GraphClassifier` describes
    the arguments.
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
        on_score: OnScore | None = None,
    ) -> E:
        """Train on a graph.

        Args:
            X: Graph or nodes, see `gread.estimator.as_graph`.
            y: Targets: the name of a column, or values [N] with None, NaN or (for classes) −1 if
                unknown. For several labels: names of columns of 0 and 1, or values [N, labels]. By
                default ``y`` of a PyG ``Data``.
            edges: Edges, if X does not contain them.
            split: Name of a column with train, val or test, or a list of these values; for a PyG
                ``Data`` the number of its split, by default 0. Otherwise the split is random.
            on_epoch: Function that is called after every epoch.
            on_score: Function that is called with the scored candidates of ``"auto"``, see
                `gread.estimator.race.OnScore`.

        Returns:
            This estimator.

        Raises:
            InputError: The graph, the targets or the split are invalid.
        """
        self.prepare(X, y, edges=edges, split=split)
        if not self.verbose:
            return self.train(on_epoch, on_score)
        from gread.estimator.progress import FitProgress

        with FitProgress(Console(stderr=True, markup=False, highlight=False)) as shown:
            shown.begin("training", self)
            return self.train(_both(shown.advance, on_epoch), _both(shown.score, on_score))

    def prepare(self: E, X: Any, y: Any = None, *, edges: Any = None, split: Any = None) -> E:
        """Read, split, diagnose and encode the data: all of `fit` except the training."""
        if hasattr(self, "task_"):
            del self.task_  # of an earlier training
        self.config()  # misspelt names fail before anything is computed
        self.check_time()
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
        parts, note = self._split(X, split, graph, task, targets)
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
        notes = [recognized, "" if given else chosen, self._note_on_types(known), note]
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
        self._class_weights()  # fails if a named class does not exist
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
        self: E, on_epoch: Callable[[Epoch], None] | None = None, on_score: OnScore | None = None
    ) -> E:
        """Build the model and train it on the prepared data.

        Raises:
            InputError: A model folder lacks the graph that was used in training.
        """
        check_is_fitted(self, "ids_", msg="this %(name)s must be prepared before it is trained")
        self.check_graph("no model can be trained")
        if "seen_" not in vars(self):
            raise InputError(
                "no model can be trained: this model folder also holds the edges that were hidden "
                "from the training by their time"
            )
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
        if not data.test_mask.any():  # the test scores of epochs are then not used
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

    def _choose(self: E, on_score: OnScore | None) -> E:
        """Compare candidates and blend the best."""
        data, config = self.seen_, self.config()
        learned = (data.train_mask | data.val_mask).nonzero().squeeze(1).numpy()
        held = data.val_mask.nonzero().squeeze(1).numpy() if self.split_given_ else None
        seconds = 60 * self.minutes()
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
        self.blend_, choices = fit_blend(problem, seconds, on_score)
        for one in self.blend_.members:
            if one.candidate.positions:  # signs may differ on another machine
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
        """Train another model or other settings on the data prepared here."""
        other: E = clone(self).set_params(model=model, settings=settings)
        for name in PREPARED:
            if name in vars(self):
                setattr(other, name, vars(self)[name])
        return other.train(on_epoch)

    def save(self, folder: str | Path) -> Path:
        """Write a model folder, which must not exist; see `gread.estimator.folder`."""
        self._check_fitted(folder)
        self.check_graph("the model cannot be saved")
        with whole_folder(folder) as part:
            tested = bool(self.data_.test_mask.any())
            write(self, part, {title_of(self.model_): self.scores()} if tested else {})
        return Path(folder)

    def explain(self, node: Any, most: int = 10) -> Explanation:
        """Explain a prediction by the most important edges and features.

        PyG's ``GNNExplainer`` learns masks of edges and features with which the network still
        predicts the same class, labels or number. For a blend, the network or the trees with the
        largest weight are explained; trees have weights of features only, see
        `gread.estimator.explanation`. Small weights may change with ``random_state``.

        Args:
            node: Id of a node of the training graph.
            most: Largest number of edges, and of features.

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
        """Export to a file that predicts without gread, see `gread.estimator.export.export`."""
        from gread.estimator.export import export  # slow to import

        self._check_fitted(file)
        return export(self, file)

    @classmethod
    def load(cls: type[E], folder: str | Path) -> E:
        """Load an estimator from a model folder or a repository of the Hugging Face Hub."""
        return load(folder, cls)

    def _split(
        self, X: Any, split: Any, graph: TableGraph, task: Task, targets: NDArray[Any]
    ) -> tuple[NDArray[np.int64], str]:
        """Return the set of each node (0 train, 1 validation, 2 test, −1 none) and a note."""
        tested, known, note = self.graph is None, task.known(targets), ""
        if self.time_column is not None:
            if split is not None or not tested:
                raise InputError(
                    "time_column must be left out if a split or the graph of the estimator is "
                    f"given, got {self.time_column!r}"
                )
            parts, note = self._split_by_time(graph, known)
        elif not tested:
            parts = draw_split(task.strata(targets), WITHOUT_TEST, self.random_state)
        elif isinstance(split, str):
            parts = read_split(graph.table(), split)
        elif split is not None and not isinstance(split, int):
            given = checked_column(split, graph.num_nodes)
            parts = read_split(Table("split", {"split": given}), "split")
        elif isinstance(X, Data) and all(name in X for name in MASKS):
            parts = masks_of_data(X, 0 if split is None else split)
        elif split is not None:
            raise InputError(
                f"split must be a column or a list of train, val and test, got {split!r}: a number "
                "is for a PyG Data with masks"
            )
        else:
            parts = draw_split(task.strata(targets), FRACTIONS, self.random_state)
        parts = np.where(known, parts, -1)
        check_split(parts, known, tested=tested)
        task.check(targets, parts)
        return parts, note

    def _split_by_time(
        self, graph: TableGraph, known: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], str]:
        """Split by time: the latest nodes are test nodes, the ones before them validation nodes."""
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
        note = (
            f"Split by {self.time_column}: nodes before {validation} train, nodes before {test} "
            "validate, later ones test."
        )
        if graph.rows is None:
            return parts, f"{note} Edges have no times: training uses all of them."
        hidden = int((graph.rows.times.values >= self.cuts_[1]).sum())
        return parts, f"{note} Training uses no edge from {test} on ({hidden:,} edges)."

    def _note_on_types(self, graph: TableGraph) -> str:
        """Sentences about the use of edge types; empty without types."""
        if graph.relations is None:
            return ""
        note = graph.relations.about(MOST_TYPES)
        if len(self.types_) > 1 and self.model_ != AUTO and not takes_types(self.model_):
            note += f" {title_of(self.model_)} uses all types alike; gread-x and auto do not."
        return note

    def _named(
        self, X: Any, y: Any, edges: Any, split: Any
    ) -> tuple[TableGraph, Task, NDArray[Any], str]:
        """The graph of the constructor with the targets of the nodes in X."""
        if edges is not None or split is not None:
            raise InputError(
                "edges and split must be omitted if the estimator has a graph: X names the nodes "
                "to learn from"
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
        """Class weights [classes]; balanced ones have a mean of 1 over the training nodes."""
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
            if not isinstance(given[label], numbers.Real):
                raise InputError(f"class_weight must hold numbers, got {given[label]!r}")
        return torch.tensor([float(given.get(label, 1.0)) for label in classes])


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """Node classifier that uses columns and neighbours, for classes or several labels.

    Nodes without a class are to be predicted. The others are split into training, validation and
    test nodes. Columns are encoded by a `gread.tables.Preprocessing` that is fitted on training
    nodes.

    Args:
        model: A name of ``gread.MODELS``, or ``"auto"`` for the best blend of candidates
            (`gread.estimator.automatic`). The default is ``"auto"``, or GREAD-BS with settings.
        settings: Hyperparameters of the model and of ``gread.TrainConfig``, by name;
            ``loss="binary"`` suits two classes. By default GREAD uses the adjacency, time and
            solver that the diagnosis recommends, and a graph that does not fit into memory is
            partitioned (`gread.graph.partition`).
        time: Minutes to spend on ``"auto"``; by default 2 up to 20,000 nodes, then
            proportional to the number of nodes, and at most 12.
        features: Columns to use as features; ``"auto"``: all except id, label and split.
        categorical, numeric: Columns of numbers to treat as categories or as quantities, instead of
            the decision of `gread.tables.codes.are_codes`.
        scaling: Scaling of counts, a name of ``gread.tables.SCALINGS``.
        id, source, target, weight, edge_type: Names of columns, see `gread.tables.read_graph`.
        time_column: Column with the time of each node, numbers or dates: the latest labelled nodes
            are the test set, the ones before them the validation set. It is not a feature. If edges
            have a column of this name, training uses no edge from the time of the test set.
        directed: Whether edges keep their direction.
        class_weight: Weights of the classes in the loss: None for equal weights, ``"balanced"`` for
            weights inversely proportional to class sizes, or a mapping.
        metric: A name of ``gread.training.METRICS``, which selects epochs and candidates; by
            default accuracy, average precision if a class has more than 90 % of the nodes, and
            ROC-AUC for several labels.
        random_state: Random seed of split and training.
        device: Device name; ``"auto"`` uses a GPU if there is one.
        graph: Graph as in `gread.estimator.as_graph`, for scikit-learn tools such as
            ``cross_val_score``, ``GridSearchCV`` and ``Pipeline``. X then contains node numbers and
            y their targets; other nodes are unlabelled, and `fit` has no test set. Clones share
            the graph, and a model folder does not contain it.
        verbose: Whether to show progress: a bar in a terminal or a notebook, otherwise a line every
            15 s.

    Attributes:
        classes_: Classes or labels, in the order of the columns of `predict_proba`.
        task_: Kind of target and metric, see `gread.estimator.task`.
        thresholds_: Lowest probability at which the rarer of two classes, or each label, is
            predicted: on the training graph, on another graph and for added nodes; tuned on
            validation nodes. None selects the most probable class.
        types_: Types of edges, the most frequent first.
        cuts_: Times at which validation and test begin; dates as ordinals (1 is 0001-01-01).
        seen_: Graph used in training, without edges from the time of the test set.
        ids_, data_: Training graph: ids, features, edges, classes (−1 if unknown) and masks.
        preprocessing_: Fitted encoding of columns as features.
        diagnosis_: Diagnosis of the graph, without the classes of test nodes.
        settings_, config_: All settings of the model and of the training.
        module_, fit_: Trained model, and the epochs of its training; of a loaded model, the best.
        tuning_: Result of `gread.estimator.tune`: number of trials and changed settings.
        blend_, choice_: Blend of ``"auto"``, and the scores of all candidates.

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
        """Predict the probability of every class or label, [N, classes].

        The arguments are those of `predictions`.
        """
        return self.predictions(X, edges=edges, added=added)


class GraphRegressor(RegressorMixin, GraphEstimator):
    """Node regressor that uses columns and neighbours.

    Arguments and attributes are those of `GraphClassifier`, without ``class_weight`` and
    ``classes_``. Networks learn standardized numbers, so values of the metric ``"mae"`` in ``fit_``
    are in standard deviations. Those in ``tuning_`` are in the unit of the target.

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
"""Estimators by kind of task."""


def _both(show: Callable[[T], None], given: Callable[[T], Any] | None) -> Callable[[T], Any]:
    """Combine a progress function with a user's function, and return the result of the latter."""

    def call(what: T) -> Any:
        show(what)
        return None if given is None else given(what)

    return call


def _same(cells: list[Any], nodes: NDArray[np.int64], targets: list[Any]) -> bool:
    """Whether a column equals these targets at these nodes."""
    found = ((cells[node], target) for node, target in zip(nodes, targets, strict=True))
    return all(target is None or target == cell for cell, target in found)
