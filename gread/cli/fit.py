"""Commands for a user's own graph."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID
from rich.table import Table

from gread.base.checks import check_positive
from gread.base.errors import InputError
from gread.cli.console import Json, bar, err, out, print_json
from gread.cli.train import Device, Settings, setting
from gread.estimator.diagnosis import Diagnosis
from gread.estimator.diagnosis import diagnose as diagnose_graph
from gread.tables.features import choose_features
from gread.tables.graph import read_graph
from gread.tables.labels import read_labels
from gread.training.loop import Epoch

if TYPE_CHECKING:
    from gread.estimator.classifier import GraphClassifier
    from gread.estimator.scores import Scores

Nodes = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="A row a node: CSV, TSV, Parquet, JSON lines, NPZ; or a GraphML or GML file.",
    ),
]
Edges = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A row an edge, in the same formats.")
]
Label = Annotated[str, typer.Option(metavar="COLUMN", help="The class; empty where unknown.")]
Features = Annotated[
    str, typer.Option(metavar="COLUMNS", help="Columns to use, or auto for all but the others.")
]
Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Of the nodes' ids.")]
Source = Annotated[str | None, typer.Option(metavar="COLUMN", help="Where an edge begins.")]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="Where an edge ends.")]
Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="Of the edges' weights.")]
Directed = Annotated[bool, typer.Option("--directed", help="Edges have one direction.")]
Split = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Says train, val or test; else it is drawn.")
]


def diagnose(
    nodes: Nodes,
    label: Label,
    edges: Edges = None,
    features: Features = "auto",
    id: Id = None,
    source: Source = None,
    target: Target = None,
    weight: Weight = None,
    directed: Directed = False,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Draw a picture there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a graph is like, whether it can be trusted, and where to begin."""
    graph = read_graph(
        nodes, edges, id=id, source=source, target=target, weight=weight, directed=directed
    )
    table = graph.table()
    used = choose_features(table, features, [label])
    found = diagnose_graph(graph, read_labels(table, label), used)
    if as_json:
        print_json(dataclasses.asdict(found))
    else:
        print_diagnosis(found)
    if folder is not None:
        from gread.report.figures import portrait, save  # with matplotlib

        figure = portrait(found.degrees, found.classes, found.mixing, title=nodes.name)
        folder.mkdir(parents=True, exist_ok=True)
        save(figure, folder / "diagnosis.png")
        err.print(f"Wrote {folder / 'diagnosis.png'}", highlight=False, soft_wrap=True)


