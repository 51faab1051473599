"""The honest comparison: one budget for all, and selection by validation alone."""

import random
from itertools import product

import pytest

from gread.data.catalog import DATASETS
from gread.experiments import honest
from gread.experiments.honest import (
    BUDGET,
    GRAPHS,
    NINE,
    budget_of,
    render,
    runs_of_setting,
    training_of,
)
from gread.runs.result import Result
from gread.search.space import Range
from studies import report_honest
from studies.search_honest import Cell, draw, near, space_of

SETTINGS = {"hidden_channels": 8, "lr": 0.01}


@pytest.fixture(scope="module")
def drawn():
    return {model: draw(model, "cora") for model in BUDGET["models"]}


@pytest.mark.parametrize("model", BUDGET["models"])
def test_every_model_has_the_budget_of_the_protocol(drawn, model):
    budget = budget_of("cora")
    assert len(drawn[model]) == budget.draws
    assert all(one["epochs"] == training_of("cora")["epochs"] for one in drawn[model])
    cell = Cell(model, "cora", drawn[model])
    assert len({spec.key for spec in cell.wide()}) == budget.draws * len(budget.search)


def test_a_metric_selects_the_epoch_too():
    assert training_of("minesweeper") == {"epochs": 1500, "metric": "roc-auc"}
    assert all(one["metric"] == "roc-auc" for one in draw("mlp", "minesweeper"))


@pytest.mark.parametrize("dataset", [*GRAPHS, *NINE])
def test_graphs_with_many_nodes_have_fewer_draws(dataset):
    entry = DATASETS[dataset]
    nodes = (entry.paper or entry.size)["nodes"]
    assert budget_of(dataset).draws == (24 if nodes < 10_000 else 12 if nodes < 100_000 else 6)


@pytest.mark.parametrize("model", BUDGET["models"])
def test_settings_near_another_stay_in_the_space_and_differ(drawn, model):
    space, parent = space_of(model), drawn[model][0]
    found = [near(space, parent, random.Random(seed)) for seed in range(20)]
    assert len({tuple(one.items()) for one in found}) == 20
    for one, (name, part) in product(found, space.parts.items()):
        if isinstance(part, Range):
            assert part.low <= one[name] <= part.high
            assert part.distance(one[name], parent[name]) < 0.17 or isinstance(part.low, int)
        else:
            assert one[name] in part.values


def test_the_second_stage_draws_near_the_best_of_the_first(drawn):
    cell = Cell("mlp", "cora", drawn["mlp"])
    best = drawn["mlp"][7]
    known = {spec.key: float(spec.train.lr == best["lr"]) for spec in cell.wide()}
    wider = cell.with_near(known)
    assert wider.settings[: len(cell.settings)] == cell.settings
    assert len(wider.settings) == 2 * len(cell.settings)
    child = wider.settings[len(cell.settings)]
    assert space_of("mlp").parts["lr"].distance(child["lr"], best["lr"]) < 0.17


@pytest.mark.parametrize("model", ["gread-x", "gread-bs", "mlp"])
def test_few_features_have_no_dropout(model):
    assert all(one["input_dropout"] == 0 for one in draw(model, "minesweeper"))
    assert any(one["input_dropout"] > 0 for one in draw(model, "cora"))


def test_the_reaction_is_drawn_where_there_are_many_settings():
    assert len({one["reaction"] for one in draw("gread-x", "cora")}) == 3
    assert {one["reaction"] for one in draw("gread-x", "minesweeper")} == {"bs"}


@pytest.mark.parametrize("dataset", ["squirrel", "cora"])
def test_directions_are_drawn_where_a_graph_has_them(dataset):
    found = {one["direction"] for one in draw("tuned-gcn", dataset)}
    assert found == ({"both", "undirected"} if DATASETS[dataset].directed else {"undirected"})


def test_seeds_of_the_table_are_not_those_of_the_search():
    for dataset in (*GRAPHS, *NINE):
        seeds = {spec.seed for spec in runs_of_setting("mlp", dataset, SETTINGS)}
        assert 0 not in seeds
        assert len(seeds) == (1 if "arxiv" in dataset else 3)


def test_settings_are_selected_by_validation_on_all_splits():
    on_first = {0.001: 0.5, 0.002: 0.9, 0.003: 0.8, 0.004: 0.7, 0.005: 0.6}
    cell = Cell("mlp", "pubmed", [SETTINGS | {"lr": lr} for lr in on_first])
    known = {spec.key: on_first[spec.train.lr] for spec in cell.wide()}
    assert [one["lr"] for one in cell.finalists(known)] == [0.002, 0.003, 0.004]
    for spec in cell.narrow(known):  # on the other splits the third is the best
        known.setdefault(spec.key, 0.99 if spec.train.lr == 0.004 else 0.1)
    assert cell.selected(known)["lr"] == 0.004


def test_a_run_that_failed_counts_as_nothing():
    cell = Cell("mlp", "texas", [SETTINGS])
    first, *others = (spec.key for spec in cell.specs(SETTINGS, range(3)))
    known = {first: None, **dict.fromkeys(others, 0.6)}
    assert cell.mean(SETTINGS, range(3), known) == pytest.approx(0.4)


def results(model, dataset, score):
    return [
        Result(spec, "ok", val=0.5, test=score(spec))
        for spec in runs_of_setting(model, dataset, SETTINGS)
    ]


def test_the_table_has_means_ranks_and_the_difference_from_the_tuned_gcn(monkeypatch):
    monkeypatch.setattr(honest, "derived", dict)
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


def test_a_model_that_was_not_searched_has_no_rank(monkeypatch):
    monkeypatch.setattr(honest, "derived", dict)
    found = [
        *results("gread-x", "texas", lambda spec: 0.8),
        *results("gread-x", "cora", lambda spec: 0.8),
        *results("mlp", "texas", lambda spec: 0.6),
    ]
    table = render("Title", ["texas", "cora", "pubmed"], found)
    assert table.columns[1:3] == ("Texas", "Cora")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["MLP"] == ["60.00 ± 0.00", "", "", ""]
    assert "No numbers yet: PubMed" in table.note


def test_an_ensemble_is_scored_by_the_metric_of_the_graph():
    import torch

    y = torch.tensor([0, 0, 1, 1])
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]], dtype=torch.float64)
    assert report_honest.score("accuracy", p, y) == 0.75
    assert report_honest.score("roc-auc", p, y) == 0.75
