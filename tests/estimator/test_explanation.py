"""Explanations of predictions."""

import numpy as np
import pytest
import torch

import gread
from gread import GraphClassifier
from gread.base.errors import InputError
from gread.estimator import explanation
from gread.estimator.automatic import Blend, Member
from gread.estimator.candidates import Candidate, built
from gread.models.catalog import MODELS
from tests.estimator.conftest import FAST


@pytest.fixture(scope="module")
def told():
    """Homophilous graph in which only feature 0 determines the class."""
    data = gread.csbm(60, 2, homophily=0.9, degree=4, num_features=4, mean=0.0, seed=1)
    data.x[:, 0] += 6 * data.y - 3
    return data


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(explanation, "EPOCHS", 40)


def test_feature_that_determines_the_class_ranks_first(told):
    settings = {"epochs": 60, "hidden_channels": 8, "input_dropout": 0.0}
    classifier = GraphClassifier("gcn", settings=settings).fit(told)
    found = classifier.explain(3, most=4)
    assert found.features[0][0] == "x[0]"
    assert found.prediction == classifier.predict()[3]
    assert found.probability == classifier.predict_proba()[3].max()
    weights = [weight for *_, weight in found.edges]
    assert weights == sorted(weights, reverse=True)
    assert all(0 <= weight <= 1 for weight in weights)


def test_explanation_lists_ten_distinct_edges_of_the_graph(fitted):
    found = fitted.explain(7)
    pairs = [frozenset(pair[:2]) for pair in found.edges]
    assert len(found.edges) == 10 == len(set(pairs))
    known = {frozenset(pair) for pair in fitted.data_.edge_index.T.tolist()}
    assert set(pairs) <= known


def test_explanation_is_deterministic_and_has_no_side_effects(fitted):
    before, drawn = fitted.predict_proba(), torch.get_rng_state()
    assert fitted.explain(7) == fitted.explain(7)
    np.testing.assert_array_equal(fitted.predict_proba(), before)
    assert torch.equal(torch.get_rng_state(), drawn)


def test_explanation_shows_node_ids_and_column_names(table_graph):
    classifier = GraphClassifier("gcn", settings=FAST, directed=True).fit(table_graph, "topic")
    found = classifier.explain("n7", most=3)
    assert found.node == "n7"
    assert {name for name, _ in found.features} <= {f"x{k}" for k in range(12)}
    assert all(str(end).startswith("n") for pair in found.edges for end in pair[:2])
    text = str(found)
    assert text.startswith(f"n7 is predicted as {found.prediction} with probability 0.")
    assert len(text.split("\n")) == 1 + len(found.edges) + len(found.features)
    page = found._repr_html_()
    assert page.count("<tr>") == 2 + len(found.edges) + len(found.features)


def test_html_explanation_escapes_user_text(fitted):
    from dataclasses import replace

    page = replace(fitted.explain(7, most=1), node="<b>", features=(("<i>", 0.5),))._repr_html_()
    assert "<b>" not in page and "<i>" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_explained(data, name, monkeypatch):
    monkeypatch.setattr(explanation, "EPOCHS", 5)
    settings = {"epochs": 1, "hidden_channels": 8}
    if "time" in MODELS[name].hyperparameters:
        settings["time"] = 0.1
    classifier = GraphClassifier(name, settings=settings).fit(data)
    before = classifier.predict_proba()
    found = classifier.explain(7)
    assert found.model == MODELS[name].title
    assert found.features
    np.testing.assert_array_equal(classifier.predict_proba(), before)


def test_mlp_explanation_contains_features_but_no_edges(data):
    found = GraphClassifier("mlp", settings=FAST).fit(data).explain(7)
    assert found.edges == ()
    assert len(found.features) == 10


def blend_of(data, *candidates):
    classifier = GraphClassifier("auto").prepare(data)
    members = [
        Member(
            one, weight, weight, weight, None if "label" in one.model else built(one, 12, 3, 150)
        )
        for weight, one in enumerate(candidates, start=1)
    ]
    classifier.blend_ = Blend(members, classifier.task_, (1.0, 1.0, 1.0))
    classifier.thresholds_ = None, None, None
    classifier.settings_, classifier.config_ = {}, classifier.config()
    return classifier


def test_blend_explanation_uses_the_network_with_the_largest_weight(data):
    small = {"hidden_channels": 8, "num_steps": 1}
    some = Candidate("MLP", "mlp"), Candidate("GREAD-X", "gread-x", small)
    found = blend_of(data, *some, Candidate("Label propagation", "label-propagation")).explain(7)
    assert found.model == "GREAD-X, the strongest trained model of the blend"
    assert found.edges


def test_explaining_a_blend_without_networks_raises_input_error(data):
    classifier = blend_of(data, Candidate("Label propagation", "label-propagation"))
    with pytest.raises(InputError, match="must contain a network or trees to be explained"):
        classifier.explain(7)


def test_explain_rejects_unknown_nodes_and_invalid_most(fitted):
    with pytest.raises(InputError, match="node must be the id of a node of the training graph"):
        fitted.explain("n7")
    with pytest.raises(InputError, match="most must be a whole number of at least 1"):
        fitted.explain(7, most=0)
