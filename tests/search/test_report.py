import sys

import numpy as np
import pytest

from gread.base.errors import InputError
from gread.report.figures import selection
from gread.runs.presets import find_preset
from gread.runs.store import ResultStore
from gread.search.report import merge_preset, preset_table, report
from gread.search.selection import RULES
from gread.search.space import Space
from gread.search.study import load_study

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = "csbm-gread-bs"


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_report_of_a_finished_study_has_test_accuracies(find, store, rule):
    found = find(trials=12, seeds=[0, 1])
    made = report(NAME, store, rule=rule)
    assert made.finished
    assert made.trials == found
    results = {}
    for result in store:
        results.setdefault(result.spec.hyper["time"], []).append(result.test)
    for trial in found:
        assert sorted(made.tests[trial.number]) == sorted(results[trial.settings["time"]])
    assert set(made.importance) == {"time", "lr", "hidden_channels"}
    assert sum(made.importance.values()) == pytest.approx(1)
    if rule == "best-mean":
        assert made.selected == max(found, key=lambda trial: trial.mean)


def test_report_of_an_unfinished_study_has_no_test_accuracies(find, store, tmp_path):
    find(trials=3)
    study, _ = load_study(NAME, None, store.path.parent / "studies")
    study.set_user_attr("trials", 9)  # as during a search for nine trials
    made = report(NAME, store)
    assert (made.finished, made.tests, made.seen) == (False, {}, ())
    assert made.write(tmp_path / "out") == []
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_written_preset_is_loadable_and_documents_its_study(find, store, tmp_path):
    find(trials=3, seeds=[0, 1, 3])
    made = report(NAME, store)
    path, picture = made.write(tmp_path)
    assert path == tmp_path / "tuned" / "gread-bs.toml"
    assert picture.stat().st_size > 10_000
    preset = find_preset("gread-bs", "csbm", str(path))
    settings = {**preset.hyper, "lr": preset.train.lr, "epochs": preset.train.epochs}
    assert settings == made.selected.settings
    assert preset.options == made.plan.options == {"num_nodes": 30}
    assert preset.source == str(path)
    text = path.read_text()
    assert text.startswith("# GREAD-BS: settings found by gread search, selected by validation")
    assert f"# study {NAME}, rule best-mean, sampler random\n" in text
    assert f"# trial {made.selected.number} of 3, 0 of them pruned\n" in text
    assert "# splits 0-1, seeds 0-1,3\n" in text
    assert f"# mean validation accuracy {100 * made.selected.mean:.2f}\n" in text
    assert "# test accuracy " in text
    assert "were seen" not in text


def test_report_records_each_view_of_test_accuracies(find, store, tmp_path):
    find(trials=3)
    assert report(NAME, store).seen == (3,)
    find(trials=5)
    made = report(NAME, store)
    assert made.seen == (3, 5)
    assert "# test accuracy was seen after 3, 5 trials\n" in made.preset()
    assert report(NAME, store).seen == (3, 5)


def test_merge_preset_replaces_only_the_table_of_its_dataset(tmp_path):
    path = tmp_path / "new" / "gread-bs.toml"
    merge_preset(path, "[cora]\n# one\ntime = 1.0\n", "GREAD-BS")
    merge_preset(path, "[texas]\n# two\ntime = 2.0\n", "GREAD-BS")
    merge_preset(path, "[cora]\n# three\ntime = 3.0\n", "GREAD-BS")
    text = path.read_text()
    assert list(tomllib.loads(text).items()) == [("cora", {"time": 3.0}), ("texas", {"time": 2.0})]
    assert text.count("#") == 3
    assert "# two" in text
    assert "# one" not in text
    before = path.read_text()
    merge_preset(path, "[cora]\n# three\ntime = 3.0\n", "GREAD-BS")
    assert path.read_text() == before


def test_preset_of_a_dataset_with_a_dot_in_its_name_is_found(tmp_path):
    path = tmp_path / "gcn.toml"
    for epochs in (1, 2):
        table = preset_table("syn-cora-h0.10", ["by hand"], {"epochs": epochs}, {})
        merge_preset(path, table, "GCN")
    assert find_preset("gcn", "syn-cora-h0.10", str(path)).train.epochs == 2
    assert path.read_text().count("by hand") == 1


@pytest.mark.slow
def test_importance_is_empty_for_few_or_identical_trials(find, store):
    find(trials=4)
    assert report(NAME, store).importance == {}
    same = Space("gread-bs", {"epochs": 1, "time": [1.0], "hidden_channels": 4})
    find(trials=6, study="same", space=same)
    assert report("same", store).importance == {}
    find(trials=6, prune=True, study="pruned", splits=range(9))
    assert report("pruned", store).importance == {}  # only one or two are complete


@pytest.mark.slow
def test_runs_on_another_machine_are_not_needed_for_the_preset(find, store, tmp_path):
    find(trials=3)
    url = f"sqlite:///{tmp_path}/study.sqlite"
    find(trials=3, storage=url)
    here = ResultStore(tmp_path / "empty")
    made = report(NAME, here, storage=url)
    assert made.finished
    assert made.tests == {}
    (path,) = made.write(tmp_path / "out")
    assert "test accuracy" not in path.read_text()


def test_report_of_an_unknown_study_raises_input_error(store):
    with pytest.raises(InputError, match="there is no study 'mine'"):
        report("mine", store)


def test_figure_marks_the_selected_and_the_best_test_setting(tmp_path):
    random = np.random.default_rng(0)
    quality = random.beta(5, 2, 500) * 30
    points = np.stack([55 + quality, 52 + quality], 1) + random.normal(0, 2.0, (500, 2))
    accuracies = {number: tuple(point) for number, point in enumerate(points)}
    selected = int(points[:, 0].argmax())
    figure = selection(accuracies, selected, title="GREAD-BS on texas: 500 settings")
    left, right = figure.axes
    assert left.get_title(loc="left").startswith("all: 500, correlation 0.")
    assert right.get_title(loc="left").startswith("best by validation: 50, correlation ")
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[0] == f"selected by validation: test {points[selected, 1]:.2f}"
    assert texts[1].endswith(f"{points[:, 1].max():.2f}")
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 20_000


def test_figure_of_one_setting_has_no_correlation():
    figure = selection({3: (80.0, 70.0)}, 3, title="one")
    assert figure.axes[0].get_title(loc="left") == "all: 1"
