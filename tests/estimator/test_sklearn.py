"""scikit-learn tools on the nodes of a graph."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from gread import GraphClassifier, GraphRegressor
from gread.base.errors import InputError

SMALL = {"epochs": 3, "hidden_channels": 4}
NODES = np.arange(0, 150, 2)


@pytest.fixture(scope="module")
def y(data):
    return np.array(["blue", "green", "red"])[data.y.numpy()]


@pytest.fixture
def classifier(data):
    return GraphClassifier("gcn", settings=SMALL, graph=data)


def test_cross_val_score_equals_a_manual_loop_over_folds(classifier, y):
    found = cross_val_score(classifier, NODES, y[NODES], cv=3)
    byhand = []
    for train, test in StratifiedKFold(3).split(NODES, y[NODES]):
        one = clone(classifier).fit(NODES[train], y[NODES[train]])
        byhand.append((one.predict(NODES[test]) == y[NODES[test]]).mean())
    assert found.tolist() == pytest.approx(byhand)


def test_cross_validation_of_numbers_uses_r2(data):
    y = 50 + 20 * data.y.numpy() + 5 * data.x[:, 0].numpy()
    regressor = GraphRegressor("mlp", settings=SMALL, graph=data)
    byhand = []
    for train, test in KFold(3).split(NODES):
        one = clone(regressor).fit(NODES[train], y[NODES[train]])
        byhand.append(r2_score(y[NODES[test]], one.predict(NODES[test])))
    for scoring in ("r2", None):
        found = cross_val_score(regressor, NODES, y[NODES], cv=3, scoring=scoring)
        assert found.tolist() == pytest.approx(byhand)


def test_cross_validation_of_labels_uses_micro_f1(data):
    y = (data.x[:, :2].numpy() > 0).astype(int)
    classifier = GraphClassifier("mlp", settings=SMALL, graph=data)
    byhand = []
    for train, test in KFold(3).split(NODES):
        one = clone(classifier).fit(NODES[train], y[NODES[train]])
        byhand.append(f1_score(y[NODES[test]], one.predict(NODES[test]), average="micro"))
    for scoring in ("f1_micro", None):
        found = cross_val_score(classifier, NODES, y[NODES], cv=3, scoring=scoring)
        assert found.tolist() == pytest.approx(byhand)


def test_rare_class_gets_metric_and_threshold_without_test_nodes(data):
    y = np.zeros(150, dtype=int)
    y[::15] = 1
    classifier = GraphClassifier("mlp", settings=SMALL, graph=data).fit(np.arange(150), y)
    assert classifier.task_.metric == "average-precision"
    (threshold,) = classifier.thresholds_[0]
    expected = classifier.predict_proba([3, 15])[:, 1] >= threshold
    np.testing.assert_array_equal(classifier.predict([3, 15]), expected)


def test_held_out_nodes_have_no_class_in_training(classifier, data, y):
    """Classes of nodes outside X are unknown, even if the graph has them."""
    fitted = classifier.fit(NODES[:40], y[NODES[:40]])
    known = set((fitted.data_.y >= 0).nonzero().squeeze(1).tolist())
    assert known == set(NODES[:40].tolist())
    assert not fitted.data_.test_mask.any()
    other = data.clone()
    other.y = data.y.flip(0)
    again = clone(classifier).set_params(graph=other).fit(NODES[:40], y[NODES[:40]])
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())


def test_a_grid_search_selects_among_models(classifier, y):
    search = GridSearchCV(classifier, {"model": ["gcn", "mlp"]}, cv=2).fit(NODES, y[NODES])
    assert search.best_params_["model"] in ("gcn", "mlp")
    assert search.predict(NODES[:3]).shape == (3,)
    assert set(search.classes_) == {"blue", "green", "red"}


def test_a_pipeline_ends_with_a_classifier_of_nodes(classifier, y):
    pipeline = make_pipeline(FunctionTransformer(), classifier)
    found = cross_val_predict(pipeline, NODES[:, None], y[NODES], cv=2, method="predict_proba")
    assert found.sum(axis=1) == pytest.approx(1)


def test_a_pipeline_scales_features_of_all_nodes(data, y):
    pipeline = make_pipeline(StandardScaler(), GraphClassifier(settings=SMALL))
    x, edges = data.x.numpy(), data.edge_index.numpy()
    pipeline.fit(x, y, graphclassifier__edges=edges)
    assert pipeline.predict(x, edges=edges).shape == (150,)


def test_clones_share_the_graph(classifier, data):
    copy = clone(classifier)
    assert copy.graph is data
    assert copy.get_params() == classifier.get_params()
    assert copy.settings is not classifier.settings


def test_prediction_rows_follow_the_given_node_numbers(classifier, y, tmp_path):
    fitted = classifier.fit(NODES, y[NODES])
    np.testing.assert_array_equal(fitted.predict_proba([7, 3]), fitted.predict_proba()[[7, 3]])
    scored = fitted.score([7, 3], y[[7, 3]])
    assert scored == (fitted.predict([7, 3]) == y[[7, 3]]).mean()
    with pytest.raises(InputError, match="X must name nodes to score"):
        fitted.score()
    loaded = GraphClassifier.load(fitted.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict_proba(), fitted.predict_proba())


def test_target_column_is_rejected_as_a_feature(table_graph):
    labelled = np.array([k for k in range(150) if k % 10])
    topic = np.array(table_graph.table()["topic"].cells(), dtype=object)
    classifier = GraphClassifier("mlp", settings=SMALL, graph=table_graph)
    with pytest.raises(InputError, match="must not name the column to predict, got 'topic'"):
        classifier.fit(labelled, topic[labelled])
    number = np.array(table_graph.table()["x3"].cells())
    with pytest.raises(InputError, match="must not name the column to predict, got 'x3'"):
        GraphRegressor("mlp", settings=SMALL, graph=table_graph).fit(labelled, number[labelled])
    classifier.set_params(features=[f"x{k}" for k in range(12)])
    assert classifier.fit(labelled, topic[labelled]).predict([0]).shape == (1,)


@pytest.mark.parametrize(
    ("X", "options", "sentence"),
    [
        ([0.5, 1.5], {}, r"X must be whole numbers of nodes \[n\] or \[n, 1\]"),
        ([[1, 2], [3, 4]], {}, r"got int64 \[2, 2\]"),
        ([0, 150], {}, "X must name nodes 0 to 149, got node 150"),
        ([-1, 0], {}, "X must name nodes 0 to 149, got node -1"),
        ([0, 1], {"split": [0, 1]}, "edges and split must be omitted"),
        ([0, 1], {}, "to train, to validate, got 2 train, 0 validation"),
    ],
)
def test_invalid_node_numbers_raise_input_error(classifier, X, options, sentence):
    with pytest.raises(InputError, match=sentence):
        classifier.fit(X, ["a", "b"][: len(X)], **options)


@pytest.mark.parametrize("y", [None, ["a"]])
def test_fit_requires_a_class_for_every_given_node(classifier, y):
    with pytest.raises(InputError, match=r"y must be|there must be a value for each of 3 nodes"):
        classifier.fit([1, 2, 3], y)
