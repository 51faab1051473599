import tempfile
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.estimator.graphs import as_graph, column_of

EDGES = np.array([[0, 1, 2], [1, 2, 2]])
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def data():
    return Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES))


def frames():
    nodes = pandas.DataFrame({"x0": X[:, 0], "x1": X[:, 1]})
    return nodes, pandas.DataFrame({"source": EDGES[0], "target": EDGES[1]})


def network():
    graph = networkx.Graph()
    for node, (x0, x1) in enumerate(X):
        graph.add_node(node, x0=x0, x1=x1)
    graph.add_edges_from(EDGES.T.tolist())
    return graph


def matrix():
    return scipy.sparse.coo_array((np.ones(3), tuple(EDGES)), shape=(3, 3))


def files():
    """Folder with a file of nodes and a file of edges."""
    folder = Path(tempfile.mkdtemp())
    nodes, edges = frames()
    nodes.rename_axis("id").to_csv(folder / "nodes.csv")
    edges.to_csv(folder / "edges.csv", index=False)
    return folder


FILES = files()
GRAPHS = {
    "data": (data(),),
    "frames": frames(),
    "frame and numbers": (frames()[0], EDGES),
    "networkx": (network(),),
    "sparse matrices": (scipy.sparse.csr_array(X), matrix()),
    "array and frame": (X, frames()[1]),
    "file and numbers": (FILES / "nodes.csv", EDGES),
    "file and frame": (FILES / "nodes.csv", frames()[1]),
    "frame and file": (frames()[0], FILES / "edges.csv"),
    "array and file": (X, str(FILES / "edges.csv")),
    "files": (FILES / "nodes.csv", FILES / "edges.csv"),
    "tensors": (torch.tensor(X), torch.tensor(EDGES)),
}


@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_every_input_format_gives_the_same_graph(given):
    graph = as_graph(*given)
    assert graph.ids == [0, 1, 2]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.loops == 1
    arrays = [found.values for found in graph.columns.values()]
    values = [(a.toarray() if scipy.sparse.issparse(a) else a).reshape(3, -1) for a in arrays]
    np.testing.assert_array_equal(np.concatenate(values, axis=1), X)


def test_unused_edge_attributes_are_listed():
    nodes, edges = frames()
    edges = edges.assign(kind="friend", w=1.0)
    assert as_graph(nodes, edges).unused == ("kind", "w")
    assert as_graph(nodes, edges, weight="w").unused == ("kind",)
    graph = network()
    networkx.set_edge_attributes(graph, "friend", "kind")
    assert as_graph(graph).unused == ("kind",)
    typed = Data(edge_index=torch.tensor(EDGES), num_nodes=3, edge_type=torch.zeros(3))
    assert as_graph(typed).unused == ("edge_type",)


def test_pandas_categoricals_stay_categorical():
    nodes = frames()[0].assign(dorm=pandas.Categorical([3, 1, 3]))
    found = as_graph(nodes, EDGES).columns["dorm"]
    assert (found.kind, found.categorical) == ("whole", True)


def test_edge_weights_are_read_if_present():
    weighted = scipy.sparse.coo_array((np.array([2.0, 3.0, 1.0]), tuple(EDGES)), shape=(3, 3))
    assert as_graph(X, weighted).edge_weight.tolist() == [2, 2, 3, 3]
    assert as_graph(X, matrix()).edge_weight is None
    graph = network()
    networkx.set_edge_attributes(graph, 4.0, "w")
    assert as_graph(graph, weight="w").edge_weight.tolist() == [4] * 4
    with_weights = Data(
        x=torch.tensor(X), edge_index=torch.tensor(EDGES), edge_weight=torch.ones(3)
    )
    assert as_graph(with_weights, directed=True).edge_weight.tolist() == [1, 1]


def test_an_entry_of_a_matrix_is_an_edge_from_row_to_column():
    assert as_graph(X, matrix(), directed=True).edge_index.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("series", "kind", "missing"),
    [
        (pandas.Series([1.0, None]), "number", 1),
        (pandas.Series([1, None], dtype="Int64"), "whole", 1),
        (pandas.Series([True, None], dtype="boolean"), "truth", 1),
        (pandas.Series(["a", None]), "text", 1),
        (pandas.Series(["a", "b"], dtype="category"), "text", 0),
        (pandas.Series([1, 2]), "whole", 0),
        (pandas.to_datetime(pandas.Series(["2020-01-01", None])), "text", 1),
        ([1.5, float("nan")], "number", 1),
        (np.array([1.0, np.nan]), "number", 1),
        (torch.tensor([1, 2]), "whole", 0),
    ],
)
def test_nan_in_python_objects_counts_as_missing(series, kind, missing):
    found = column_of(series)
    assert (found.kind, int(found.missing.sum())) == (kind, missing)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((7,), "a graph must be a PyG Data, a NetworkX graph"),
        ((X,), "edges must be given with these nodes"),
        ((X, np.zeros((3, 3))), r"edges must be node numbers \[2, E\], got \[3, 3\]"),
        ((X, np.array([[0], [7]])), "edges must name nodes 0 to 2, got node 7"),
        ((X, scipy.sparse.identity(4)), r"edges must be a matrix \[3, 3\], got \[4, 4\]"),
        ((X, -matrix()), "edges must have finite weights"),
        ((network(), EDGES), "edges must be omitted"),
        ((data(), EDGES), "edges must be omitted"),
        ((Data(x=torch.tensor(X)),), "data must have edge_index"),
    ],
)
def test_invalid_graphs_raise_input_error(given, sentence):
    with pytest.raises(InputError, match=sentence):
        as_graph(*given)


def test_infinity_in_an_array_is_kept_and_nan_is_missing():
    found = column_of(np.array([1.0, np.nan, np.inf]))
    assert found.missing.tolist() == [False, True, False]
    assert found.unusable().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_weight": torch.tensor([1.0, -1, 1])}, "finite weights, zero or above"),
        ({"edge_weight": torch.ones(2)}, r"a weight for each of 3 edges, got \[2\]"),
        ({"x": torch.eye(3).to_sparse()}, "a tensor must be dense"),
    ],
)
def test_invalid_tensors_of_data_raise_an_error(change, message):
    found = data()
    found.update(change)
    with pytest.raises(InputError, match=message):
        as_graph(found)


@pytest.mark.parametrize("x", [torch.eye(3, requires_grad=True), torch.eye(3).bfloat16()])
def test_features_with_a_gradient_or_in_bfloat16_are_read(x):
    found = as_graph(Data(x=x, edge_index=torch.tensor(EDGES)))
    np.testing.assert_array_equal(found.columns["x"].values, np.eye(3))


def test_columns_of_a_data_frame_must_have_different_names():
    nodes, edges = frames()
    nodes[1], nodes["1"] = 0.0, 1.0
    with pytest.raises(InputError, match="must have different names, got '1' twice"):
        as_graph(nodes, edges)
