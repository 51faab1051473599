"""Measures of a graph before training, and the settings that they recommend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, coo_matrix, issparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.utils import degree, scatter, to_scipy_sparse_matrix

from gread.graph.measures import adjusted_homophily, edge_homophily, node_homophily
from gread.tables.column import Column
from gread.tables.features import Preprocessing, some
from gread.tables.graph import TableGraph
from gread.tables.labels import Labels
from gread.tables.table import Table

MANY_EDGES = 500_000  # above this, attention and small steps take too long
RARE = 10  # results of a class with fewer nodes are unreliable
SEEN = 5000  # maximum number of labelled nodes for `features_tell`
LEAD = 0.15  # `neighbours_tell` − `features_tell` above which a large T is recommended
LEAK = 0.99  # a column that predicts the class of this share of the nodes leaks the label
GLANCE = 1000  # sample of labelled nodes that rules out most columns as leaks


@dataclass(frozen=True)
class Recommendation:
    """Recommended arguments of `gread.GREAD`, with the reason as one sentence."""

    reaction: str
    adjacency: str
    time: float
    solver: str
    reason: str


@dataclass(frozen=True)
class Leak:
    """A column that predicts the class, with the share of labelled nodes for which it is right."""

    column: str
    right: float


@dataclass(frozen=True)
class Diagnosis:
    """Measures of a graph with classes on some or all nodes.

    Attributes:
        nodes, edges: Numbers of nodes and edges; an undirected edge counts once.
        labelled, classes: Number of nodes with a class, in total and by class.
        degrees: Numbers of nodes with 0, 1, 2 to 3, 4 to 7, ... neighbours.
        loops, repeated: Numbers of self loops and of repeated edges; both are dropped.
        duplicates: Nodes with the same values and neighbours as an earlier node.
        node_homophily, edge_homophily, adjusted_homophily: See the functions of `gread`. These and
            `neighbours_tell` use only edges between labelled nodes; None without any.
        mixing: One row per class: the share of each class among its neighbours, from the same
            edges; 0 without any.
        neighbours_tell: Accuracy of the most common class among labelled neighbours.
        features_tell: Accuracy of a linear model of the features in two-fold cross-validation on
            labelled nodes, at most 5,000; None if unknown.
        leaks: Columns that predict the class almost exactly.
        warnings: Problems in the data, one sentence each.
        encodings: Encodings of columns as features, one line each.
        unused: Columns of the edges that are not used.
        target: Kind of target, in words. Numbers are diagnosed with fifths of the nodes as
            classes, several labels with the label whose share of the nodes is closest to 1/2.
        notes: Automatic choices, one sentence each.
    """

    nodes: int
    edges: int
    directed: bool
    weighted: bool
    features: tuple[str, ...]
    labelled: int
    classes: Mapping[str, int]
    components: int
    largest_component: int
    degrees: tuple[int, ...]
    mean_degree: float
    largest_degree: int
    isolated: int
    loops: int
    repeated: int
    duplicates: int
    node_homophily: float | None
    edge_homophily: float | None
    adjusted_homophily: float | None
    mixing: tuple[tuple[float, ...], ...]
    neighbours_tell: float | None
    features_tell: float | None
    leaks: tuple[Leak, ...]
    recommendation: Recommendation
    warnings: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    target: str = "class"
    notes: tuple[str, ...] = ()

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Diagnosis:
        """Restore a diagnosis from ``dataclasses.asdict``, also after a round trip through JSON."""
        known: dict[str, Any] = dict(values)
        known |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        known["mixing"] = tuple(tuple(row) for row in values["mixing"])
        known["leaks"] = tuple(Leak(**leak) for leak in values["leaks"])
        known["recommendation"] = Recommendation(**values["recommendation"])
        return Diagnosis(**known)


def diagnose(
    graph: TableGraph,
    labels: Labels,
    features: Sequence[str],
    preprocessing: Preprocessing | None = None,
) -> Diagnosis:
    """Measure a graph.

    Args:
        graph: Graph with columns.
        labels: Classes of the nodes; test nodes must be unlabelled here.
        features: Columns to use as features.
        preprocessing: Encoding of these columns; fitted to the labelled nodes by default.

    Example:
        >>> from gread.tables import Table, column, join, read_labels
        >>> nodes = Table("nodes", {"id": column([0, 1, 2, 3]), "kind": column(list("abab"))})
        >>> edges = Table("edges", {"source": column([0, 1, 2]), "target": column([1, 2, 3])})
        >>> graph = join(nodes, edges)
        >>> diagnose(graph, read_labels(graph.table(), "kind"), []).edge_homophily
        0.0
    """
    if preprocessing is None:
        preprocessing = Preprocessing.fit(graph.table(), features, np.flatnonzero(labels.known))
    y = torch.from_numpy(labels.y)
    n = graph.num_nodes
    neighbours = degree(graph.edge_index[0], n, dtype=torch.int64)
    if graph.directed:
        neighbours = neighbours + degree(graph.edge_index[1], n, dtype=torch.int64)
    matrix = to_scipy_sparse_matrix(graph.edge_index, num_nodes=n)
    parts = np.bincount(connected_components(matrix, directed=False)[1])
    classes = len(labels.classes)
    sizes = np.bincount(labels.y[labels.known], minlength=classes).tolist()
    edge_index = graph.edge_index[:, (y[graph.edge_index] >= 0).all(dim=0)]
    homophily = _number(adjusted_homophily, edge_index, y)
    neighbours_tell = _neighbours_tell(edge_index, y, classes)
    features_tell = _features_tell(graph.table(), preprocessing, labels) if features else None
    leaks = (_leak(name, graph.columns[name], labels) for name in features)
    lead = (neighbours_tell or 0.0) - (features_tell or 0.0)
    found = Diagnosis(
        nodes=n,
        edges=graph.num_edges,
        directed=graph.directed,
        weighted=graph.edge_weight is not None,
        features=tuple(features),
        labelled=int((y >= 0).sum()),
        classes=dict(zip(map(str, labels.classes), sizes, strict=True)),
        components=len(parts),
        largest_component=int(parts.max()),
        degrees=_histogram(neighbours),
        mean_degree=neighbours.double().mean().item(),
        largest_degree=int(neighbours.max()),
        isolated=int((neighbours == 0).sum()),
        loops=graph.loops,
        repeated=graph.repeated,
        duplicates=_duplicates(graph, features),
        node_homophily=_number(node_homophily, edge_index, y),
        edge_homophily=_number(edge_homophily, edge_index, y),
        adjusted_homophily=homophily,
        mixing=_mixing(edge_index, y, classes),
        neighbours_tell=neighbours_tell,
        features_tell=features_tell,
        leaks=tuple(leak for leak in leaks if leak is not None),
        recommendation=recommend(
            homophily, edges=graph.edge_index.size(1), has_features=bool(features), lead=lead
        ),
        encodings=tuple(preprocessing.about()) if features else (),
        unused=graph.unused,
    )
    return replace(found, warnings=tuple(_warnings(found)))


def recommend(
    homophily: float | None, *, edges: int, has_features: bool, lead: float = 0.0
) -> Recommendation:
    """Recommend settings, by rules from validation accuracies on the graphs of the paper.

    See docs/own-graph.md for the numbers.

    Args:
        homophily: See `gread.adjusted_homophily`; None if unknown.
        edges: Entries of the adjacency matrix.
        has_features: Whether nodes have features.
        lead: ``neighbours_tell`` − ``features_tell`` of a `Diagnosis`.
    """
    time = 1.0
    if homophily is None:
        reason = "no edge joins two labelled nodes, so the homophily is unknown"
    elif homophily > 0.3 and lead > LEAD:
        reason = "neighbours mostly share a class and predict it better than the features"
        reason, time = f"{reason}, so a large T helps", 4.0
    elif homophily > 0.3:
        reason, time = "neighbours mostly share a class, so a larger T helps", 2.0
    elif homophily < -0.05:
        reason = "neighbours mostly differ in class, so a small T is safer"
    else:
        reason = "edges are nearly independent of the class, so a small T is safer"
    if not has_features:
        adjacency, why = "original", "attention needs features"
    elif edges > MANY_EDGES:
        adjacency = "original"
        why = "on this many edges, attention and higher-order steps cost several times as much"
    else:
        adjacency, why = "soft", "attention learns a weight for every neighbour"
    reaction = (
        "blurring-sharpening is at most 1.4 points of validation accuracy behind the best "
        "reaction on each of the nine graphs of the paper"
    )
    solver = "euler" if edges > MANY_EDGES else "rk4"
    return Recommendation("bs", adjacency, time, solver, f"{reason}; {reaction}; {why}")


def _warnings(found: Diagnosis) -> Iterator[str]:
    """Problems in the data, one sentence each."""
    for leak in found.leaks:
        yield (
            f"Column {leak.column!r} alone predicts the class of {leak.right:.1%} of the labelled "
            "nodes: exclude it with --features if it is unknown for new nodes."
        )
    homophily, sizes = found.adjusted_homophily, found.classes
    if homophily is not None and abs(homophily) < 0.05:
        yield "Edges are nearly independent of the class: compare with an MLP to see if they help."
    rare = [name for name, size in sizes.items() if size < RARE]
    if rare:
        yield (
            f"Fewer than {RARE} labelled nodes in {len(rare)} of {len(sizes)} classes "
            f"({', '.join(rare[:5])}{', ...' if len(rare) > 5 else ''}): per-class results will be "
            "unreliable."
        )
    least, most = min(sizes.values()), max(sizes.values())
    if least * 5 < most:
        yield (
            f"The largest class has {most} nodes and the smallest {least}: compare models by "
            "macro-F1 instead of accuracy, and try balanced class weights."
        )
    if found.isolated * 10 > found.nodes:
        share = found.isolated / found.nodes
        yield f"{share:.0%} of the nodes have no neighbours, so edges add nothing for them."
    if found.duplicates:
        yield (
            f"{found.duplicates} nodes have the same values and neighbours as another node: test "
            "scores are too high if one of the two is a training node."
        )
    if found.unused:
        weights = "" if found.weighted else "--weight COLUMN uses one as weights, "
        types = "--edge-type COLUMN uses one as types"
        yield f"Unused columns of the edges: {some(found.unused, 6)} ({weights}{types})."
    if not found.features:
        yield "There are no features: the number of neighbours is used instead."


def _histogram(neighbours: Tensor) -> tuple[int, ...]:
    """Numbers of nodes with 0, 1, 2 to 3, 4 to 7, ... neighbours."""
    exponent = torch.where(neighbours > 0, (neighbours + 0.5).log2().floor() + 1, 0).long()
    return tuple(exponent.bincount().tolist())


def _duplicates(graph: TableGraph, features: Sequence[str]) -> int:
    """Number of nodes with the same columns and neighbours as an earlier node."""
    if not features:
        return 0  # otherwise all isolated nodes would be duplicates
    generator = torch.Generator().manual_seed(0)
    code = torch.randint(-(2**62), 2**62, (graph.num_nodes,), generator=generator)
    total = np.zeros(graph.num_nodes, dtype=np.uint64)
    for source, target in (graph.edge_index, graph.edge_index.flip(0))[: 1 + graph.directed]:
        around = scatter(code[source], target, dim_size=graph.num_nodes, reduce="sum")
        total = _mixed(total + around.numpy().astype(np.uint64))
    for number, name in enumerate(features):
        total += _codes(graph.columns[name], number)  # modulo 2⁶⁴
    return graph.num_nodes - len(np.unique(total))


def _codes(column: Column, number: int) -> NDArray[np.uint64]:
    """Hash of each row; 0 for numbers that are 0."""
    key = np.uint64(number << 32)
    if column.kind == "vector" or column.numeric:
        if column.sparse:
            entries = coo_array(column.values)
            rows, places, data = entries.row, entries.col, entries.data.astype(np.float64)
        else:
            dense = np.asarray(column.values, dtype=np.float64).reshape(len(column), -1)
            rows, places = np.nonzero(dense)
            data = dense[rows, places]
        bits = data.view(np.uint64)
        codes = np.zeros(len(column), dtype=np.uint64)
        np.add.at(codes, rows, _mixed(bits ^ _mixed(key + places.astype(np.uint64) + np.uint64(1))))
    else:
        codes = np.array([hash(value) & (2**64 - 1) for value in column.values], dtype=np.uint64)
        codes = _mixed(codes ^ _mixed(key + np.zeros(1, dtype=np.uint64)))
    return np.where(column.missing, _mixed(key + np.full(1, 7, dtype=np.uint64)), codes)


def _mixed(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each code: the finalizer of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        codes = (codes ^ (codes >> np.uint64(shift))) * np.uint64(factor)
    return codes ^ (codes >> np.uint64(31))


def _leak(name: str, column: Column, labels: Labels) -> Leak | None:
    """Detect a column that predicts the class by its values or by thresholds of a number.

    The test is a decision tree on this column only, with two leaves per class.
    """
    from sklearn.tree import DecisionTreeClassifier

    known = np.flatnonzero(labels.known)
    if column.kind == "vector" or not len(known):
        return None
    commonest = np.bincount(labels.y[known]).max() / len(known)
    if column.sparse and commonest + column.values.nnz / len(known) < LEAK:
        return None  # most rows have the same value
    rows = known[~column.missing[known]]
    most = 2 * len(labels.classes)
    tree = DecisionTreeClassifier(max_leaf_nodes=max(most, 2), random_state=0)
    for part in (rows[:: max(1, len(rows) // GLANCE)], rows):  # a sample first, which is fast
        cells, y = column[part].dense().values, labels.y[part]
        if not column.numeric:
            values, cells = np.unique(cells.astype(str), return_inverse=True)
            if len(values) > most:
                return None
        if not len(part) or (cells == cells[0]).all():
            return None
        share = len(rows) / len(known)
        if share * (1 - _fewest_errors(cells, y, max(most, 2)) / len(part)) < LEAK:
            return None
        x = np.clip(cells, -1e30, 1e30).reshape(-1, 1)
        right = tree.fit(x, y).score(x, y) * share
        if right < LEAK:
            return None
    return Leak(name, float(right)) if right >= LEAK > commonest else None


def _fewest_errors(values: NDArray[Any], y: NDArray[np.int64], leaves: int) -> float:
    """Lower bound of the errors of a tree of this size on one column; faster than fitting it.

    All rows with one value get the same class, so rows of other classes are errors. A tree predicts
    one class on each of ``leaves`` intervals of values. Each value that does not get its most
    common class is an error, and removes at most two changes of class between adjacent values.
    """
    different, place = np.unique(values, return_inverse=True)
    classes = int(y.max()) + 1
    counts = np.bincount(place * classes + y, minlength=len(different) * classes)
    counts = counts.reshape(len(different), classes)
    changes = np.count_nonzero(np.diff(counts.argmax(axis=1)))
    return max(len(y) - int(counts.max(axis=1).sum()), (changes + 1 - leaves) / 2)


def _mixing(edge_index: Tensor, y: Tensor, classes: int) -> tuple[tuple[float, ...], ...]:
    source, target = edge_index
    counts = (y[target] * classes + y[source]).bincount(minlength=classes**2)
    table = counts.view(classes, classes).double()
    shares = table / table.sum(dim=1, keepdim=True).clamp(min=1)
    return tuple(tuple(row) for row in shares.tolist())


def _neighbours_tell(edge_index: Tensor, y: Tensor, classes: int) -> float | None:
    source, target = edge_index.numpy()
    if not len(target):
        return None
    votes = coo_matrix((np.ones(len(source)), (target, y.numpy()[source])), (len(y), classes))
    asked = np.unique(target)
    most = np.asarray(votes.tocsr().argmax(axis=1)).ravel()
    return float((most[asked] == y.numpy()[asked]).mean())


def _features_tell(table: Table, preprocessing: Preprocessing, labels: Labels) -> float | None:
    from sklearn.linear_model import RidgeClassifier

    rows = np.random.default_rng(0).permutation(np.flatnonzero(labels.known))[:SEEN]
    halves = np.array_split(np.arange(len(rows)), 2)
    y = labels.y[rows]
    if any(len(set(y[half])) < 2 for half in halves):
        return None
    names = preprocessing.encoders
    sample = {name: table.stored(name)[rows] for name in names}
    x = preprocessing.transform(Table(table.name, sample))
    right = 0
    model = RidgeClassifier(solver="lsqr", tol=1e-3) if issparse(x) else RidgeClassifier()
    for seen, others in (halves, halves[::-1]):
        right += (model.fit(x[seen], y[seen]).predict(x[others]) == y[others]).sum()
    return float(right / len(rows))


def _number(measure: Any, edge_index: Tensor, y: Tensor) -> float | None:
    """A measure of the graph; None if it has no edges or the value is not finite."""
    if not edge_index.size(1):
        return None
    value: float = measure(edge_index, y)
    return value if math.isfinite(value) else None
