"""Comparisons with one budget for all models, and selection by validation alone."""

import random
from functools import partial
from itertools import product

import pytest
import torch

from gread.base.memory import OutOfMemory
from gread.data.catalog import DATASETS
from gread.experiments import honest, larger
from gread.experiments.honest import HONEST, NINE, render
from gread.experiments.larger import LARGER
from gread.experiments.searched import Comparison
from gread.runs.archive import read_results
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.presets import find_preset
from gread.runs.result import Result
from gread.runs.store import ResultStore
from gread.search.space import Range
from studies import report_settings, search_settings
from studies.measure_budget import gains
from studies.search_settings import Cell, complete, compute, draw, near, space_of, within_memory

FAIR = Comparison("fair")
SETTINGS = {"hidden_channels": 8, "lr": 0.01}


COMPARISONS = (HONEST, LARGER, FAIR)
CELLS = [(comparison, model) for comparison in COMPARISONS for model in comparison.models]


@pytest.fixture(scope="module")
def drawn():
    return {model: draw(HONEST, model, "cora") for model in HONEST.models}


@pytest.mark.parametrize(
    ("comparison", "model"), CELLS, ids=lambda value: getattr(value, "name", value)
)
def test_every_model_has_the_budget_of_the_protocol(comparison, model):
    dataset = "texas" if "texas" in comparison.datasets else "chameleon-filtered"
    budget, settings = comparison.budget_of(dataset), draw(comparison, model, dataset)
    assert len(settings) == budget.draws
    assert all(one["epochs"] == comparison.training_of(dataset)["epochs"] for one in settings)
    assert all("patience" not in one for one in settings)
    assert all("options.normalize_features" in one for one in settings)
    cell = Cell(comparison, model, dataset, settings)
    assert len({spec.key for spec in cell.wide()}) == budget.draws * len(budget.search)


def test_drawn_settings_use_the_metric_of_the_dataset():
    assert HONEST.training_of("minesweeper") == {"epochs": 3000, "metric": "roc-auc"}
    assert all(one["metric"] == "roc-auc" for one in draw(HONEST, "mlp", "minesweeper"))


@pytest.mark.parametrize("dataset", HONEST.datasets)
def test_graphs_with_many_nodes_have_fewer_draws(dataset):
    entry = DATASETS[dataset]
    nodes = (entry.paper or entry.size)["nodes"]
    draws = 24 if nodes < 10_000 else 12 if nodes < 100_000 else 6
    assert HONEST.budget_of(dataset).draws == draws


def test_fair_comparison_has_table_7_models_and_graphs_and_extra_models():
    from gread.experiments.accuracy import ALL, BASELINES, DATASETS as PAPERS
    from gread.experiments.protocol import GREAD

    baselines = {BASELINES[title] for title in ALL}
    assert {*FAIR.models} == {*baselines, *GREAD, "grand++", "gread-x", "tuned-gcn"}
    assert FAIR.datasets == PAPERS
    assert len({FAIR.budget_of(d).settings for d in FAIR.datasets}) == 1


@pytest.mark.slow
def test_committed_runs_of_the_fair_search_have_the_drawn_settings():
    committed = {result.spec.key for result in read_results(search_settings.trials_of(FAIR))}
    for model in FAIR.models:
        cell = Cell(FAIR, model, "cora", draw(FAIR, model, "cora"))
        assert committed >= {spec.key for spec in cell.wide()}, model


@pytest.mark.parametrize("model", dict.fromkeys([*HONEST.models, *FAIR.models]))
def test_nearby_settings_are_distinct_and_stay_in_the_search_space(model):
    space, parent = space_of(model), draw(FAIR, model, "cora")[0]
    found = [near(space, parent, random.Random(seed)) for seed in range(20)]
    assert len({tuple(one.items()) for one in found}) == 20
    for one, (name, part) in product(found, space.parts.items()):
        if isinstance(part, Range):
            assert part.low <= one[name] <= part.high
            assert type(one[name]) is type(part.low)
            assert part.distance(one[name], parent[name]) < 0.17 or isinstance(part.low, int)
        else:
            assert one[name] in part.values


def test_the_second_stage_draws_near_the_best_of_the_first(drawn):
    cell = Cell(HONEST, "mlp", "cora", drawn["mlp"])
    best = drawn["mlp"][7]
    known = {spec.key: float(spec.train.lr == best["lr"]) for spec in cell.wide()}
    wider = cell.with_near(known)
    assert wider.settings[: len(cell.settings)] == cell.settings
    assert len(wider.settings) == 2 * len(cell.settings)
    child = wider.settings[len(cell.settings)]
    assert space_of("mlp").parts["lr"].distance(child["lr"], best["lr"]) < 0.17


