import random

import pytest

from gread.base.errors import InputError
from gread.search.selection import RULES, Trial, select
from gread.search.space import Space

SPACE = Space("gread-bs", {"time": {"low": 0.5, "high": 4.0}, "hidden_channels": [8, 64]})


def trial(number, *validation, time=1.0, width=64, decay=0.0, complete=True):
    settings = {"time": time, "hidden_channels": width, "weight_decay": decay}
    return Trial(number, settings, validation, complete, tuple(1 - v for v in validation))


@pytest.fixture
def many():
    numbers = random.Random(0)
    return [
        trial(n, *(numbers.uniform(0.5, 0.9) for _ in range(5)), time=numbers.uniform(0.5, 4.0))
        for n in range(30)
    ]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_selects_the_same_complete_trial_in_any_order(rule, many):
    pruned = trial(30, 1.0, complete=False)
    selected = select([*many, pruned], SPACE, rule)
    assert selected in many
    random.Random(1).shuffle(many)
    assert select(many, SPACE, rule) == selected
    assert select(many[:1], SPACE, rule) == many[0]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_selects_a_setting_with_better_validation(rule):
    poor = [trial(n, 0.5, 0.5, time=4.0) for n in range(9)]
    good = [trial(9 + n, 0.9, 0.9, time=1.0) for n in range(10)]
    assert select(poor + good, SPACE, rule) in good


def test_best_mean_selects_the_earliest_trial_on_ties():
    trials = [trial(0, 0.9, 0.1), trial(1, 0.6, 0.6), trial(2, 0.5, 0.7)]
    assert select(trials, SPACE).number == 1


def test_lowest_loss_rule_decides_between_equal_accuracies():
    settings = {"time": 1.0, "hidden_channels": 8, "weight_decay": 0.0}
    sure, unsure, failed = (
        Trial(n, settings, (0.9, 0.9), losses=losses)
        for n, losses in enumerate([(0.3, 0.3), (0.9, 0.7), (0.1, None)])
    )
    assert select([unsure, failed, sure], SPACE, "lowest-loss") is sure
    assert failed.mean_loss == float("inf")


def test_one_standard_error_rule_selects_the_simplest_comparable_trial():
    best = trial(0, 0.7, 0.9, width=64)  # standard error 0.1
    as_good = [trial(1, 0.71, 0.71, width=8), trial(2, 0.71, 0.71, width=8, decay=0.1)]
    worse = trial(3, 0.6, 0.6, width=8, decay=0.2)
    assert select([best, *as_good, worse], SPACE, "one-standard-error").number == 2
    certain = trial(0, 0.8, 0.8, width=64)
    assert select([certain, *as_good], SPACE, "one-standard-error").number == 0
    assert trial(0, 0.8).standard_error == 0


def test_neighbours_rule_rejects_an_outlier_among_poor_trials():
    poor = [trial(n, 0.5, time=0.5 + n / 100) for n in range(12)]
    good = [trial(20 + n, 0.8, time=3.5 + n / 100) for n in range(12)]
    outlier = trial(40, 0.95, time=0.55)
    assert select([*poor, *good, outlier], SPACE).number == 40
    assert select([*poor, *good, outlier], SPACE, "neighbours") in good


def test_invalid_selections_raise_input_errors():
    with pytest.raises(InputError, match="must have a complete trial to select from, got none"):
        select([trial(0, 0.5, complete=False)], SPACE)
    with pytest.raises(InputError, match="unknown rule 'best', did you mean 'best-mean'"):
        select([trial(0, 0.5)], SPACE, "best")
