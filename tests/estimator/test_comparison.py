import numpy as np
import pytest
import torch

from gread import GraphClassifier
from gread.estimator.comparison import BASELINES, advice, compare, verdict
from gread.estimator.scores import score
from tests.estimator.conftest import FAST


def test_baselines_are_scored_on_the_same_test_nodes(fitted):
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


def test_mlp_predictions_do_not_depend_on_edges(fitted):
    other = fitted.like("mlp", {"epochs": 3})
    before = other.predict_proba()
    other.data_ = other.data_.clone()
    other.data_.edge_index = torch.empty(2, 0, dtype=torch.int64)
    assert other.predict_proba() == pytest.approx(before)


def test_label_propagation_beats_mlp_on_constant_features(data):
    """Label propagation is far above chance on a homophilous graph, for any features."""
    blind = data.clone()
    blind.x = torch.zeros(150, 2)
    classifier = GraphClassifier("mlp", settings={"epochs": 2}).fit(blind)
    found = compare(classifier)
    assert found["Label propagation"].accuracy > found["MLP"].accuracy + 0.2


def right_in(share, nodes=1000):
    """Scores with the given accuracy."""
    y = np.zeros(nodes, dtype=np.int64)
    p = np.tile([0.9, 0.1], (nodes, 1))
    p[int(share * nodes) :] = [0.1, 0.9]
    return score(y, p)


@pytest.mark.parametrize(
    ("others", "nodes", "words"),
    [
        ({"GREAD-BS": 0.9}, 1000, "GREAD-BS is 20.0 points better than MLP"),
        ({"GREAD-BS": 0.5, "GCN": 0.9}, 1000, "GCN is 20.0 points better than MLP"),
        ({"GREAD-BS": 0.71, "Label propagation": 0.95}, 1000, "the graph helps"),
        ({"GREAD-BS": 0.5, "GCN": 0.6}, 1000, "MLP, which uses no edges, is 10.0 points better"),
        ({"GREAD-BS": 0.72}, 1000, "the graph makes no significant difference"),
        ({"GREAD-BS": 0.9}, 10, "the graph makes no significant difference"),
    ],
)
def test_verdict_compares_best_models_with_and_without_edges(others, nodes, words):
    shares = {"MLP": 0.7, **others}
    assert words in verdict({name: right_in(share, nodes) for name, share in shares.items()})


def test_verdict_is_empty_without_both_kinds_of_models():
    assert verdict({"MLP": right_in(0.9)}) == verdict({"GCN": right_in(0.9)}) == ""


@pytest.mark.parametrize("weight", [1.0, 0.01, 100.0])
def test_label_propagation_does_not_depend_on_the_unit_of_weights(data, weight):
    """PyG does not normalize given weights."""
    classifier = GraphClassifier("mlp", settings={"epochs": 1}).fit(data)
    plain = BASELINES["Label propagation"](classifier)
    weighted = data.clone()
    weighted.edge_weight = torch.full((data.num_edges,), weight)
    classifier = GraphClassifier("mlp", settings={"epochs": 1}).fit(weighted)
    found = BASELINES["Label propagation"](classifier)
    assert found.confusion == plain.confusion
    assert found.calibration_error == pytest.approx(plain.calibration_error, abs=1e-6)


def test_advice_names_a_significantly_better_baseline():
    scores = {"GREAD-BS": right_in(0.7), "MLP": right_in(0.4), "GCN": right_in(0.9)}
    assert advice("GREAD-BS", scores).startswith("GCN is 20.0 points better")
    assert advice("GCN", scores) == ""
    assert advice("GREAD-BS", scores | {"GCN": right_in(0.71)}) == ""
