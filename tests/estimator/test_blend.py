import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from gread.estimator.blend import blend, temperature, tempered

RANDOM = np.random.default_rng(0)
Y = RANDOM.integers(0, 3, 200)


def predictor(skill: float):
    """Random probabilities mixed with the true classes, which have the weight ``skill``."""
    noise = RANDOM.dirichlet(np.ones(3), len(Y))
    return (1 - skill) * noise + skill * np.eye(3)[Y]


def accuracy(p):
    return (float((p.argmax(1) == Y).mean()),)


def test_blend_is_at_least_as_accurate_as_its_best_member():
    for trial in range(10):
        found = [predictor(skill) for skill in RANDOM.uniform(0, 0.5, 4)]
        weights = blend(found, accuracy)
        mixed = sum(w * p for w, p in zip(weights, found, strict=True))
        assert accuracy(mixed) >= max(map(accuracy, found)), trial
        assert sum(weights) == pytest.approx(1)


def test_blend_of_independent_predictors_lowers_log_loss():
    found = [predictor(0.3) for _ in range(8)]
    weights = blend(found, lambda p: (-log_loss(Y, p),))
    mixed = sum(w * p for w, p in zip(weights, found, strict=True))
    assert log_loss(Y, mixed) < min(log_loss(Y, p) for p in found)
    assert sum(w > 0 for w in weights) > 1


@pytest.mark.parametrize("t", [0.5, 1.0, 3.0])
def test_temperature_of_scaled_probabilities_is_recovered(t):
    true = RANDOM.dirichlet(np.ones(3), 20_000)
    y = (true.cumsum(1) > RANDOM.uniform(size=(len(true), 1))).argmax(1)
    scaled = tempered(torch.from_numpy(true), 1 / t).numpy()
    assert temperature(scaled, y) == pytest.approx(t, rel=0.05)


def test_temperature_does_not_change_predicted_classes():
    p = torch.from_numpy(predictor(0.2))
    for t in (0.1, 10.0):
        assert (tempered(p, t).argmax(1) == p.argmax(1)).all()
        assert tempered(p, t).sum(1) == pytest.approx(1)
