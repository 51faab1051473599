import csv
import os
from pathlib import Path

import pytest

from gread.experiments.accuracy import DATASETS, GREAD, PAPER, specs, summary
from gread.experiments.curves import accuracies, means_of, note_on_failed
from gread.experiments.protocol import PUBLISHED
from gread.experiments.questions import ARTEFACTS
from gread.report.statistics import standings
from gread.runs.result import Result

TABLES = os.environ.get("GREAD_PAPER")


def test_specs_have_ten_splits_and_three_seeds_for_small_test_sets():
    found = specs()
    assert len(found) == len(GREAD) * (3 * 30 + 6 * 10)
    assert {spec.seed for spec in found if spec.dataset == "texas"} == {0, 1, 2}
    assert {spec.seed for spec in found if spec.dataset == "cora"} == {0}


def of_gread_bs_on_texas(*tests):
    """Runs with the given accuracies; None is a failed run."""
    texas = [spec for spec in specs() if (spec.dataset, spec.model) == ("texas", "gread-bs")]
    return [
        Result(spec, "failed" if test is None else "ok", test=test)
        for spec, test in zip(texas, tests, strict=False)
    ]


def test_summary_is_mean_and_population_deviation_in_percent():
    assert summary(of_gread_bs_on_texas(0.8, 0.9))["GREAD-BS"]["texas"] == pytest.approx(
        (85.0, 5.0)
    )


def test_a_mean_over_fewer_runs_is_marked_and_not_compared():
    results = of_gread_bs_on_texas(0.99, 0.99, None)
    assert summary(results) == {"GREAD-BS": {}}
    table = ARTEFACTS["table-4"].render(results)
    cell = next(row[1] for row in table.rows if row[0].text == "GREAD-BS")
    assert cell.text == "99.00 ± 0.00 (2 of 3)"
    assert cell.place is None
    assert (
        "1 of 3 runs diverged in their first epoch and are not counted. A mean over fewer"
        in table.note
    )


def test_note_on_failed_runs_states_the_cause():
    spec = of_gread_bs_on_texas(0.9)[0].spec
    messages = "the loss is not finite", "out of memory: 60 GiB", "out of memory: 9 GiB"
    results = [Result(spec, "failed", message=message) for message in messages]
    assert note_on_failed([*results, Result(spec, "ok", test=0.9)]) == (
        " 1 of 4 runs diverged in their first epoch and are not counted."
        " 2 of 4 runs ran out of memory and are not counted."
    )


def test_means_are_rounded_to_printed_digits_before_ranking():
    found = accuracies(zip("aab", of_gread_bs_on_texas(0.8, 0.80004, 0.80001), strict=True))
    assert means_of(found) == {"a": 80.0, "b": 80.0}


def test_missing_cells_are_marked_and_differences_are_signed():
    texas = [spec for spec in specs() if (spec.dataset, spec.model) == ("texas", "gread-bs")]
    table = ARTEFACTS["table-4"].render([Result(spec, "ok", test=0.8) for spec in texas])
    rows = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert rows["GREAD-BS"][1] == "80.00 ± 0.00"
    assert rows["GREAD-BS"][2] == "missing"
    difference = table.rows[[row[0].text for row in table.rows].index("GREAD-BS") + 2]
    assert difference[1].text == "−8.92"


def test_claim_names_all_tied_best_models_and_ignores_ties_with_gread():
    best = {"cornell": ("acm-gcn", "graff"), "texas": ("gread-bs", "graff")}
    results = [
        Result(spec, "ok", test=0.9 if spec.model in best.get(spec.dataset, ()) else 0.8)
        for spec in ARTEFACTS["table-4"].specs()
    ]
    (claim,) = ARTEFACTS["table-4"].render(results).claims
    assert claim.here == "others are better on Cornell (ACM-GCN and GRAFF)"
    assert not claim.holds


@pytest.mark.slow
def test_model_with_missing_cells_is_excluded_from_the_ranking():
    runs = [spec for spec in specs() if spec.model in ("gread-bs", "gread-f")]
    results = [Result(spec, "ok", test=0.9) for spec in runs]
    results = [r for r in results if (r.spec.model, r.spec.dataset) != ("gread-f", "film")]
    table = ARTEFACTS["table-7"].render(results)
    names = [row[0].text for row in table.rows]
    assert "GREAD-BS" in names
    assert "GREAD-F" not in names
    assert "GREAD-F (paper)" not in names
    assert "GREAD-Z (paper)" in names
    assert table.note.endswith("have no number: GREAD-F.")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table-2", "table-4", "table-7", "table-8"])
def test_notes_mention_paper_rows_only_if_the_table_has_them(name):
    artefact = ARTEFACTS[name]
    phrases = "Rows marked (paper)", "the others are the paper's numbers"
    everything = [Result(spec, "ok", test=0.9) for spec in artefact.specs()]
    ours = [result for result in everything if result.spec.model in GREAD]
    assert any(words in artefact.render(ours).note for words in phrases)
    assert not any(words in artefact.render(everything).note for words in phrases)


@pytest.mark.skipif(not TABLES, reason="GREAD_PAPER is not set to the folder of the paper's tables")
def test_published_accuracies_equal_the_table_of_the_paper():
    with open(Path(TABLES, "accuracy.csv")) as file:
        for row in csv.DictReader(file):
            if row["model"] != "GRAND++":
                found = PAPER[row["model"]][row["dataset"]]
                assert found == [float(row[part]) for part in ("mean", "std") if row[part]]


@pytest.mark.skipif(not TABLES, reason="GREAD_PAPER is not set to the folder of the paper's tables")
def test_accuracies_of_the_paper_reproduce_its_ranking():
    means = {name: {d: row[d][0] for d in DATASETS} for name, row in PAPER.items()}
    ours = {standing.model.lower(): standing for standing in standings(means)}
    with open(Path(TABLES, "ranking.csv")) as file:
        theirs = list(csv.DictReader(file))
    assert len(ours) == len(theirs) == 35
    columns = ("average_rank", "average_accuracy", "gold", "silver", "bronze")
    printed = {name.lower(): values for name, values in PUBLISHED["ranking"].items()}
    assert printed == {row["model"].lower(): [float(row[c]) for c in columns] for row in theirs}
    apart = {
        row["model"]: ours[row["model"].lower()].rank - float(row["average_rank"]) for row in theirs
    }
    assert sum(abs(difference) < 0.006 for difference in apart.values()) >= 23
    # The paper's tables of accuracies and ranks are inconsistent: GREAD-AC's average accuracy is
    # 73.58 in one and 73.71 in the other, which shifts neighbouring ranks.
    assert max(map(abs, apart.values())) < 0.75
    assert {name for name, difference in apart.items() if abs(difference) > 0.25} == {"GREAD-AC"}
    first = [standing.model for standing in standings(means)][:4]
    assert first == ["GREAD-BS", "GREAD-FB*", "GREAD-F", "GREAD-FB"]
