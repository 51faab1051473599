import pytest

from gread import GraphClassifier
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


@pytest.mark.parametrize(("error", "diverged"), [(ArithmeticError, True), (TimeoutError, False)])
def test_diverged_and_unfinished_trials_are_not_counted(first, monkeypatch, error, diverged):
    def fail(self, *given):
        raise error

    monkeypatch.setattr(GraphClassifier, "like", fail)
    told = tune(first, minutes=0.001).tuning_
    assert (told.trials, told.best, told.helped) == (0, None, False)
    assert bool(told.diverged) == diverged
