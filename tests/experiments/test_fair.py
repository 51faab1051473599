"""The fair comparison: ranks of complete models, corrected tests, and both rankings."""

from collections import Counter

import pytest

from gread.experiments import accuracy, fair
from gread.experiments.fair import FAIR, compared_by_graph, compared_over_graphs, render
from gread.experiments.searched import Comparison
from gread.runs.presets import Preset
from gread.runs.result import Result

SEARCHED = ("mlp", "gcn", "gread-bs")


@pytest.fixture(autouse=True)
def searched(monkeypatch):
    """Select settings for three models only."""
    preset = Preset("fair", {"hidden_channels": 8})
    selected = {model: preset for model in SEARCHED}
    monkeypatch.setattr(Comparison, "selected", lambda self, model, dataset: selected.get(model))


def results(**scores):
    """Final runs with an accuracy that is a function of the spec."""
    named = {name.replace("_", "-"): score for name, score in scores.items()}
    return [Result(s, "ok", test=named[s.model](s)) for s in FAIR.specs() if s.model in named]


def rising(value):
    """Score that is `value` on the first graph and rises by 1 % of it per graph."""
    return lambda spec: value * (1 + 0.01 * FAIR.datasets.index(spec.dataset))


def rows_of(table):
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_rows_are_sorted_by_average_rank_and_show_their_budget():
    found = results(mlp=rising(0.6), gcn=rising(0.7), gread_bs=rising(0.8))
    table = render(found)
    assert [row[0].text for row in table.rows[:3]] == ["GREAD-BS", "GCN", "MLP"]
    rows = rows_of(table)
    assert rows["GCN"][:1] + rows["GCN"][9:11] == ["70.00 ± 0.00", "72.80", "2.00"]
    runs = Counter(cells[-1] for cells in rows.values())
    # Three graphs: ten settings on three splits, three of them on seven more. Others: ten on one.
    assert runs == {f"90 settings, {3 * (30 + 21) + 6 * 10} runs": len(FAIR.models)}


def test_equal_accuracies_as_printed_share_a_rank():
    found = results(mlp=rising(0.6), gcn=rising(0.600001), gread_bs=rising(0.8))
    rows = rows_of(render(found))
    assert rows["GCN"][10] == rows["MLP"][10] == "2.50"


def test_model_with_missing_cell_is_unranked_and_counted_in_the_note():
    found = results(mlp=rising(0.6), gcn=rising(0.7), gread_bs=rising(0.8))
    some = [r for r in found if (r.spec.model, r.spec.dataset) != ("gcn", "cora")]
    table = render(some)
    rows = rows_of(table)
    assert rows["GCN"][6] == "missing"
    assert rows["GCN"][9:12] == ["", "", ""]
    assert rows["MLP"][10] == "2.00"
    absent = len(FAIR.models) * 9 - 3 * 9 + 1
    assert f"{absent} of {len(FAIR.models) * 9} cells are missing" in table.note


def test_ranks_use_only_graphs_with_results():
    found = results(mlp=rising(0.6), gcn=rising(0.7), gread_bs=rising(0.8))
    some = [r for r in found if r.spec.dataset in ("texas", "cornell")]
    rows = rows_of(render(some))
    assert [rows[name][10] for name in ("GREAD-BS", "GCN", "MLP")] == ["1.00", "2.00", "3.00"]
    assert rows["GCN"][9] == ""
    assert "3 models on 2 graphs" in fair.draw(some).note


def test_cell_whose_runs_ran_out_of_memory_shows_out_of_memory():
    found = results(mlp=rising(0.6), gread_bs=rising(0.8))
    failed = [
        Result(spec, "failed", message="out of memory: choose less")
        for spec in FAIR.specs(["pubmed"], ["gcn"])
    ]
    assert rows_of(render([*found, *failed]))["GCN"][8] == "out of memory"


def test_wilcoxon_p_values_are_corrected_for_the_number_of_models():
    means = {(model, d): 50.0 for model in SEARCHED for d in FAIR.datasets}
    means |= {("gread-bs", d): 60.0 + k for k, d in enumerate(FAIR.datasets)}
    means |= {("mlp", d): 60.0 + k + (-1) ** k for k, d in enumerate(FAIR.datasets)}
    found = compared_over_graphs(means)
    assert found["gcn"] == pytest.approx(2 * 2 / 2**9)  # all nine differences have one sign
    assert found["mlp"] > 0.5


def test_differences_by_graph_are_tested_over_splits_with_holm():
    def noisy(base, step):
        return lambda spec: rising(base)(spec) + step * spec.split + 0.001 * spec.seed

    found = results(mlp=noisy(0.6, 0.011), gcn=noisy(0.75, 0.01), gread_bs=noisy(0.7, 0.01))
    tests = compared_by_graph(found)
    assert len(tests) == 2 * 9
    assert tests["gcn", "texas"][0] == pytest.approx(5.0)
    assert tests["mlp", "texas"][0] == pytest.approx(-10 + 0.45)
    rows = rows_of(render(found))
    assert rows["GCN"][12] == "9, 0"
    assert rows["MLP"][12] == "0, 9"
    assert rows["GREAD-BS"][12] == ""


def test_the_note_quotes_both_rankings_and_their_sensitivity():
    repeated = [
        Result(spec, "ok", test=0.9 if spec.model == "gread-bs" else 0.5)
        for spec in accuracy.specs(accuracy.ALL)
    ]
    own = results(mlp=rising(0.85), gcn=rising(0.7), gread_bs=rising(0.8))
    note = render([*own, *repeated]).note
    assert "with equal budgets it is in place 2 of 3 (average rank 2.00, after MLP 1.00)" in note
    assert "Table 7 and our runs of the baselines it is in place 1 of 35" in note
    assert "Table 7 and the paper's numbers of the baselines it is in place 1 of 35" in note
    assert "Table 7 and the better of both numbers of every baseline it is in place 1" in note


def test_critical_difference_diagram_has_rank_points_and_group_lines():
    found = results(mlp=rising(0.6), gcn=rising(0.7), gread_bs=rising(0.8))
    chart = fair.draw(found)
    ours, others, *groups = chart.panels[0].series
    assert (ours.x, ours.y) == ((0.0,), (1.0,))
    assert (others.x, others.y) == ((1.0, 2.0), (2.0, 3.0))
    # The critical difference of three models on nine graphs is 2.343 √(12 / 54) = 1.10.
    assert [group.x for group in groups] == [(0.0, 1.0), (1.0, 2.0)]
    assert (
        "3 models on 9 graphs, critical difference 1.10, Friedman's χ² = 18.0, p < 0.001"
        in chart.note
    )
    assert chart.panels[1].remark == "no runs yet"
