import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, roc_auc_score

from gread.estimator.scores import score


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_equal_those_of_scikit_learn(classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 200)
    p = rng.dirichlet(np.ones(classes), 200)
    found = score(y, p)
    predicted = p.argmax(axis=1)
    assert found.accuracy == pytest.approx(accuracy_score(y, predicted))
    assert found.macro_f1 == pytest.approx(f1_score(y, predicted, average="macro"))
    expected = roc_auc_score(y, p[:, 1] if classes == 2 else p, multi_class="ovr")
    assert found.roc_auc == pytest.approx(expected)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(y, predicted))
    assert sum(size for _, _, size in found.bins) == found.nodes == 200


def test_calibrated_probabilities_have_a_low_calibration_error():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20000)
    y = (rng.uniform(size=20000) < p).astype(np.int64)
    assert score(y, np.stack([1 - p, p], axis=1)).calibration_error < 0.02
    sure = np.tile([0.001, 0.999], (20000, 1))
    assert score(y, sure).calibration_error == pytest.approx(0.999 - y.mean(), abs=1e-6)


def test_roc_auc_is_none_for_a_single_class():
    found = score(np.zeros(3, dtype=np.int64), np.full((3, 2), 0.5))
    assert found.roc_auc is None
    assert found.confusion == ((3, 0), (0, 0))
