import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import gread
from gread.base.errors import InputError
from gread.estimator import diagnosis
from gread.estimator.diagnosis import diagnose, recommend
from gread.tables.column import column
from gread.tables.graph import join
from gread.tables.labels import read_labels
from gread.tables.table import Table


def diagnosed(nodes, edges=((), ()), features=None, **options):
    columns = {name: column(values) for name, values in nodes.items()}
    count = len(nodes["label"])
    table = Table("nodes", {"id": column(list(range(count))), **columns})
    ends = {"source": column(list(edges[0])), "target": column(list(edges[1]))}
    graph = join(table, Table("edges", ends), **options)
    chosen = [name for name in nodes if name != "label"] if features is None else features
    return diagnose(graph, read_labels(graph.table(), "label"), chosen)


def test_diagnosis_statistics_of_a_small_graph():
    # A path 0-1-2, an edge 3-4, and the isolated node 5.
    found = diagnosed(
        {"label": ["a", "a", "b", "b", None, "b"], "x": [1, 2, 3, 4, 5, 6]},
        ([0, 1, 3, 3, 2], [1, 2, 4, 4, 2]),
    )
    assert (found.nodes, found.edges, found.labelled) == (6, 3, 5)
    assert (found.components, found.largest_component, found.isolated) == (3, 3, 1)
    assert (found.loops, found.repeated, found.duplicates) == (1, 1, 0)
    assert found.degrees == (1, 4, 1)
    assert (found.mean_degree, found.largest_degree) == (1, 2)
    assert found.classes == {"a": 2, "b": 3}
    assert found.edge_homophily == 0.5  # over 0-1 and 1-2; node 4 has no class
    assert found.node_homophily == pytest.approx((1 + 0.5 + 0) / 3)
    assert found.mixing == ((2 / 3, 1 / 3), (1.0, 0.0))


def test_without_edges_between_labelled_nodes_homophily_is_unknown():
    found = diagnosed({"label": ["a", "b"], "x": [1, 2]})
    assert found.edge_homophily is found.node_homophily is found.adjusted_homophily is None
    assert "homophily is unknown" in found.recommendation.reason


def test_nodes_with_equal_features_and_neighbours_are_duplicates():
    edges = ([0, 1, 2], [3, 3, 4])
    same = diagnosed({"label": list("ababa"), "x": [7, 7, 7, 0, 0]}, edges)
    assert same.duplicates == 1  # nodes 0 and 1; node 2 has another neighbour
    assert any("test scores are too high" in warning for warning in same.warnings)
    assert diagnosed({"label": list("ababa"), "x": [7, 6, 7, 0, 0]}, edges).duplicates == 0


