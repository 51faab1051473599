"""``gread diagnose``, ``gread fit`` and ``gread predict``: a user's own graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.table import Table as RichTable

from gread.cli.console import bar, err, out, print_json, stoppable
from gread.cli.options import Device, Json, Settings, settings_of

if TYPE_CHECKING:
    from gread.estimator.classifier import GraphClassifier
    from gread.estimator.diagnosis import Diagnosis
    from gread.estimator.files import FitReport
    from gread.training.loop import Epoch

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
    from gread.estimator.files import PICTURE, diagnose_files

    found = diagnose_files(
        nodes,
        edges,
        label=label,
        features=features,
        id=id,
        source=source,
        target=target,
        weight=weight,
        directed=directed,
        out=folder,
    )
    if as_json:
        print_json(dataclasses.asdict(found))
    else:
        _print_diagnosis(found)
    if folder is not None:
        err.print(f"Wrote {folder / PICTURE}", highlight=False, soft_wrap=True)


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
        str | None, typer.Option(help="balanced: rare classes count as much as common ones.")
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
    from gread.estimator.files import fit_report

    with stoppable(), bar() as progress:
        shown = _Stages(progress, as_json)
        report = fit_report(
            nodes,
            edges,
            label=label,
            out=folder,
            model=model,
            settings=settings_of(settings),
            features=features,
            id=id,
            source=source,
            target=target,
            weight=weight,
            directed=directed,
            split=split,
            class_weight=class_weight,
            minutes=minutes,
            seed=seed,
            device=device,
            on_stage=shown.begin,
            on_epoch=shown.advance,
            on_trial=shown.tell,
        )
    if as_json:
        print_json(
            {
                "settings": report.classifier.settings_,
                "seconds": report.seconds,
                "folder": str(folder),
                "diagnosis": dataclasses.asdict(report.classifier.diagnosis_),
                "scores": {name: dataclasses.asdict(own) for name, own in report.scores.items()},
            }
        )
        return
    _print_scores(report)
    laps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items())
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
    from gread.estimator.files import predict_file

    with stoppable():
        count = predict_file(folder, file, nodes, edges, device=device)
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


class _Stages:
    """Shows on a bar what a training is at; before it begins, the diagnosis and the split."""

    def __init__(self, progress: Progress, as_json: bool):
        self.progress, self.as_json = progress, as_json

    def begin(self, stage: str, classifier: GraphClassifier) -> None:
        if stage == "training":
            if not self.as_json:
                _print_diagnosis(classifier.diagnosis_)
                _print_split(classifier)
            epochs = classifier.config(len(classifier.ids_)).epochs
            self.task = self.progress.add_task(stage, total=epochs)
        else:
            text = "comparing with simpler means" if stage == "comparing" else stage
            self.progress.update(self.task, visible=False)
            self.task = self.progress.add_task(text, total=None)
        self.progress.update(self.task)

    def advance(self, epoch: Epoch) -> None:
        text = f"epoch {epoch.number} loss {epoch.loss:.3f} validation {epoch.val:.1%}"
        self.progress.update(self.task, completed=epoch.number + 1, description=text)

    def tell(self, count: int, best: GraphClassifier) -> None:
        text = f"tuning: {count} trained, best validation {best.fit_.best.val:.1%}"
        self.progress.update(self.task, description=text)


def _print_scores(report: FitReport) -> None:
    """How good it is beside simpler means, what it mixes up, and how far its confidence goes."""
    from gread.estimator.comparison import advice, verdict

    scores = report.scores
    classes = [str(name) for name in report.classifier.classes_.tolist()]
    (own, found), *_ = scores.items()
    out.print(f"\n{found.nodes:,} test nodes, seen by nobody before", highlight=False)
    table = RichTable("", "accuracy", "macro-F1", "ROC-AUC", "calibration error")
    for name, other in scores.items():
        auc = "" if other.roc_auc is None else f"{other.roc_auc:.3f}"
        shares = (f"{100 * other.accuracy:.2f}", f"{100 * other.macro_f1:.2f}", auc)
        table.add_row(name, *shares, f"{other.calibration_error:.3f}")
    out.print(table)
    if len(classes) <= 12:
        square = RichTable("true \\ predicted", *classes)
        for name, row in zip(classes, found.confusion, strict=True):
            square.add_row(name, *map(str, row))
        out.print(square)
    sure = sum(size * confidence for confidence, _, size in found.bins) / found.nodes
    out.print(
        f"{own} is {sure:.0%} sure on average and right in {found.accuracy:.0%}: off by "
        f"{found.calibration_error:.3f} over ten bins of confidence.",
        highlight=False,
    )
    if "MLP" in scores:
        out.print(verdict(own, found, scores["MLP"]), highlight=False)
    if better := advice(own, scores):
        out.print(better, style="yellow", highlight=False)


def _print_diagnosis(found: Diagnosis) -> None:
    """The numbers in two columns, what to be careful about, and where to begin."""
    table = RichTable(box=None, padding=(0, 2, 0, 0), show_header=False)
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