FIRST = [
    (comparison, dataset, model)
    for comparison in (HONEST, LARGER)
    for dataset, rows in comparison.about["first"].items()
    for model in comparison.models
    if any(model in values["models"] for values in rows)
]


@pytest.mark.parametrize(
    ("comparison", "dataset", "model"), FIRST, ids=lambda value: getattr(value, "name", value)
)
def test_first_random_settings_have_the_values_of_the_protocol(comparison, dataset, model):
    space = search_settings.for_graph(comparison, space_of(model), dataset)
    settings = draw(comparison, model, dataset)
    rows = [v for v in comparison.about["first"][dataset] if model in v["models"]]
    *first, other = settings[: len(rows) + 1]
    assert all(one.keys() == other.keys() for one in first)
    for values, one in zip(rows, first, strict=True):
        given = {name: value for name, value in values.items() if name in one}
        assert given.items() <= one.items()
        assert not given.items() <= other.items()
        for name in given.keys() & space.parts.keys():
            part, value = space.parts[name], given[name]
            if isinstance(part, Range):
                assert part.low <= value <= part.high
            else:
                assert value in part.values


def test_cells_with_all_final_runs_are_complete():
    keys = [spec.key for spec in FAIR.specs(["texas"], ["mlp"])]
    known = dict.fromkeys(keys, 0.5)
    assert complete(FAIR, "mlp", "texas", known)
    assert not complete(FAIR, "mlp", "wisconsin", known)
    del known[keys[-1]]
    assert not complete(FAIR, "mlp", "texas", known)
    assert not complete(HONEST, "graff", "questions", {})  # no settings are selected


def test_second_stage_gain_is_computed_from_its_best_setting():
    cell = Cell(FAIR, "mlp", "cora", draw(FAIR, "mlp", "cora"))
    keys = [spec.key for spec in cell.wide()]
    first = dict(zip(keys, (0.1, 0.5, 0.2, 0.6, 0.3), strict=True))
    assert gains(cell, first) is None
    known = dict.fromkeys([spec.key for spec in cell.with_near(first).wide()], 0.4) | first
    best = cell.with_near(known).wide()[-1].key
    assert gains(cell, known | {best: 0.75}) == pytest.approx((15, 35))


@pytest.mark.parametrize("model", ["gread-x", "gread-bs", "mlp"])
def test_input_dropout_is_zero_for_graphs_with_few_features(model):
    assert all(one["input_dropout"] == 0 for one in draw(HONEST, model, "minesweeper"))
    assert any(one["input_dropout"] > 0 for one in draw(HONEST, model, "cora"))


def test_reaction_is_drawn_only_with_the_largest_budget():
    assert len({one["reaction"] for one in draw(HONEST, "gread-x", "cora")}) == 3
    assert {one["reaction"] for one in draw(HONEST, "gread-x", "minesweeper")} == {"bs"}


@pytest.mark.parametrize("dataset", ["squirrel", "cora"])
def test_edge_directions_are_drawn_only_for_directed_graphs(dataset):
    found = {one["direction"] for one in draw(HONEST, "tuned-gcn", dataset)}
    assert found == ({"both", "undirected"} if DATASETS[dataset].directed else {"undirected"})


def test_models_without_a_direction_setting_draw_the_directed_option():
    name, directed = "options.directed", [d for d in FAIR.datasets if DATASETS[d].directed]
    drawn = {one[name] for dataset in directed for one in draw(FAIR, "ggcn", dataset)}
    assert drawn == {False, True, "reversed"}
    assert all(name not in one for one in draw(FAIR, "ggcn", "cora"))
    assert all(
        name not in one for model in ("mlp", "gread-x") for one in draw(FAIR, model, "texas")
    )


def test_final_runs_and_search_runs_use_different_seeds():
    for dataset in HONEST.datasets:
        seeds = {spec.seed for spec in HONEST.runs_of("mlp", dataset, SETTINGS)}
        assert 0 not in seeds
        assert len(seeds) == (1 if "arxiv" in dataset else 3)
    for dataset in FAIR.datasets:
        seeds = {spec.seed for spec in FAIR.runs_of("mlp", dataset, SETTINGS)}
        assert seeds == ({1, 2, 3} if dataset in ("texas", "wisconsin", "cornell") else {1})


def test_settings_are_selected_by_validation_on_all_splits():
    on_first = {0.001: 0.5, 0.002: 0.9, 0.003: 0.8, 0.004: 0.7, 0.005: 0.6}
    cell = Cell(HONEST, "mlp", "pubmed", [SETTINGS | {"lr": lr} for lr in on_first])
    known = {spec.key: on_first[spec.train.lr] for spec in cell.wide()}
    assert [one["lr"] for one in cell.finalists(known)] == [0.002, 0.003, 0.004]
    for spec in cell.narrow(known):  # on the other splits the third is the best
        known.setdefault(spec.key, 0.99 if spec.train.lr == 0.004 else 0.1)
    assert cell.selected(known)["lr"] == 0.004