def fit(
    nodes: Nodes,
    label: Label,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The model folder; it must not exist.")
    ],
    edges: Edges = None,
    features: Features = "auto",
    id: Id = None,
    source: Source = None,
    target: Target = None,
    weight: Weight = None,
    directed: Directed = False,
    split: Split = None,
    model: Annotated[str, typer.Option(help="A model: gread list models.")] = "gread-bs",
    settings: Settings = None,
    class_weight: Annotated[
        str | None,
        typer.Option(help="balanced: rare classes count as much as common ones."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--tune", metavar="MINUTES", help="Look for better settings so long."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and the training.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train on a graph of your own: two files in, a model folder out."""
    from gread.base.files import whole_folder
    from gread.estimator.classifier import GraphClassifier
    from gread.estimator.comparison import compare  # with scikit-learn
    from gread.estimator.folder import write
    from gread.report.figures import confusion, portrait, reliability, save
    from gread.search.study import import_optuna
    from gread.search.tune import tune

    classifier = GraphClassifier(
        model,
        settings=dict(map(setting, settings or [])),
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
        import_optuna()  # what is missing is said before the training
    clock = Clock()
    with stoppable(), whole_folder(folder) as part:
        graph = read_graph(
            nodes, edges, id=id, source=source, target=target, weight=weight, directed=directed
        )
        clock.lap("reading")
        classifier.prepare(graph, label, split=split)
        clock.lap("preparing")
        if not as_json:
            print_diagnosis(classifier.diagnosis_)
            _print_split(classifier)
        with bar() as progress:
            task = progress.add_task(
                "training", total=classifier.config(len(classifier.ids_)).epochs
            )
            classifier.train(partial(_advance, progress, task))
        clock.lap("training")
        if minutes is not None:
            with bar() as progress:
                task = progress.add_task("tuning", total=None)
                classifier = tune(classifier, minutes, partial(_tell, progress, task))
            clock.lap("tuning")
        with err.status("comparing with simpler means"):
            scores = compare(classifier)
        clock.lap("comparing")
        own = next(iter(scores.values()))
        names = [str(name) for name in classifier.classes_.tolist()]
        found = classifier.diagnosis_
        figures = {
            "diagnosis": portrait(found.degrees, found.classes, found.mixing, title=nodes.name),
            "confusion": confusion(names, own.confusion, title="Test nodes"),
            "calibration": reliability(*zip(*own.bins, strict=True), title="Test nodes"),
        }
        write(classifier, part, scores)
        for name, figure in figures.items():
            save(figure, part / f"{name}.png")
        clock.lap("writing")
    if as_json:
        about = {"settings": classifier.settings_, "seconds": clock.seconds, "folder": str(folder)}
        print_json(
            {
                **about,
                "diagnosis": dataclasses.asdict(classifier.diagnosis_),
                "scores": {name: dataclasses.asdict(found) for name, found in scores.items()},
            }
        )
        return
    print_scores(scores, names)
    laps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in clock.seconds.items())
    err.print(f"{laps}\nWrote {folder}: gread predict {folder}", highlight=False, soft_wrap=True)


def predict(
    folder: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model folder, or one on the Hub.")
    ],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="CSV, a row a node.")],
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A new or grown graph; else the training graph."),
    ] = None,
    edges: Edges = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Predict the nodes without a class, or all nodes of a new graph."""
    from gread.estimator.classifier import GraphClassifier
    from gread.estimator.predictions import write_predictions

    if edges is not None and nodes is None:
        raise InputError("--edges must come with --nodes, got the edges alone")
    with stoppable():
        classifier = GraphClassifier.load(folder).set_params(device=device)
        count = write_predictions(classifier, file, nodes, edges)
    if as_json:
        print_json({"nodes": count, "file": str(file)})
    else:
        err.print(f"Wrote {file}: {count:,} nodes", highlight=False, soft_wrap=True)


def _print_split(classifier: GraphClassifier) -> None:
    data = classifier.data_
    train, val, test = (int(data[f"{part}_mask"].sum()) for part in ("train", "val", "test"))
    out.print(
        f"{train:,} nodes train, {val:,} say when to stop, {test:,} test (not counted "
        f"as classes above), {int((data.y < 0).sum()):,} are to be predicted.",
        highlight=False,
    )


class Clock:
    """How long each part of a command took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Gives the time since the last lap a name."""
        now = time.perf_counter()
        self.seconds[name] = round(now - self.last, 3)
        self.last = now


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C leaves nothing half-written."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("gread: stopped; nothing is written")
        raise typer.Exit(130) from None


def _advance(progress: Progress, task: TaskID, epoch: Epoch) -> None:
    text = f"epoch {epoch.number} loss {epoch.loss:.3f} validation {epoch.val:.1%}"
    progress.update(task, completed=epoch.number + 1, description=text)


def _tell(progress: Progress, task: TaskID, count: int, best: GraphClassifier) -> None:
    text = f"tuning: {count} trained, best validation {best.fit_.best.val:.1%}"
    progress.update(task, description=text)


def print_scores(scores: Mapping[str, Scores], classes: Sequence[str]) -> None:
    """How good it is beside simpler means, what it mixes up, and how far its confidence goes."""
    (own, found), *_ = scores.items()
    out.print(f"\n{found.nodes:,} test nodes, seen by nobody before", highlight=False)
    table = Table("", "accuracy", "macro-F1", "ROC-AUC", "calibration error")
    for name, other in scores.items():
        auc = "" if other.roc_auc is None else f"{other.roc_auc:.3f}"
        shares = (f"{100 * other.accuracy:.2f}", f"{100 * other.macro_f1:.2f}", auc)
        table.add_row(name, *shares, f"{other.calibration_error:.3f}")
    out.print(table)
    if len(classes) <= 12:
        square = Table("true \\ predicted", *classes)
        for name, row in zip(classes, found.confusion, strict=True):
            square.add_row(name, *map(str, row))
        out.print(square)
    sure = sum(size * confidence for confidence, _, size in found.bins) / found.nodes
    out.print(
        f"{own} is {sure:.0%} sure on average and right in {found.accuracy:.0%}: off by "
        f"{found.calibration_error:.3f} over ten bins of confidence.",
        highlight=False,
    )
    from gread.estimator.comparison import advice, verdict

    if "MLP" in scores:
        out.print(verdict(own, found, scores["MLP"]), highlight=False)
    if better := advice(own, scores):
        out.print(better, style="yellow", highlight=False)


def print_diagnosis(found: Diagnosis) -> None:
    """The numbers in two columns, what to be careful about, and where to begin."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for subject, text in _rows(found).items():
        table.add_row(subject, text)
    out.print(table, highlight=False)
    for warning in found.warnings:
        out.print(f"! {warning}", style="yellow", highlight=False)
    begin = found.recommendation
    out.print(
        f"Begin with the reaction {begin.reaction}, the {begin.adjacency} adjacency and "
        f"T = {begin.time:g}: {begin.reason}.",
        highlight=False,
    )


def _rows(found: Diagnosis) -> Mapping[str, str]:
    kind = "directed" if found.directed else "undirected"
    weights = ", weighted" if found.weighted else ""
    classes = sorted(found.classes.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {size:,}" for name, size in classes[:8])
    shown += f", and {len(classes) - 8} more" if len(classes) > 8 else ""
    features = ", ".join(found.features[:8]) or "none"
    features += f", and {len(found.features) - 8} more" if len(found.features) > 8 else ""
    return {
        "nodes": f"{found.nodes:,}, {found.labelled:,} with a class",
        "edges": f"{found.edges:,}, {kind}{weights}",
        "left out": f"{found.loops:,} loops, {found.repeated:,} repeated edges",
        "components": f"{found.components:,}, the largest with {found.largest_component:,} nodes",
        "neighbours": f"{found.mean_degree:.1f} on average, at most {found.largest_degree:,}; "
        f"{found.isolated:,} nodes have none",
        "duplicate nodes": f"{found.duplicates:,}",
        "features": features,
        "classes": f"{len(classes)}: {shown}",
        "homophily": f"of edges {_share(found.edge_homophily)}, of nodes "
        f"{_share(found.node_homophily)}, adjusted for the classes "
        f"{_share(found.adjusted_homophily)}",
        "class told by": f"labelled neighbours {_share(found.neighbours_tell)}, a linear model of "
        f"the features {_share(found.features_tell)} (shares of nodes that are right)",
    }


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
