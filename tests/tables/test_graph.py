import networkx
import pytest
import torch

from gread.base.errors import InputError
from gread.tables.column import column
from gread.tables.graph import from_networkx, join, read_graph
from gread.tables.table import Table
from tests.tables.conftest import EDGES, NODES, TABLES, WRITERS, networkx_graph


def table(called="t", /, **columns):
    return Table(called, {key: column(values) for key, values in columns.items()})


def test_features_may_be_in_a_second_file(tmp_path):
    (tmp_path / "n.csv").write_text("id,kind\na,x\nb,y\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    (tmp_path / "x.svm").write_text("0 2:1\n0 0:3\n")
    (tmp_path / "y.svm").write_text("0 2:1\n")
    files = [tmp_path / "n.csv", tmp_path / "x.svm"]
    graph = read_graph(files, tmp_path / "e.csv")
    assert graph.ids == ["a", "b"]
    assert graph.columns["x"].values.toarray().tolist() == [[0, 0, 1], [3, 0, 0]]
    with pytest.raises(InputError, match=r"as many rows as each other, got n\.csv 2, y\.svm 1"):
        read_graph([tmp_path / "n.csv", tmp_path / "y.svm"], tmp_path / "e.csv")
    with pytest.raises(InputError, match=r"must be in one of .* got 'id' in several"):
        read_graph([tmp_path / "n.csv"] * 2, tmp_path / "e.csv")


def test_rows_of_a_matrix_are_its_nodes(tmp_path):
    (tmp_path / "x.svm").write_text("0 2:1\n1 0:3\n")
    (tmp_path / "e.csv").write_text("source,target\n0,1\n")
    graph = read_graph(tmp_path / "x.svm", tmp_path / "e.csv")
    assert (graph.ids, list(graph.columns)) == ([0, 1], ["label", "x"])


@pytest.mark.parametrize("ending", TABLES)
def test_every_format_gives_the_same_graph(ending, tmp_path):
    for name, columns in (("nodes", NODES), ("edges", EDGES)):
        WRITERS[ending](tmp_path / f"{name}.{ending}", columns)
    graph = read_graph(tmp_path / f"nodes.{ending}", tmp_path / f"edges.{ending}", weight="w")
    check_graph(graph)


@pytest.mark.parametrize(
    ("ending", "write"), [("graphml", networkx.write_graphml), ("gml", networkx.write_gml)]
)
def test_graphml_and_gml_files_give_the_same_graph(tmp_path, ending, write):
    written = networkx_graph()
    if ending == "gml":  # its ids are numbers
        written = networkx.convert_node_labels_to_integers(written, label_attribute="name")
        written = networkx.relabel_nodes(written, str)
    write(written, tmp_path / f"graph.{ending}")
    graph = read_graph(tmp_path / f"graph.{ending}", weight="w")
    check_graph(graph, ids=["a", "b", "c", "d"] if ending == "graphml" else [0, 1, 2, 3])
    assert graph.columns["age"].missing.tolist() == [False, True, False, False]
    with pytest.raises(InputError, match="must be omitted"):
        read_graph(tmp_path / f"graph.{ending}", id="name")


def check_graph(graph, ids=("a", "b", "c", "d")):
    assert graph.ids == list(ids)
    assert graph.num_edges == 3
    expected = [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert graph.edge_index.tolist() == expected
    assert graph.edge_weight.tolist() == [1.0, 0.5, 1.0, 2.0, 0.5, 2.0]
    assert graph.columns["score"].values.tolist() == NODES["score"]


def test_self_loops_are_dropped_and_repeated_edges_averaged():
    edges = table(source=[0, 0, 1, 2, 0], target=[1, 1, 0, 2, 2], w=[1.0, 3.0, 4.0, 9.0, 5.0])
    graph = join(table(id=[0, 1, 2]), edges, weight="w")
    assert graph.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert graph.edge_weight.tolist() == [3.0, 5.0, 3.0, 5.0]
    assert (graph.loops, graph.repeated, graph.num_edges) == (1, 1, 2)


def test_a_directed_edge_has_one_direction():
    edges = table(source=[0, 1, 0], target=[1, 2, 1])
    graph = join(table(id=[0, 1, 2]), edges, directed=True)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight is None
    assert (graph.num_edges, graph.repeated) == (2, 1)


@pytest.mark.parametrize(
    "ids", [[3, 1, 2], ["x", "y", "z"], [0.5, 1.5, 2.5], [10**30, 10**31, 10**32], ["1", "02", "ü"]]
)
def test_ids_are_of_any_type(ids):
    graph = join(table(id=ids), table(a=ids[:2], b=ids[1:]))
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_float_edge_ends_match_integer_node_ids():
    graph = join(table(id=[1, 2]), table(source=[1.0], target=[2.0]))
    assert graph.num_edges == 1


@pytest.mark.parametrize(
    ("ids", "ends"), [(["1", "2", "x"], [1, 2]), ([1, 2, 3], ["1", "2"]), (["1", "02"], [1, "02"])]
)
def test_numeric_text_ids_match_integer_ids(ids, ends):
    edges = table(source=[ends[0]], target=[ends[1]])
    assert join(table(id=ids), edges).edge_index.tolist() == [[0, 1], [1, 0]]


def test_networkx_nodes_may_be_tuples():
    graph = from_networkx(networkx.grid_2d_graph(2, 2), "graph", None, False)
    assert graph.ids == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert graph.num_edges == 4


@pytest.mark.parametrize(
    "names", [("source", "target"), ("src", "dst"), ("from", "to"), ("p", "q")]
)
def test_edge_columns_are_found_by_name_or_if_only_two(names):
    edges = table(**dict(zip(names, ([0, 1], [1, 2]), strict=True)))
    assert join(table(node=[0, 1, 2]), edges).num_edges == 2


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "sentence"),
    [
        (
            {"id": [1, 2]},
            {"source": [1, 7, 8], "target": [2, 1, 1]},
            {},
            "every edge must join nodes of nodes.csv, got 2 edges in edges.csv whose 'source' is "
            "none of them: 7, 8",
        ),
        (
            {"id": ["a"]},
            {"source": list("bcdefgb"), "target": ["a"] * 7},
            {},
            "got 7 edges in edges.csv whose 'source' is none of them: 'b', 'c', 'd', 'e', 'f', ...",
        ),
        ({"id": [1, 2, 1]}, {}, {}, "node ids must be unique, got 1 repeated in nodes.csv: 1"),
        ({"id": [1, "1"]}, {}, {}, "ids must be of one type, got int and str in column 'id'"),
        (
            {"id": [1.5, 2]},
            {"source": ["1"], "target": ["x"]},
            {},
            "ids must be of one type, got numbers in column 'id' of nodes.csv and text in "
            "column 'source' of edges.csv",
        ),
        ({"id": [1, None]}, {}, {}, "must hold ids, got none in row 2"),
        ({"id": [[1], [2]]}, {}, {}, "must hold ids, got lists"),
        ({"id": [1.0, float("nan")]}, {}, {}, "must hold ids, got NaN or infinity"),
        ({"id": []}, {}, {}, "nodes.csv must have a node, got no rows"),
        ({"name": [1]}, {}, {}, "id must name the column of the node ids in nodes.csv"),
        ({"id": [1]}, {}, {"id": "idd"}, "nodes.csv has no column 'idd', did you mean 'id'?"),
        ({"id": [1]}, {"a": [1], "b": [1], "c": [1]}, {}, "source and target must name the"),
        ({"id": [1]}, {"a": [1], "b": [1]}, {"source": "c"}, "edges.csv has no column 'c'"),
        ({"id": [1]}, {}, {"weight": "v"}, "edges.csv has no column 'v'"),
        (
            {"id": [1, 2]},
            {"source": [1], "target": [2], "w": ["heavy"]},
            {"weight": "w"},
            "column 'w' of edges.csv must hold numbers, got text, such as 'heavy'",
        ),
        (
            {"id": [1, 2]},
            {"source": [1], "target": [2], "w": [-1]},
            {"weight": "w"},
            "must hold finite weights, zero or above, got -1 in row 1",
        ),
        (
            {"id": [1, 2]},
            {"source": [1, 1], "target": [2, 2], "w": [1, None]},
            {"weight": "w"},
            "must hold finite weights, zero or above, got none in row 2",
        ),
    ],
)
def test_invalid_graph_tables_raise_input_error(nodes, edges, options, sentence):
    edges = edges or {"source": [], "target": []}
    with pytest.raises(InputError) as raised:
        join(table("nodes.csv", **nodes), table("edges.csv", **edges), **options)
    assert sentence in str(raised.value)


def test_node_file_without_edges_raises_input_error(tmp_path):
    with pytest.raises(InputError, match="edges must be given with nodes"):
        read_graph("nodes.csv")


@pytest.mark.parametrize("ending", ["gml", "graphml"])
def test_corrupt_graph_file_raises_a_one_line_error(tmp_path, ending):
    path = tmp_path / f"g.{ending}"
    path.write_text("graph [ node [ id 0 ] edge [ source 0 target 7 ] ] <")
    with pytest.raises(InputError, match="cannot be read as a graph") as raised:
        read_graph(path)
    assert "\n" not in str(raised.value)


def test_graph_without_edges_is_valid():
    graph = join(table(id=[1, 2]), table(source=[], target=[]))
    assert graph.edge_index.shape == (2, 0)
    assert graph.edge_index.dtype == torch.int64
