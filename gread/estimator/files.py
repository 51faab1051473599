"""A user's files: diagnose, train with a report, predict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gread.base.checks import check_positive
from gread.base.errors import InputError
from gread.base.files import whole_folder
from gread.estimator.classifier import GraphClassifier
from gread.estimator.comparison import compare
from gread.estimator.diagnosis import Diagnosis, diagnose
from gread.estimator.folder import write
from gread.estimator.predictions import write_predictions
from gread.estimator.scores import Scores
from gread.estimator.tune import tune
from gread.report.figures import confusion, portrait, reliability, save
from gread.runs.spec import Value
from gread.search.study import import_optuna
from gread.tables.features import choose_features
from gread.tables.graph import read_graph
from gread.tables.labels import read_labels
from gread.training.loop import Epoch

PICTURE = "diagnosis.png"


def diagnose_files(
    nodes: str | Path,
    edges: str | Path | None = None,
    *,
    label: str,
    features: str = "auto",
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    out: str | Path | None = None,
) -> Diagnosis:
    r"""Diagnose a graph in files: what it is like, whether to trust it, where to begin.

    Args:
        nodes: As in `gread.tables.read_graph`, like ``edges`` and the columns.
        edges: The edges, if ``nodes`` does not hold them.
        label: Column of the classes, empty where unknown.
        features: Columns to use, ``"auto"`` for all except the id and the label.
        id: Column of the node ids.
        source: Column where an edge begins.
        target: Column where an edge ends.
        weight: Column of the edges' weights.
        directed: Whether edges have one direction.
        out: Folder in which a picture is drawn, as ``diagnosis.png``.

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
    graph = read_graph(
        nodes, edges, id=id, source=source, target=target, weight=weight, directed=directed
    )
    table = graph.table()
    used = choose_features(table, features, [label])
    found = diagnose(graph, read_labels(table, label), used)
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        _draw(found, Path(nodes).name, Path(out))
    return found


@dataclass(frozen=True)
class FitReport:
    """A training on a user's graph, compared with simpler models and saved.

    Attributes:
        classifier: The trained one; with ``tune`` the best.
        scores: On the test nodes, of the classifier first, then of simpler models.
        seconds: How long each stage took.
        folder: The model folder.
    """

    classifier: GraphClassifier
    scores: Mapping[str, Scores]
    seconds: Mapping[str, float]
    folder: Path


