"""Functions on a user's files: diagnose, train with a report, predict."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gread.base.checks import check_positive
from gread.base.errors import InputError
from gread.base.files import whole_file, whole_folder
from gread.estimator.classifier import GraphEstimator
from gread.estimator.comparison import compare
from gread.estimator.diagnosis import Diagnosis, diagnose
from gread.estimator.fitted import AUTO, MOST_TYPES, ONE, names_of
from gread.estimator.folder import write
from gread.estimator.race import OnScore
from gread.estimator.scores import AnyScores, Scores
from gread.estimator.task import read_targets
from gread.estimator.tune import tune
from gread.report.figures import confusion, portrait, reliability, save
from gread.search.study import import_optuna
from gread.tables.features import Preprocessing, choose_features, named
from gread.tables.graph import Columns, Files, read_graph
from gread.training.loop import Epoch

if TYPE_CHECKING:
    from typing_extensions import Unpack

PICTURE = "diagnosis.png"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of a formula


def diagnose_files(
    nodes: Files,
    edges: str | Path | None = None,
    *,
    label: str | Sequence[str],
    task: str = "auto",
    features: str = "auto",
    categorical: str = "",
    numeric: str = "",
    scaling: str = "auto",
    out: str | Path | None = None,
    **columns: Unpack[Columns],
) -> Diagnosis:
    r"""Diagnose a graph in files: measures, warnings and recommended settings.

    Args:
        nodes: Nodes. See `gread.tables.read_graph`, also for ``edges`` and ``columns``.
        edges: Edges, if ``nodes`` does not hold them.
        label: Column of the targets, empty where unknown; or columns of 0 and 1.
        task: One of ``gread.estimator.task.KINDS``.
        features: Columns to use, ``"auto"`` for all except the id and the label.
        categorical: Columns of categories, as in `gread.GraphClassifier`.
        numeric: Columns of quantities, as in `gread.GraphClassifier`.
        scaling: Scaling of counts, as in `gread.GraphClassifier`.
        out: Folder for the figure ``diagnosis.png``; by default none is drawn.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gread.estimator import diagnose_files
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "nodes.csv").write_text("id,kind\n0,a\n1,b\n2,a\n3,b\n")
        >>> _ = (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
        >>> diagnose_files(folder / "nodes.csv", folder / "edges.csv", label="kind").edge_homophily
        0.0
    """
    graph = read_graph(nodes, edges, **columns)
    table = graph.table()
    columns_of = names_of(label, graph)
    used = choose_features(table, features, columns_of)
    target, y, recognized = read_targets(table, columns_of, task)
    labels = target.described(y)
    preprocessing = Preprocessing.fit(
        table,
        used,
        np.flatnonzero(labels.known),
        categorical=named(table, categorical),
        numeric=named(table, numeric),
        scaling=scaling,
    )
    found = diagnose(graph, labels, used, preprocessing)
    notes = [recognized, graph.relations.about(MOST_TYPES) if graph.relations is not None else ""]
    found = replace(found, target=target.word, notes=tuple(note for note in notes if note))
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        _draw(found, graph.name, Path(out))
    return found


@dataclass(frozen=True)
class FitReport:
    """A training on a user's graph, compared with simpler models and saved.

    Attributes:
        classifier: Trained estimator; after tuning, the best one.
        scores: Scores on the test nodes by title: the classifier first, then simpler models.
        seconds: Duration of each stage.
    """

    classifier: GraphEstimator
    scores: Mapping[str, AnyScores]
    seconds: Mapping[str, float]
    folder: Path


def fit_report(
    classifier: GraphEstimator,
    nodes: Files,
    edges: str | Path | None = None,
    *,
    label: str | Sequence[str],
    out: str | Path,
    split: str | None = None,
    minutes: float | None = None,
    on_stage: Callable[[str, GraphEstimator], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_score: OnScore | None = None,
    on_trial: Callable[[int, GraphEstimator], None] | None = None,
) -> FitReport:
    r"""Train on a graph in files: read, diagnose, train, tune, compare, draw and save.

    Args:
        classifier: Estimator to train.
        nodes: Nodes. See `gread.tables.read_graph`, also for ``edges``.
        edges: Edges, if ``nodes`` does not hold them.
        label: Column of the targets, or columns of 0 and 1; empty for nodes to predict.
        out: Model folder, which must not exist. It is written atomically.
        split: Column with train, val or test; by default the split is drawn at random.
        minutes: Time to spend on tuning, see `gread.estimator.tune`; by default none.
        on_stage: Called at the beginning of ``"reading"``, ``"preparing"``, ``"training"``,
            ``"tuning"``, ``"comparing"`` and ``"writing"``.
        on_epoch: Called after every epoch of the first training.
        on_score: Called with the scored candidates of ``"auto"``, see
            `gread.estimator.race.OnScore`.
        on_trial: Called after every trial of the tuning, as in `gread.estimator.tune`.

    Example:
        >>> import random, tempfile
        >>> from pathlib import Path
        >>> import gread
        >>> from gread.estimator import fit_report
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = [f"{k},{random.random()},{'ab'[k % 2]}" for k in range(40)]
        >>> _ = (folder / "nodes.csv").write_text("\n".join(["id,x,kind", *rows]))
        >>> pairs = [f"{k},{(k + 2) % 40}" for k in range(40)]
        >>> _ = (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]))
        >>> classifier = gread.GraphClassifier(settings={"epochs": 2})
        >>> files = folder / "nodes.csv", folder / "edges.csv"
        >>> report = fit_report(classifier, *files, label="kind", out=folder / "model")
        >>> list(report.scores), (folder / "model" / "README.md").exists()
        (['GREAD-BS', 'MLP', 'Label propagation', 'GCN'], True)
    """
    if minutes is not None:
        if classifier.model == AUTO:
            raise InputError("--tune must be omitted with --model auto: use --time")
        classifier.model = classifier.model or ONE
        check_positive("tune", minutes)
        import_optuna()  # a missing package fails before the training
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.perf_counter()
        if on_stage is not None:
            on_stage(name, classifier)
        yield
        seconds[name] = round(time.perf_counter() - start, 3)

    with whole_folder(out) as folder:
        with stage("reading"):
            graph = classifier.read(nodes, edges)
        with stage("preparing"):
            classifier.prepare(graph, label, split=split)
        with stage("training"):
            classifier.train(on_epoch, on_score)
        if minutes is not None:
            with stage("tuning"):
                classifier = tune(classifier, minutes, on_trial)
        with stage("comparing"):
            scores = compare(classifier)
        with stage("writing"):
            write(classifier, folder, scores)
            _draw(classifier.diagnosis_, graph.name, folder)
            own = next(iter(scores.values()))
            if isinstance(own, Scores):
                names = [str(name) for name in classifier.classes_.tolist()]
                save(confusion(names, own.confusion, title="Test nodes"), folder / "confusion.png")
                bins = reliability(*zip(*own.bins, strict=True), title="Test nodes")
                save(bins, folder / "calibration.png")
    return FitReport(classifier, scores, seconds, Path(out))


def write_predictions(
    classifier: GraphEstimator,
    file: str | Path,
    X: Any = None,
    edges: Any = None,
    *,
    added: bool = False,
) -> int:
    """Write ids and predictions to a CSV file, and return the number of nodes.

    The columns are ``prediction``, ``confidence`` and ``p_CLASS`` for classes, ``LABEL`` (0 or 1)
    and ``p_LABEL`` for labels, and ``prediction`` for numbers. Text that a spreadsheet would
    interpret as a formula is prefixed with an apostrophe.

    Args:
        classifier: Fitted estimator.
        file: Path of the file, which is written atomically.
        X: Graph whose nodes are predicted; by default, the nodes of the training graph without a
            target are predicted.
        edges: Edges, if X does not contain them.
        added: Whether X contains nodes to add to the training graph, as in
            `GraphEstimator.predictions`. Only added nodes are predicted.

    Example:
        >>> import tempfile
        >>> import gread
        >>> data = gread.load("csbm", num_nodes=60, homophily=0.9, degree=6)
        >>> data.y[:5] = -1  # without a class
        >>> classifier = gread.GraphClassifier(settings={"epochs": 2}).fit(data)
        >>> write_predictions(classifier, tempfile.mkdtemp() + "/predictions.csv")
        5
    """
    if edges is not None and X is None:
        flags = ("--add-edges", "--add-nodes") if added else ("--edges", "--nodes")
        raise InputError(f"{flags[0]} must come with {flags[1]}, got only the edges")
    with whole_file(file) as part:
        if added:
            addition = classifier.addition(X, edges)
            ids, found = addition.ids, classifier.predictions(addition, added=True)
        elif X is None:
            found = classifier.predictions()
            chosen = ~classifier.task_.known(classifier.data_.y.numpy())
            if not chosen.any():
                raise InputError(
                    f"the training graph must have nodes without a {classifier.task_.word}, got "
                    "none: name a new graph, for instance the same files"
                )
            ids, found = list(compress(classifier.ids_, chosen)), found[chosen]
        else:
            graph = classifier.read(X, edges)
            ids, found = graph.ids, classifier.predictions(graph)
        thresholds = classifier.thresholds_[classifier.where(X, added=added)]
        columns = classifier.task_.cells(found, thresholds)
        with part.open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            writer.writerow(map(_text, ["id", *columns]))
            writer.writerows(zip(*map(_texts, (ids, *columns.values())), strict=True))
    return len(ids)


def _texts(column: Sequence[Any]) -> Iterable[Any]:
    """Cells of a column that no spreadsheet evaluates as formulas."""
    has_text = any(issubclass(kind, str) for kind in set(map(type, column)))
    return map(_text, column) if has_text else column


def _text(value: Any) -> Any:
    """A cell that no spreadsheet evaluates as a formula; numbers are unchanged."""
    try:
        if isinstance(value, str) and value.startswith(FORMULA):
            float(value)
    except ValueError:
        return f"'{value}"
    return value


def _draw(found: Diagnosis, title: str, folder: Path) -> None:
    save(portrait(found.degrees, found.classes, found.mixing, title=title), folder / PICTURE)
