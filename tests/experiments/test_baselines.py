"""docs/baselines.md agrees with the files, and studies/tune_baselines.py follows it."""

import re
from itertools import islice
from pathlib import Path

import pytest

from gread.experiments.accuracy import summary
from gread.experiments.protocol import GREAD, PUBLISHED, preset_of
from gread.experiments.questions import ARTEFACTS
from gread.runs.archive import ARCHIVES, read_results
from gread.runs.store import ResultStore
from gread.search.search import search
from gread.search.study import StudySettings
from studies.tune_baselines import LARGER, Cell, cell, draws, elsewhere

ROOT = Path(__file__).parents[2]
PLAN = StudySettings("csbm", "mlp", {}, "random", True, [0, 1, 2], [0])
RATES = [{"lr": rate} for rate in (0.1, 0.2, 0.3, 0.4)]


def test_the_page_counts_the_settings_that_are_published_and_those_that_are_not():
    cells = {(spec.model, spec.dataset) for spec in ARTEFACTS["table-8"].specs()}
    sources = [preset_of(*place).source for place in cells if place[0] not in GREAD]
    text = (ROOT / "docs" / "baselines.md").read_text("utf-8")
    said = re.search(r"\| (\d+) of (\d+) \|", text)
    assert [int(number) for number in said.groups()] == [sources.count("published"), len(sources)]
    others = re.search(r"\| (\d+) \| our search, for (\w+) models", text)
    assert int(others[1]) == sources.count("tuned")
    tuned = {model for model, dataset in cells if preset_of(model, dataset).source == "tuned"}
    assert (others[2], len(tuned - {*GREAD})) == ("thirteen", 13)


def test_the_page_names_every_cell_far_from_the_paper_and_no_other():
    tables = ("table-8", "table-4", "table-2")
    runs = [run for name in tables for run in read_results(ARCHIVES / f"{name}.jsonl.xz")]
    ours = summary(result for result in runs if result.spec.model not in GREAD)
    far = {
        (title, dataset): (f"{ours[title][dataset][0]:.2f}", f"{mean:.2f}")
        for title in ours
        for dataset, (mean, deviation) in PUBLISHED["paper"].get(title, {}).items()
        if dataset in ("texas", "chameleon", "cora")
        and abs(ours[title][dataset][0] - mean) > 2 * deviation
    }
    text = (ROOT / "docs" / "baselines.md").read_text("utf-8")
    rows = re.findall(r"^\| (\S+) (texas|chameleon|cora) \| (\S+) \| (\S+) \| .+ \|$", text, re.M)
    assert {(title, dataset): (own, paper) for title, dataset, own, paper in rows} == far


@pytest.mark.slow
def test_draws_are_those_of_a_random_search(tmp_path):
    store, options = ResultStore(tmp_path), {"num_nodes": 30}
    found = search("csbm", "sgc", trials=3, splits=[0], options=options, store=store)
    assert [dict(trial.settings) for trial in found] == [*islice(draws("sgc", "csbm"), 3)]


def test_the_best_third_goes_on_and_the_best_of_these_is_found():
    tried = Cell(PLAN, RATES)
    assert len(tried.begin()) == 4 + 3  # the defaults on all three splits
    first = dict(zip((spec.key for spec in tried.begin()), (0.5, 0.9, 0.8, 0.5), strict=False))
    further = tried.go_on(first)
    assert [(spec.train.lr, spec.split) for spec in further] == [
        *((0.2, 1), (0.2, 2)),
        *((0.3, 1), (0.3, 2)),
    ]
    known = first | dict(zip((spec.key for spec in further), (0.1, 0.1, 0.8, None), strict=True))
    assert tried.mean(RATES[2], known) == pytest.approx(1.6 / 3)  # a failed run counts as 0
    assert tried.mean(RATES[3], known) == 0
    assert tried.best(known) == RATES[2]


@pytest.mark.parametrize("dataset", LARGER)
def test_larger_graphs_take_over_settings_of_the_others(dataset):
    settings = cell("gcon-gcn", dataset, {}).settings
    assert settings == elsewhere("gcon-gcn")
    texas = preset_of("gcon-gcn", "texas")
    assert dict(texas.hyper).items() <= settings[0].items()
    spec = cell("gcon-gcn", dataset, {}).begin()[0]
    assert (spec.dataset, spec.train) == (dataset, texas.train)