def test_a_single_finalist_needs_no_further_runs():
    cell = Cell(FAIR, "mlp", "cora", [SETTINGS | {"lr": lr} for lr in (0.1, 0.2)])
    known = {spec.key: spec.train.lr for spec in cell.wide()}
    assert {spec.key for spec in cell.narrow(known)} < known.keys()
    assert cell.selected(known)["lr"] == 0.2
    budget = FAIR.budget_of("cora")
    assert budget.runs(splits=10) == budget.settings == 2 * budget.draws


def test_a_run_that_failed_counts_as_zero():
    cell = Cell(HONEST, "mlp", "texas", [SETTINGS])
    first, *others = (spec.key for spec in cell.specs(SETTINGS, range(3)))
    known = {first: None, **dict.fromkeys(others, 0.6)}
    assert cell.mean(SETTINGS, range(3), known) == pytest.approx(0.4)


def results(model, dataset, score):
    return [
        Result(spec, "ok", val=0.5, test=score(spec))
        for spec in HONEST.runs_of(model, dataset, SETTINGS)
    ]


def test_table_has_means_ranks_and_difference_from_the_tuned_gcn(monkeypatch):
    monkeypatch.setattr(honest, "derived", lambda comparison: {})
    found = [
        *results("gread-x", "texas", lambda spec: 0.8 + 0.01 * spec.split),
        *results("tuned-gcn", "texas", lambda spec: 0.7 + 0.009 * spec.split + 0.001 * spec.seed),
        *results("mlp", "texas", lambda spec: 0.6),
    ]
    table = render("Title", ["texas"], found)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert table.columns == ("model", "Texas", "average", "average rank")
    assert rows["GREAD-X"] == ["84.50 ± 2.87", "84.50", "1.00"]
    assert rows["GCN, tuned"][0].startswith("74.25 ± ")
    assert rows["MLP"] == ["60.00 ± 0.00", "60.00", "3.00"]
    assert rows["GREAD-X less GCN, tuned"][0] == "+10.25"
    assert rows["p, paired t-test over splits"][0] == "< 0.001"
    assert "24 random settings (12 on graphs of 10,000 nodes or more, 6 on" in table.note


def test_larger_search_is_shown_next_to_the_honest_one(monkeypatch):
    monkeypatch.setattr(honest, "derived", lambda comparison: {})
    level = {(m, c): 0.1 * k for k, (m, c) in enumerate(product(LARGER.models, (HONEST, LARGER)))}
    found = [
        Result(spec, "ok", val=0.5, test=number + 0.01 * spec.split)
        for (model, comparison), number in level.items()
        for spec in comparison.specs(LARGER.datasets, [model])
    ]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in larger.render(found).rows}
    titles = "GREAD-X, honest comparison", "GREAD-X, larger search"
    assert [rows[title][0][:5] for title in titles] == ["4.50 ", "14.50"]
    assert rows["GREAD-X less GCN, tuned"] == ["−20.00"] * len(LARGER.datasets)
    assert {result.spec for result in found} == {*larger.specs()}


def test_model_without_results_on_all_graphs_has_no_rank(monkeypatch):
    monkeypatch.setattr(honest, "derived", lambda comparison: {})
    found = [
        *results("gread-x", "texas", lambda spec: 0.8),
        *results("gread-x", "cora", lambda spec: 0.8),
        *results("mlp", "texas", lambda spec: 0.6),
    ]
    table = render("Title", ["texas", "cora", "pubmed"], found)
    assert table.columns[1:3] == ("Texas", "Cora")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["MLP"] == ["60.00 ± 0.00", "missing", "", ""]
    assert "No numbers yet on PubMed." in table.note
    assert "No numbers yet of GCN, tuned, " in table.note
    assert "Missing cells are not computed yet" in table.note


def test_all_cells_are_missing_without_runs():
    table = render("Title", NINE, [])
    assert {cell.text for row in table.rows[:2] for cell in row[1:10]} == {"missing"}


@pytest.mark.parametrize("shift", [0.1, -0.1])
def test_chart_shows_the_difference_and_its_confidence_interval_per_graph(shift):
    found = [
        *results("gread-x", "texas", lambda spec: 0.6 + shift + 0.01 * (spec.split % 2)),
        *results("tuned-gcn", "texas", lambda spec: 0.6),
        *results("gread-x", "cora", lambda spec: 0.8),
    ]
    chart = honest.draw_margins(found)
    (bars,) = chart.panels[0].series
    assert bars.y == pytest.approx((100 * shift + 0.5,))
    # Standard deviation of five ones and five zeros, and Student's t quantile for 9 degrees.
    width = 2.262157 * (10 / 9 / 4) ** 0.5 / 10**0.5
    assert bars.high[0] - bars.y[0] == pytest.approx(width, rel=1e-5)
    assert [name for _, name in chart.panels[0].x.ticks] == ["Texas"]
    assert "Cora" in chart.note


