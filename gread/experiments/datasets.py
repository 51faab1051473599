"""Models and datasets: Tables 1, 3 and 9, from the catalogue and the data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from gread.data.load import load
from gread.data.rows import dataset_row
from gread.experiments.artefact import ARTEFACTS, Artefact
from gread.experiments.protocol import DATASETS, PROTOCOL, PUBLISHED
from gread.models.catalog import MODELS
from gread.report.tables import TextTable
from gread.runs.result import Result


def render_models(results: Sequence[Result]) -> TextTable:
    """Table 1, with the entries of our catalogue for the same models."""
    entries = {entry.title: entry for entry in MODELS.values()} | {"GREAD": MODELS["gread-bs"]}
    rows = []
    for name, paper in PUBLISHED["comparison"].items():
        ours = {True: "yes", False: "no"}[entries[name].continuous]
        rows.append((name, *paper.values(), ours, entries[name].group))
    return TextTable.of(
        "Table 1: diffusion, reaction and continuous time",
        ("model", "diffusion", "reaction", "continuous time", "– here", "group"),
        rows,
        "The first three columns are the paper's; ‘in part’ means one specific type of reaction. "
        "Models marked as continuous here have `evolve`, which returns states over time.",
    )


def render_statistics(results: Sequence[Result]) -> TextTable:
    """Table 3: our numbers above the paper's; numbers of the paper that differ are marked."""
    rows = []
    for name in DATASETS:
        row = dataset_row(name, named=True)
        rows.append((row.title, *row.counts()[:-1]))
        rows.append(("– paper", *row.paper_counts()))
    columns = ["dataset", "nodes", "edges", "edges with loops", "features", "classes"]
    return TextTable.of(
        "Table 3: datasets",
        [*columns, "node homophily", "edge homophily"],
        rows,
        "≠ marks a value of the paper that differs from the data. The paper swaps the classes of "
        "Cora and Citeseer, omits a digit in the features of Chameleon, counts self loops only for "
        "Wisconsin and Film, and defines node homophily but prints edge homophily.",
    )


def render_synthetic(results: Sequence[Result]) -> TextTable:
    """Table 9: degrees of synthetic Cora, means over three graphs of every level."""
    from torch_geometric.utils import degree

    about = PROTOCOL["homophily"]
    rows = []
    sizes = set()
    for level in about["levels"]:
        found = []
        for graph in about["graphs"]:
            data = load(f"syn-cora-h{level}", graph=graph)
            degrees = degree(data.edge_index[0], data.num_nodes)
            found.append([degrees.mean().item(), degrees.max().item(), degrees.min().item()])
            sizes.add((data.num_nodes, data.num_edges))
        measured = map(fmean, zip(*found, strict=True))
        paper = PUBLISHED["synthetic-cora"][f"{float(level):.1f}"]
        cells = [f"{value:.2f}" for pair in zip(measured, paper, strict=True) for value in pair]
        rows.append((f"{float(level):.1f}", *cells))
    columns = ["homophily", "average degree", "– paper", "largest degree", "– paper"]
    return TextTable.of(
        "Table 9: synthetic Cora",
        [*columns, "smallest degree", "– paper"],
        rows,
        "Means over the three graphs per level. "
        + " or ".join(f"{nodes} nodes and {edges} edges" for nodes, edges in sorted(sizes))
        + " each; the paper's caption has 1480 nodes and 5936 edges.",
    )


for _name, _render in (
    ("table-1", render_models),
    ("table-3", render_statistics),
    ("table-9", render_synthetic),
):
    ARTEFACTS.add(_name, Artefact(list, _render))
