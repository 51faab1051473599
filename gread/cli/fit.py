"""``gread diagnose``, ``gread fit``, ``predict`` and ``export``: a user's own graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gread.base.errors import InputError
from gread.cli.console import err, note, out, print_json, print_table, stoppable
from gread.cli.options import settings_of

if TYPE_CHECKING:
    from gread.estimator.classifier import GraphEstimator
    from gread.estimator.diagnosis import Diagnosis
    from gread.estimator.files import FitReport
    from gread.estimator.scores import LabelScores, Scores


def diagnose(
    nodes: list[Path],
    label: list[str],
    edges: Path | None = None,
    task: str = "auto",
    features: str = "auto",
    categorical: str = "",
    numeric: str = "",
    scaling: str = "auto",
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    edge_type: str | None = None,
    directed: bool = False,
    folder: Path | None = None,
    as_json: bool = False,
) -> None:
    """Describe a graph, warn about problems in its data, and recommend settings."""
    from gread.estimator.files import PICTURE, diagnose_files
    from gread.tables.graph import Columns

    columns = Columns(
        id=id, source=source, target=target, weight=weight, edge_type=edge_type, directed=directed
    )
    found = diagnose_files(
        nodes,
        edges,
        label=label if len(label) > 1 else label[0],
        task=task,
        features=features,
        categorical=categorical,
        numeric=numeric,
        scaling=scaling,
        out=folder,
        **columns,
    )
    if as_json:
        print_json(found)
    else:
        _print_diagnosis(found)
    if folder is not None:
        note(f"Wrote {folder / PICTURE}")


def fit(
    nodes: list[Path],
    label: list[str],
    folder: Path,
    edges: Path | None = None,
    task: str = "auto",
    features: str = "auto",
    categorical: str = "",
    numeric: str = "",
    scaling: str = "auto",
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    edge_type: str | None = None,
    directed: bool = False,
    time_column: str | None = None,
    split: str | None = None,
    model: str | None = None,
    time: float | None = None,
    settings: list[str] | None = None,
    metric: str | None = None,
    class_weight: str | None = None,
    minutes: float | None = None,
    seed: int = 0,
    device: str = "auto",
    as_json: bool = False,
) -> None:
    """Train on your own graph and write a model folder."""
    from gread.estimator.classifier import ESTIMATORS
    from gread.estimator.files import fit_report
    from gread.estimator.progress import FitProgress
    from gread.tables.graph import Columns

    columns = Columns(
        id=id,
        source=source,
        target=target,
        weight=weight,
        edge_type=edge_type,
        time_column=time_column,
        directed=directed,
    )
    classifier = ESTIMATORS[task](
        model,
        settings=settings_of(settings),
        time=time,
        features=features,
        categorical=categorical,
        numeric=numeric,
        scaling=scaling,
        class_weight=class_weight,
        metric=metric,
        random_state=seed,
        device=device,
        **columns,
    )

    def begin(stage: str, classifier: GraphEstimator) -> None:
        """Print diagnosis and split before the training."""
        if stage == "training" and not as_json:
            _print_diagnosis(classifier.diagnosis_)
            _print_split(classifier)
        shown.begin(stage, classifier)

    with stoppable(), FitProgress(err) as shown:
        report = fit_report(
            classifier,
            nodes,
            edges,
            label=label if len(label) > 1 else label[0],
            out=folder,
            split=split,
            minutes=minutes,
            on_stage=begin,
            on_epoch=shown.advance,
            on_score=shown.score,
            on_trial=shown.tell,
        )
    chosen = report.classifier.model_ == "auto"
    if as_json:
        fitted = {
            "settings": report.classifier.settings_,
            "seconds": report.seconds,
            "folder": folder,
            "diagnosis": report.classifier.diagnosis_,
            "scores": report.scores,
            **({"tuning": report.classifier.tuning_} if minutes is not None else {}),
            **({"candidates": _candidates(report.classifier)} if chosen else {}),
        }
        print_json(fitted)
        return
    if chosen:
        _print_choice(report.classifier)
    if minutes is not None:
        _print_tuning(report.classifier)
    _print_scores(report)
    laps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items())
    note(f"{laps}\nWrote {folder}: gread predict {folder}")


def predict(
    folder: str,
    file: Path,
    nodes: list[Path] | None = None,
    edges: Path | None = None,
    add_nodes: list[Path] | None = None,
    add_edges: Path | None = None,
    device: str = "auto",
    as_json: bool = False,
) -> None:
    """Predict nodes without a label, added nodes, or all nodes of another graph."""
    from gread.estimator.classifier import GraphEstimator
    from gread.estimator.files import write_predictions

    with stoppable():
        added = bool(add_nodes or add_edges)
        if added and (nodes or edges):
            raise InputError(
                "--add-nodes and --add-edges add to the training graph: omit --nodes and --edges"
            )
        classifier = GraphEstimator.load(folder).set_params(device=device)
        given = (add_nodes or None, add_edges) if added else (nodes or None, edges)
        count = write_predictions(classifier, file, *given, added=added)
    left_out = classifier.left_out(added=added) if added or nodes else []
    if as_json:
        print_json({"nodes": count, "file": file, "left_out": left_out})
        return
    if left_out:
        names = "; ".join(left_out)
        note(f"Left out, because they predict only nodes of the training graph: {names}")
    note(f"Wrote {file}: {count:,} nodes")


def export(folder: str, file: Path, as_json: bool = False) -> None:
    """Write a model to one file that runs without gread: torch.export (.pt2) or ONNX."""
    from gread.estimator.classifier import GraphEstimator

    with stoppable():
        about = GraphEstimator.load(folder).export(file)
    if as_json:
        print_json(about)
        return
    if about["left_out"]:
        names = "; ".join(about["left_out"])
        note(f"Left out, because they predict only nodes of the training graph: {names}")
    features, classes = len(about["features"]), len(about["classes"])
    weights = ", edge_weight [E]" * ("edge_weight" in about["inputs"])
    note(
        f"Wrote {file}: x [N, {features}], edge_index [2, E]{weights} with edges {about['edges']} "
        f"to {about['outputs']} [N, {classes}]"
    )


def _print_split(classifier: GraphEstimator) -> None:
    data = classifier.data_
    train, val, test = (int(data[f"{part}_mask"].sum()) for part in ("train", "val", "test"))
    out.print(
        f"{train:,} training nodes, {val:,} validation nodes, {test:,} test nodes (not counted "
        f"above), {int((~classifier.task_.known(data.y.numpy())).sum()):,} nodes to predict."
    )


def _candidates(classifier: GraphEstimator) -> list[dict[str, object]]:
    """Every candidate with its score on validation nodes, best first."""
    from gread.training.metrics import METRICS

    choice, sign = classifier.choice_, METRICS[classifier.task_.metric].sign
    return [
        {
            "candidate": one.candidate.title,
            "validation": round(sign * one.gain[0], 6),
            "weight": round(weight, 3),
            "seconds": round(one.seconds, 1),
            "reason": one.candidate.reason,
        }
        for one, weight in zip(choice.scored, choice.weights, strict=True)
    ]


def _print_choice(classifier: GraphEstimator) -> None:
    """Print the candidates and the blend."""
    from gread.estimator.automatic import explained
    from gread.search.objective import objective_of
    from gread.training.metrics import METRICS

    rows, metric = _candidates(classifier), classifier.task_.metric
    shown = objective_of(vars(classifier.config_)).shown
    lines = [
        (
            str(row["candidate"]),
            shown(float(str(row["validation"]))),
            f"{row['weight']:g}" if row["weight"] else "",
            f"{row['seconds']}",
            str(row["reason"]),
        )
        for row in rows
    ]
    print_table(("candidate", "validation", "weight", "seconds", "reason"), lines)
    sign = METRICS[metric].sign
    out.print(f"Validation {metric} of the blend: {shown(sign * classifier.choice_.gain[0])}.")
    classes = classifier.task_.targets == "classes"
    homophily = classifier.diagnosis_.edge_homophily if classes else None
    out.print(explained(classifier.choice_, metric, homophily))


def _print_tuning(classifier: GraphEstimator) -> None:
    """Print the number of trials and the settings that improved validation."""
    from gread.search.objective import objective_of

    found = classifier.tuning_
    objective = objective_of(vars(classifier.config_))
    metric, values = objective.name, (found.before, found.best)
    before, best = ("" if value is None else objective.short(value) for value in values)
    diverged = f" ({found.diverged} more diverged)" if found.diverged else ""
    out.print(f"\nTuning: {found.trials} trials{diverged}.")
    if found.best is None:
        out.print("No trial finished in time. The settings of the first training are kept.")
    elif not found.helped:
        out.print(
            f"No trial improved validation {metric}: best {best}, first training {before}. Its "
            "settings are kept."
        )
    else:
        out.print(f"Validation {metric} improved from {before} to {best} with these settings:")
        shown = ((name, *map(str, values)) for name, values in found.changed.items())
        print_table(("setting", "before", "now"), shown)


def _print_scores(report: FitReport) -> None:
    """Print the scores of all models, the confusion matrix and the calibration."""
    from gread.estimator.comparison import advice, verdict
    from gread.estimator.scores import LabelScores, Scores

    scores = report.scores
    (own, found), *_ = scores.items()
    out.print(f"\n{found.nodes:,} held-out test nodes")
    rows = ((name, *map(_measure, other.measures().items())) for name, other in scores.items())
    print_table(("", *found.measures()), rows)
    if isinstance(found, Scores):
        _print_confusion(own, found, [str(name) for name in report.classifier.classes_.tolist()])
    if isinstance(found, LabelScores):
        _print_labels(found)
    _print_threshold(report.classifier)
    if sentence := verdict(scores):
        out.print(sentence)
    if better := advice(own, scores):
        out.print(better, style="yellow")


PERCENT = ("accuracy", "macro-F1", "micro-F1")


def _measure(item: tuple[str, float | None]) -> str:
    name, value = item
    if value is None:
        return ""
    if name in PERCENT:
        return f"{100 * value:.2f}"
    return f"{value:.5g}" if name in ("MAE", "RMSE") else f"{value:.3f}"


def _print_confusion(own: str, found: Scores, classes: list[str]) -> None:
    if len(classes) <= 12:
        square = ((name, *row) for name, row in zip(classes, found.confusion, strict=True))
        print_table(("true \\ predicted", *classes), square)
    sure = sum(size * confidence for confidence, _, size in found.bins) / found.nodes
    before = ""
    if found.uncalibrated is not None:
        before = f"; {found.uncalibrated:.3f} before the temperature was fitted"
    out.print(
        f"{own}: mean confidence {sure:.0%}, accuracy {found.accuracy:.0%}, calibration error "
        f"{found.calibration_error:.3f} (ten bins of confidence{before})."
    )


def _print_labels(found: LabelScores) -> None:
    rows = (
        (
            one.label,
            f"{one.nodes:,}",
            f"{100 * one.f1:.2f}",
            _measure(("", one.roc_auc)),
            _measure(("", one.average_precision)),
        )
        for one in found.labels
    )
    print_table(("label", "nodes", "F1", "ROC-AUC", "average precision"), rows)


def _print_threshold(classifier: GraphEstimator) -> None:
    """Print the probability threshold of the rarer class, if there is one."""
    from gread.estimator.task import Classes

    task, thresholds = classifier.task_, classifier.thresholds_[0]
    if isinstance(task, Classes) and thresholds is not None:
        out.print(
            f"Class {task.decisive[0]} is predicted if its probability is at least "
            f"{thresholds[0]:.3g}, the best threshold on validation nodes."
        )


def _print_diagnosis(found: Diagnosis) -> None:
    """Print the numbers in two columns, then notes, warnings and the recommendation."""
    rows = _rows(found).items()
    print_table((), rows, box=None, padding=(0, 2, 0, 0), show_header=False)
    for line in found.encodings:
        out.print(f"Columns: {line}.")
    for note_ in found.notes:
        out.print(note_)
    for warning in found.warnings:
        out.print(f"! {warning}", style="yellow")
    begin = found.recommendation
    out.print(
        f"Recommended: reaction {begin.reaction}, {begin.adjacency} adjacency, T = {begin.time:g} "
        f"({begin.reason})."
    )


def _rows(found: Diagnosis) -> Mapping[str, str]:
    kind = "directed" if found.directed else "undirected"
    weights = ", weighted" if found.weighted else ""
    classes = list(found.classes.items())
    if found.target == "class":
        classes.sort(key=lambda item: -item[1])
    shown = ", ".join(f"{name} {size:,}" for name, size in classes[:8])
    shown += f", and {len(classes) - 8} more" if len(classes) > 8 else ""
    features = ", ".join(found.features[:8]) or "none"
    features += f", and {len(found.features) - 8} more" if len(found.features) > 8 else ""
    return {
        "nodes": f"{found.nodes:,}, {found.labelled:,} with a {found.target}",
        "edges": f"{found.edges:,}, {kind}{weights}",
        "dropped": f"{found.loops:,} loops, {found.repeated:,} repeated edges",
        "components": f"{found.components:,}, the largest with {found.largest_component:,} nodes",
        "neighbours": f"{found.mean_degree:.1f} on average, at most {found.largest_degree:,}; "
        f"{found.isolated:,} isolated nodes",
        "duplicate nodes": f"{found.duplicates:,}",
        "features": features,
        "classes" if found.target == "class" else "diagnosed groups": f"{len(classes)}: {shown}",
        "homophily": f"edges {_share(found.edge_homophily)}, nodes {_share(found.node_homophily)}, "
        f"adjusted for class sizes {_share(found.adjusted_homophily)}",
        "simple accuracy": f"from labelled neighbours {_share(found.neighbours_tell)}, from a "
        f"linear model of the features {_share(found.features_tell)}",
    }


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
