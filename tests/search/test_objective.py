import math

import pytest

from gread.base.errors import InputError
from gread.report.figures import selection
from gread.search.objective import objective_of
from gread.search.report import report
from gread.search.search import search
from gread.search.selection import RULES, Trial, select
from gread.search.space import Space
from gread.search.study import load_study
from gread.training.losses import LOSSES
from gread.training.metrics import METRICS
from tests.search.conftest import TABLE

NLL = Space("gread-bs", TABLE | {"metric": "nll"})


@pytest.mark.parametrize("name", METRICS)
def test_an_objective_has_the_direction_of_its_metric(name):
    targets = METRICS[name].targets[0]
    loss = next(loss for loss, entry in LOSSES.items() if entry.targets == targets)
    found = objective_of({"metric": name, "loss": loss})
    assert found.direction == ("maximize" if METRICS[name].higher_is_better else "minimize")
    better, worse = (0.9, 0.1) if METRICS[name].higher_is_better else (0.1, 0.9)
    assert found.gain(better) > found.gain(worse) > found.gain(found.failed)


def test_summary_shows_accuracy_in_percent_and_nll_as_a_number():
    assert objective_of({}).summary([0.5, 0.7]) == "60.00 ± 10.00"
    assert objective_of({"metric": "nll"}).summary([0.5, 0.7]) == "0.6000 ± 0.1000"
    assert objective_of({"metric": "nll"}).summary([0.5, math.inf]) == "inf ± nan"


def test_a_space_has_one_metric():
    assert Space("gread-bs", TABLE).objective.name == "accuracy"
    losses = {"loss": ["cross-entropy", "binary"]}
    assert Space("gread-bs", TABLE | losses).objective.name == "accuracy"
    several = "trials must be compared by one metric, got accuracy, nll"
    with pytest.raises(InputError, match=several):
        Space("gread-bs", TABLE | {"metric": ["accuracy", "nll"]})
    with pytest.raises(InputError, match="unknown metric 'nl', did you mean 'nll'"):
        Space("gread-bs", TABLE | {"metric": "nl"})


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_selects_the_lowest_value_where_lower_is_better(rule):
    def trial(number, value, time, lr):
        settings = {"time": time, "hidden_channels": 8, "lr": lr}
        return Trial(number, settings, (value, value), losses=(value, value))

    good = [trial(n, 0.2, 1.0, 0.01) for n in range(10)]
    poor = [trial(10 + n, 0.9, 3.0, 0.1) for n in range(9)]
    failed = trial(19, math.inf, 3.0, 0.1)
    assert select([failed, *poor, *good], NLL, rule) in good
    assert failed.standard_error == 0


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_nll_study_selects_the_trial_with_the_lowest_value(find, store, tmp_path, sampler):
    seen = []
    found = find(trials=6, space=NLL, sampler=sampler, batch=2, on_progress=seen.append)
    values = {result.spec.key: result.val for result in store}
    study, plan = load_study("csbm-gread-bs", None, store.path.parent / "studies")
    assert (study.direction.name, plan.objective.name) == ("MINIMIZE", "nll")
    for trial, kept in zip(found, study.trials, strict=True):
        assert trial.validation == tuple(values[key] for key in kept.user_attrs["runs"])
    lowest = min(found, key=lambda trial: trial.mean)
    assert seen[-1].best == select(found, NLL) == lowest
    assert study.best_trial.number == lowest.number
    made = report("csbm-gread-bs", store)
    assert made.selected == lowest
    assert made.best_test == min(made.tests.values(), key=sum)
    path, picture = made.write(tmp_path)
    assert picture.exists()
    text = path.read_text()
    assert f"# mean validation nll {lowest.mean:.4f}\n" in text
    assert "# test nll 0." in text
    assert 'metric = "nll"' in text


def test_pruning_leaves_the_lowest_third_where_lower_is_better(find):
    found = find(trials=9, space=NLL, prune=True, splits=range(9), batch=9)
    first = sorted(trial.validation[0] for trial in found)
    assert all((trial.validation[0] <= first[2]) == (len(trial.validation) > 1) for trial in found)


def test_trial_with_a_failed_run_has_an_infinite_mean_nll(store, tmp_path):
    table = {"epochs": 2, "hidden_channels": 4, "time": [9.0], "solver": ["rk4"], "metric": "nll"}
    options = {"num_nodes": 30, "sigma": 50.0}
    about = {"space": Space("gread-z", table), "splits": [0, 1], "options": options}
    (found,) = search("csbm", "gread-z", trials=1, store=store, **about)
    assert "failed" in [result.status for result in store]
    assert found.mean == math.inf
    made = report("csbm-gread-z", store)
    assert len(made.write(tmp_path)) == 1  # no figure without finite values


def test_figure_marks_the_lowest_value_where_lower_is_better():
    points = {0: (0.9, 0.8), 1: (0.2, 0.3), 2: (0.3, 0.1)}
    figure = selection(points, 1, title="nll", what="nll", higher_is_better=False)
    assert figure.axes[0].get_xlabel() == "mean validation nll"
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[0].endswith("test 0.30")
    assert texts[1].endswith("0.10")