@pytest.mark.parametrize(
    ("values", "leaks"),
    [
        (["p", "q"] * 50, True),
        ([0, 1] * 50, True),
        ([0.5, 1.5] * 50, True),
        ([k % 2 * 50 + k // 2 for k in range(100)], True),  # a threshold separates the classes
        ([k % 2 - 0.001 * k for k in range(100)], True),
        (["p"] * 100, False),
        (list(range(100)), False),  # unique values do not determine the class
        (["p", "q"] * 40 + ["q", "p"] * 10, False),
    ],
)
def test_columns_that_determine_the_label_are_reported_as_leaks(values, leaks):
    found = diagnosed({"label": ["a", "b"] * 50, "x": values})
    assert [leak.column for leak in found.leaks] == ["x"] * leaks
    assert any("exclude it with --features" in text for text in found.warnings) == leaks


def test_number_with_classes_as_quantiles_is_reported_as_a_leak():
    year = np.random.default_rng(0).integers(1971, 2021, size=2000)
    quintile = np.searchsorted(np.quantile(year, [0.2, 0.4, 0.6, 0.8]), year, side="right")
    noise = np.random.default_rng(1).normal(size=2000)
    found = diagnosed({"label": quintile.tolist(), "year": year, "noise": noise})
    assert [leak.column for leak in found.leaks] == ["year"]


def test_unused_edge_columns_are_reported():
    nodes = Table("nodes", {"id": column([0, 1]), "label": column(["a", "b"])})
    ends = {"source": column([0]), "target": column([1]), "type": column(["friend"])}
    graph = join(nodes, Table("edges", ends))
    found = diagnose(graph, read_labels(graph.table(), "label"), [])
    assert any("Unused columns of the edges: type" in text for text in found.warnings)


def test_nan_error_names_the_row_of_the_table():
    values = [float("nan") if 5 <= k < 12 else float(k) for k in range(50)]
    with pytest.raises(
        InputError, match="in 7 rows, the first in row 6: leave missing cells empty"
    ):
        diagnosed({"label": ["a", "b"] * 25, "x": values})
    rows = np.array(values)[:, None].repeat(2, axis=1)
    with pytest.raises(InputError, match="the first in row 6: replace them"):
        diagnosed({"label": ["a", "b"] * 25, "x": rows})


def test_rare_classes_and_imbalance_add_warnings():
    found = diagnosed({"label": ["a"] * 90 + ["b"] * 3, "x": list(range(93))})
    assert any("1 of 2 classes (b)" in text for text in found.warnings)
    assert any("macro-F1 instead of accuracy" in text for text in found.warnings)


def test_graph_without_features_warns_that_degrees_are_used():
    found = diagnosed({"label": ["a", "b"]}, features=[])
    assert any("number of neighbours is used instead" in text for text in found.warnings)
    assert found.recommendation.adjacency == "original"


@pytest.mark.parametrize(
    ("homophily", "words"),
    [
        (0.8, "mostly share"),
        (0.0, "nearly independent"),
        (-0.3, "mostly differ"),
        (None, "homophily is unknown"),
    ],
)
def test_recommendation_reason_describes_the_homophily(homophily, words):
    begin = recommend(homophily, edges=100, has_features=True)
    assert words in begin.reason
    assert begin.reaction in gread.REACTIONS
    assert begin.adjacency == "soft"
    assert begin.time == (2.0 if homophily == 0.8 else 1.0)


@pytest.mark.parametrize("change", [{"edges": 10**7}, {"has_features": False}])
def test_attention_is_not_recommended_for_large_or_featureless_graphs(change):
    usual = {"edges": 100, "has_features": True}
    begin = recommend(0.5, **(usual | change))
    assert begin.adjacency == "original"
    assert begin.solver == ("euler" if "edges" in change else "rk4")


def test_diagnosis_measures_accuracy_from_neighbours_and_features():
    # A ring of two halves, each of one class: only the four nodes at the borders are ties or
    # errors.
    n = 40
    label = ["a"] * 20 + ["b"] * 20
    ring = (list(range(n)), [(k + 1) % n for k in range(n)])
    found = diagnosed({"label": label, "x": [0.0] * 20 + [1.0] * 20}, ring)
    assert 36 / 40 <= found.neighbours_tell <= 1
    assert found.features_tell == 1
    assert found.recommendation.time == 2.0
    noise = np.random.default_rng(1).normal(size=n)
    blind = diagnosed({"label": label, "x": noise}, ring)
    assert blind.neighbours_tell == found.neighbours_tell
    assert blind.features_tell < 0.8
    assert blind.recommendation.time == 4.0


def test_diagnosis_homophily_equals_the_library_functions():
    data = gread.load("csbm", num_nodes=200, num_classes=3, homophily=0.7, degree=6)
    keep = data.edge_index[0] < data.edge_index[1]
    ends = data.edge_index[:, keep].numpy()
    found = diagnosed({"label": data.y.tolist(), "x": data.x.numpy()}, ends)
    assert found.edge_homophily == pytest.approx(gread.edge_homophily(data.edge_index, data.y))
    assert found.node_homophily == pytest.approx(gread.node_homophily(data.edge_index, data.y))
    adjusted = gread.adjusted_homophily(data.edge_index, data.y)
    assert found.adjusted_homophily == pytest.approx(adjusted)
    np.testing.assert_allclose(np.sum(found.mixing, axis=1), 1)


@pytest.mark.parametrize("different", [2, 5, 40, 10**6])
@pytest.mark.parametrize("told", [False, True])
def test_no_tree_makes_fewer_errors_than_the_bound(different, told):
    """The bound rules out no column that a tree would find."""
    random = np.random.default_rng(different)
    for _ in range(20):
        values = random.integers(different, size=200)
        y = random.integers(3, size=200)
        if told:
            y = np.where(random.random(200) < 0.97, 2 * values // different, y)
        leaves = int(random.integers(2, 7))
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        errors = 200 * (1 - tree.fit(values[:, None], y).score(values[:, None], y))
        bound = diagnosis._fewest_errors(values, y, leaves)
        assert bound <= errors + 1e-9
        assert told or bound > 2  # the bound rules out most columns


def test_nodes_with_different_targets_of_their_edges_are_not_duplicates():
    nodes = {"label": ["a", "b", "a", "b"], "x": [1, 1, 2, 3]}
    assert diagnosed(nodes, ([0, 1], [2, 3]), directed=True).duplicates == 0
    assert diagnosed(nodes, ([0, 1], [2, 2]), directed=True).duplicates == 1