def fit_report(
    nodes: str | Path,
    edges: str | Path | None = None,
    *,
    label: str,
    out: str | Path,
    model: str = "gread-bs",
    settings: Mapping[str, Value] | None = None,
    features: str = "auto",
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    split: str | None = None,
    class_weight: str | None = None,
    minutes: float | None = None,
    seed: int = 0,
    device: str = "auto",
    on_stage: Callable[[str, GraphClassifier], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trial: Callable[[int, GraphClassifier], None] | None = None,
) -> FitReport:
    r"""Train on a graph in files: read, diagnose, train, tune, compare, draw and save.

    Args:
        nodes: As in `diagnose_files`, like ``edges``, ``features`` and the columns.
        edges: The edges, if ``nodes`` does not hold them.
        label: Column of the classes; nodes without one are to be predicted.
        out: The model folder; it must not exist, and appears when all is written.
        model: A name of ``gread.MODELS``.
        settings: As in `GraphClassifier`.
        features: Columns to use, ``"auto"`` for all except id, label and split.
        id: Column of the node ids.
        source: Column where an edge begins.
        target: Column where an edge ends.
        weight: Column of the edges' weights.
        directed: Whether edges have one direction.
        split: Column with train, val or test; by default the split is drawn at random.
        class_weight: As in `GraphClassifier`.
        minutes: Time to spend on tuning, see `gread.estimator.tune`; by default none.
        seed: Of the split and of the training.
        device: ``"auto"`` takes a GPU if there is one.
        on_stage: Called as ``"training"``, ``"tuning"``, ``"comparing"`` and ``"writing"`` begin.
        on_epoch: Called after every epoch of the first training.
        on_trial: Called after every trial of the tuning, as in `gread.estimator.tune`.

    Example:
        >>> import random, tempfile
        >>> from pathlib import Path
        >>> from gread.estimator import fit_report
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = [f"{k},{random.random()},{'ab'[k % 2]}" for k in range(40)]
        >>> _ = (folder / "nodes.csv").write_text("\n".join(["id,x,kind", *rows]))
        >>> pairs = [f"{k},{(k + 2) % 40}" for k in range(40)]
        >>> _ = (folder / "edges.csv").write_text("\n".join(["source,target", *pairs]))
        >>> report = fit_report(
        ...     folder / "nodes.csv",
        ...     folder / "edges.csv",
        ...     label="kind",
        ...     out=folder / "model",
        ...     settings={"epochs": 2},
        ... )
        >>> list(report.scores), (folder / "model" / "README.md").exists()
        (['GREAD-BS', 'MLP', 'Label propagation', 'GCN'], True)
    """
    classifier = GraphClassifier(
        model,
        settings=dict(settings or {}),
        features=features,
        id=id,
        source=source,
        target=target,
        weight=weight,
        directed=directed,
        class_weight=class_weight,
        random_state=seed,
        device=device,
    )
    if minutes is not None:
        check_positive("tune", minutes)
        import_optuna()  # a missing package fails before the training
    clock = _Clock()

    def begin(stage: str) -> None:
        if on_stage is not None:
            on_stage(stage, classifier)

    with whole_folder(out) as folder:
        graph = classifier.graph(nodes, edges)
        clock.lap("reading")
        classifier.prepare(graph, label, split=split)
        clock.lap("preparing")
        begin("training")
        classifier.train(on_epoch)
        clock.lap("training")
        if minutes is not None:
            begin("tuning")
            classifier = tune(classifier, minutes, on_trial)
            clock.lap("tuning")
        begin("comparing")
        scores = compare(classifier)
        clock.lap("comparing")
        begin("writing")
        write(classifier, folder, scores)
        _draw(classifier.diagnosis_, Path(nodes).name, folder)
        own = next(iter(scores.values()))
        names = [str(name) for name in classifier.classes_.tolist()]
        save(confusion(names, own.confusion, title="Test nodes"), folder / "confusion.png")
        bins = reliability(*zip(*own.bins, strict=True), title="Test nodes")
        save(bins, folder / "calibration.png")
        clock.lap("writing")
    return FitReport(classifier, scores, clock.seconds, Path(out))


def predict_file(
    model: str | Path,
    out: str | Path,
    nodes: str | Path | None = None,
    edges: str | Path | None = None,
    *,
    device: str = "auto",
) -> int:
    """Write the predictions of a model folder, see `write_predictions`.

    Args:
        model: A model folder, or a repository of the Hugging Face Hub.
        out: CSV, a row a node.
        nodes: A new or grown graph, all nodes of which are predicted; by default those nodes of
            the training graph that have no class.
        edges: Its edges, if ``nodes`` does not hold them.
        device: ``"auto"`` takes a GPU if there is one.

    Returns:
        The number of nodes.

    Example:
        >>> import tempfile
        >>> import gread
        >>> from gread.estimator import predict_file
        >>> data = gread.load("csbm", num_nodes=60, homophily=0.9, degree=6)
        >>> data.y[:5] = -1  # without a class
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> _ = gread.GraphClassifier(settings={"epochs": 2}).fit(data).save(folder)
        >>> predict_file(folder, folder + "/predictions.csv")
        5
    """
    if edges is not None and nodes is None:
        raise InputError("--edges must come with --nodes, got the edges alone")
    classifier = GraphClassifier.load(model).set_params(device=device)
    return write_predictions(classifier, out, nodes, edges)


def _draw(found: Diagnosis, title: str, folder: Path) -> None:
    save(portrait(found.degrees, found.classes, found.mixing, title=title), folder / PICTURE)


class _Clock:
    """How long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = round(now - self.last, 3)
        self.last = now
