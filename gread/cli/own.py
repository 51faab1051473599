"""Commands for a user's own graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gread.cli.console import Json, err, out, print_json
from gread.diagnosis import Diagnosis
from gread.diagnosis import diagnose as diagnose_graph
from gread.tables import choose_features, read_graph, read_labels

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
        from gread.figures import portrait  # with matplotlib

        figure = portrait(found.degrees, found.classes, found.mixing, title=nodes.name)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / "diagnosis.png")
        err.print(f"Wrote {folder / 'diagnosis.png'}", highlight=False, soft_wrap=True)


def print_diagnosis(found: Diagnosis) -> None:
    """The numbers in two columns, what to be careful about, and where to begin."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for subject, text in _rows(found).items():
        table.add_row(subject, text)
    out.print(table, highlight=False)
    for warning in found.warnings:
        out.print(f"! {warning}", style="yellow", highlight=False, markup=False)
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
    }


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