def test_ablation_specs_fill_all_rows_of_the_table():
    specs = honest.ablation_specs()
    found = [Result(spec, "ok", test=0.5) for spec in specs]
    table = honest.render_ablation(found)
    assert len(table.rows) == len(honest.ROWS)
    assert all("missing" not in cell.text for row in table.rows for cell in row)


def test_an_ensemble_is_scored_by_the_metric_of_the_graph():
    y = torch.tensor([0, 0, 1, 1])
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.55, 0.45], [0.2, 0.8]], dtype=torch.float64)
    assert report_settings.score("accuracy", p, y) == 0.75
    assert report_settings.score("roc-auc", p, y) == 1.0


def test_committed_runs_of_the_table_are_not_computed_again():
    cell = Cell(HONEST, "mlp", "texas", [SETTINGS])
    trials = {spec.key: 0.5 for spec in cell.narrow({})}
    everything = cell.finals(trials)
    first, *others = HONEST.runs_of("mlp", "texas", SETTINGS)
    assert [spec.record for spec in everything] == [("probabilities",)] * len(everything)
    missing = cell.finals(trials | dict.fromkeys((spec.key for spec in others), 0.5))
    assert missing == [search_settings.with_record(HONEST, first)]


def test_out_of_memory_run_is_stored_as_failed_and_others_continue(tmp_path):
    store = ResultStore(tmp_path)
    specs = HONEST.runs_of("mlp", "texas", SETTINGS)[:5]

    def run(some):
        for spec in store.missing(some):
            if spec.split == 3:
                raise OutOfMemory("choose less")
            store.put(Result(spec, "ok", val=0.5))

    within_memory(store, run, specs)
    assert [store.get(spec).status for spec in specs] == ["ok", "ok", "ok", "failed", "ok"]
    assert store.get(specs[3]).message == "out of memory: choose less"


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A comparison of two models on a small random graph, with two settings each."""
    size = {"draws": 1, "search": [0], "finalists": 1, "seeds": [1, 2], "fixed": {}}
    section = {
        "models": ["mlp", "sgc"],
        "graphs": {"all": ["csbm"]},
        "parents": 1,
        "sparse": [],
        "sizes": {"small": size},
        "splits": {"csbm": 2},
        "epochs": {"others": 2},
        "num_steps": {"others": [1]},
        "preprocessing": {},
    }
    monkeypatch.setattr("gread.experiments.searched.PROTOCOL", {"tiny": section})
    monkeypatch.setattr(search_settings, "PRESETS", tmp_path)
    return Comparison("tiny")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_search_selects_settings_and_report_writes_their_runs(tiny, tmp_path, monkeypatch, workers):
    store, executor = ResultStore(tmp_path / "store"), find_executor("local")
    cells = [Cell(tiny, m, "csbm", draw(tiny, m, "csbm")) for m in tiny.models]
    executor.start("cpu", workers, ())
    run = partial(launch, store=store, executor=executor, workers=workers)
    compute(cells, store, run, at_once=workers)
    presets = {m: str(tmp_path / "tiny" / f"{m}.toml") for m in tiny.models}
    for cell in cells:
        wider = cell.with_near(store.numbers("val"))
        best = wider.selected(store.numbers("val"))
        specs = tiny.runs_of(
            cell.model, "csbm", find_preset(cell.model, "csbm", presets[cell.model])
        )
        assert specs == tiny.runs_of(cell.model, "csbm", best)
        assert {(spec.split, spec.seed) for spec in specs} == {*product((0, 1), (1, 2))}
        assert not store.missing(specs)
        assert len(wider.settings) == tiny.budget_of("csbm").settings == 2
    monkeypatch.setattr(Comparison, "selected", lambda _, m, d: find_preset(m, d, presets[m]))
    monkeypatch.setattr(report_settings, "finals_of", lambda of: tmp_path / "tiny.jsonl.xz")
    monkeypatch.setattr(report_settings, "trials_of", lambda of: tmp_path / "trials.jsonl.xz")
    report_settings.main("tiny", str(tmp_path / "store"))
    finals = read_results(tmp_path / "tiny.jsonl.xz")
    assert {result.spec for result in finals} == {*tiny.specs()}
    trials = read_results(tmp_path / "trials.jsonl.xz")
    assert len(trials) == 2 * tiny.budget_of("csbm").runs(splits=2)
    assert {result.spec.seed for result in trials} == {0}
