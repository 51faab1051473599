import numpy as np
import pytest
from rich.console import Console

from gread import GraphClassifier, GraphRegressor
from gread.base.errors import InputError
from gread.estimator.progress import FitProgress
from gread.estimator.tune import tune

SMALL = {"epochs": 2, "hidden_channels": 4}


@pytest.fixture
def first(data):
    return GraphClassifier("gcn", settings=SMALL).fit(data)


def test_tuning_reports_trials_scores_and_changes(first):
    seen = []
    found = tune(first, minutes=0.008, on_trial=lambda count, best: seen.append(count))
    told = found.tuning_
    assert told.trials == len(seen) > 0
    assert told.before == first.fit_.best.val
    assert told.helped == (found is not first) == (told.best > told.before)
    assert bool(told.changed) == told.helped
    for name, (before, now) in told.changed.items():
        assert name not in SMALL  # given settings are kept
        assert before != now
        assert {**found.settings_, **vars(found.config_)}[name] == now


def test_tuning_without_improvement_keeps_the_classifier(first, monkeypatch):
    """Trials with the settings of the classifier do not improve it."""
    monkeypatch.setattr(GraphClassifier, "like", lambda self, *given: first)
    found = tune(first, minutes=0.001)
    assert found is first
    assert found.tuning_.trials > 0
    assert not found.tuning_.helped
    assert found.tuning_.changed == {}


def test_a_loaded_classifier_is_tuned_from_its_validation_metric(first, tmp_path):
    loaded = GraphClassifier.load(first.save(tmp_path / "m"))
    assert tune(loaded, minutes=0.001).tuning_.before == first.fit_.best.val


def test_tuning_of_a_mean_absolute_error_is_in_the_unit_of_the_target(data, monkeypatch):
    numbers = data.clone()
    numbers.y = 500 + 100 * data.y + 30 * data.x[:, 0]
    first = GraphRegressor("gcn", settings=SMALL, metric="mae").fit(numbers)
    monkeypatch.setattr(GraphRegressor, "like", lambda self, *given: first)
    told = tune(first, minutes=0.001).tuning_
    held = first.data_.val_mask.numpy()
    error = np.abs(first.predict() - numbers.y.numpy())[held].mean()
    assert told.before == told.best == pytest.approx(error, rel=1e-5)
    with FitProgress(Console(quiet=True)) as shown:
        shown.begin("training", first)
        shown.advance(first.fit_.best)
        assert shown.now()[0].endswith(f"validation {told.before:.3f}")
        shown.tell(1, first)
        assert shown.now()[0].endswith(f"validation {told.before:.3f}")


def test_a_blend_is_not_tuned():
    with pytest.raises(InputError, match="an estimator of one model, got model 'auto'"):
        tune(GraphClassifier("auto"), minutes=1)


@pytest.mark.parametrize(("error", "diverged"), [(ArithmeticError, True), (TimeoutError, False)])
def test_diverged_and_unfinished_trials_are_not_counted(first, monkeypatch, error, diverged):
    def fail(self, *given):
        raise error

    monkeypatch.setattr(GraphClassifier, "like", fail)
    told = tune(first, minutes=0.001).tuning_
    assert (told.trials, told.best, told.helped) == (0, None, False)
    assert bool(told.diverged) == diverged
