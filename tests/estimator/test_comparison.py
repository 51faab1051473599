import pytest
import torch

from gread import GraphClassifier
from gread.estimator import BASELINES, compare
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
