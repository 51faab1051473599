import numpy as np
import pytest
import torch

from gread import GraphClassifier
from gread.estimator.comparison import BASELINES, advice, compare, verdict
from gread.estimator.scores import score
from tests.estimator.conftest import FAST


def test_the_same_test_nodes_are_predicted_by_simpler_means(fitted):
    found = compare(fitted)
    assert list(found) == ["GREAD-BS", *BASELINES]
    assert {scores.nodes for scores in found.values()} == {int(fitted.data_.test_mask.sum())}
    assert found["GREAD-BS"] == fitted.scores()


def test_a_baseline_is_not_compared_with_itself(data):
    assert list(compare(GraphClassifier("gcn", settings=FAST).fit(data))) == [
        "GCN",
        "MLP",
        "Label propagation",
    ]


def test_an_mlp_does_not_see_the_graph(fitted):
    other = fitted.like("mlp", {"epochs": 3})
    before = other.predict_proba()
    other.data_ = other.data_.clone()
    other.data_.edge_index = torch.empty(2, 0, dtype=torch.int64)
    assert other.predict_proba() == pytest.approx(before)


def test_label_propagation_follows_edges_alone(data):
    """It beats chance by far on a homophilous graph, whatever the features are."""
    blind = data.clone()
    blind.x = torch.zeros(150, 2)
    classifier = GraphClassifier("mlp", settings={"epochs": 2}).fit(blind)
    found = compare(classifier)
    assert found["Label propagation"].accuracy > found["MLP"].accuracy + 0.2


def right_in(share, nodes=1000):
    """Scores with this accuracy."""
    y = np.zeros(nodes, dtype=np.int64)
    p = np.tile([0.9, 0.1], (nodes, 1))
    p[int(share * nodes) :] = [0.1, 0.9]
    return score(y, p)


@pytest.mark.parametrize(
    ("share", "nodes", "words"),
    [
        (0.9, 1000, "the graph helps"),
        (0.5, 1000, "the graph harms"),
        (0.72, 1000, "do not count on the graph"),
        (0.9, 10, "do not count on the graph"),
    ],
)
def test_the_verdict_is_beside_an_mlp_and_knows_luck(share, nodes, words):
    assert words in verdict("GREAD-BS", right_in(share, nodes), right_in(0.7, nodes))


def test_advice_is_given_where_something_simpler_is_better_than_luck():
    scores = {"GREAD-BS": right_in(0.7), "MLP": right_in(0.4), "GCN": right_in(0.9)}
    assert advice("GREAD-BS", scores).startswith("GCN is 20.0 points better")
    assert advice("GCN", scores) == ""
    assert advice("GREAD-BS", scores | {"GCN": right_in(0.71)}) == ""
