"""Properties of every artefact."""

import csv
import importlib
import json
import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gread.base.registry import Registry
from gread.data.files import DataError
from gread.experiments.artefact import SCALES, Artefact, show
from gread.experiments.protocol import DATASETS, PUBLISHED
from gread.experiments.questions import ARTEFACTS
from gread.report.charts import Chart
from gread.report.figures import draw
from gread.report.tables import TextTable
from gread.runs.complete import complete
from gread.runs.records import RECORDS
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.training.config import TrainConfig

TABLES = os.environ.get("GREAD_PAPER")
MEASURED = ("table-1", "table-3", "table-9", "figure-1")
FROM_FILES = ("table-3", "table-9")

RECORDED = {
    "coefficients": {"alpha": [0.5], "beta": [-0.5, 0.25, 0.75]},
    "energy": [1.0] * 11,
    "epoch_seconds": [0.01, 0.02, 0.015, 0.01],
    "evaluations": 4,
    "journey": {
        "times": [0.0, 1.0, 3.8],
        "classes": [0, 1],
        "maps": [[[0.0, 1.0], [1.0, 0.0]]] * 3,
    },
    "layer_energy": [2.0, 1.0, 0.0],
    "layer_rank": [2.0, 1.5, 1.0],
    "probabilities": [[600_000, 400_000]],
    "map": {"times": [3.8], "classes": [0, 1], "maps": [[[0.0, 1.0], [1.0, 0.0]]]},
}


def results_of(specs):
    return [
        Result(
            spec,
            "ok",
            test=0.5 + 0.01 * spec.split,
            records={name: RECORDED[name] for name in spec.record},
        )
        for spec in specs
    ]


@cache
def plan_of(name, scale):
    """Plan of an artefact, cached because it is slow to compute."""
    return SCALES[scale](ARTEFACTS[name])


@pytest.fixture(params=ARTEFACTS)
def artefact(request):
    if request.param in FROM_FILES:
        request.getfixturevalue("real_root")
    return ARTEFACTS[request.param]


def test_example_records_cover_all_registered_records():
    assert set(RECORDED) == set(RECORDS)


def test_artefacts_cover_all_tables_and_figures_of_the_paper():
    tables = {f"table-{n}" for n in (*range(1, 10), *range(20, 25))}
    figures = {f"figure-{n}" for n in range(1, 12)}
    assert set(ARTEFACTS) >= tables | figures


def test_figures_page_lists_all_artefacts():
    text = (Path(__file__).parents[2] / "docs" / "figures.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `\w+\.py` \|$", text, re.M)
    assert {name for row in rows for name in re.split("[,;] ", row)} == set(ARTEFACTS)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ARTEFACTS)
def test_plan_has_unique_specs_and_none_if_artefact_is_measured(name, scale):
    found = plan_of(name, scale).specs
    assert bool(found) == (name not in MEASURED)
    assert len({spec.key for spec in found}) == len(found)


@pytest.mark.parametrize("name", ARTEFACTS)
def test_quick_plan_has_fewer_or_shorter_runs_and_a_note(name):
    full, quick = plan_of(name, "full"), plan_of(name, "quick")
    assert full.note == ""
    if name in MEASURED:
        return
    rule = ARTEFACTS[name].quick
    assert len(quick.specs) < len(full.specs) or all(
        s.train.epochs == rule.epochs for s in quick.specs
    )
    assert all(spec.train.epochs <= rule.epochs for spec in quick.specs)
    assert quick.note.startswith("Quick scale: ")
    shown = show(ARTEFACTS[name], quick, results_of(quick.specs))
    assert shown.note.startswith(quick.note)


def test_artefacts_render_with_complete_partial_failed_or_no_results(artefact):
    results = results_of(artefact.specs())
    failed = [replace(r, status="failed", test=None, records={}) for r in results[:40]]
    some_of_them = (results, results[: len(results) // 3], failed + results[40:], failed)
    for some in (*(some_of_them if results else ()), []):
        shown = artefact.render(some)
        if isinstance(shown, Chart):
            json.loads(shown.to_json())
            assert shown.panels
            if not some:
                figure = draw(shown)
                figure.canvas.draw()
                assert len(figure.axes) >= len(shown.panels)
        else:
            assert all(len(row) == len(shown.columns) for row in shown.rows)
            assert shown.markdown()
            assert shown.csv()
            assert shown.latex()


def of_one_number(one, other):
    alike = [replace(spec, split=0, seed=0, options={}) for spec in (one, other)]
    names = {*one.options, *other.options} - {"graph"}
    return alike[0] == alike[1] and all(one.options[n] == other.options[n] for n in names)


@pytest.mark.parametrize("name", [name for name in ARTEFACTS if name not in MEASURED])
def test_number_is_shown_only_after_all_its_runs_are_computed(name):
    artefact, plan = ARTEFACTS[name], plan_of(name, "full")
    results = results_of(plan.specs)
    last = results[-1].spec
    others = [result for result in results if not of_one_number(result.spec, last)]
    shown, expected = show(artefact, plan, results[:-1]), artefact.render(others)
    assert shown.note.startswith(f"Not yet computed: 1 of {len(results)} run")
    assert shown.note.endswith(f"Numbers that need them are not shown. {expected.note}")
    assert shown == replace(expected, note=shown.note, claims=())
    assert show(artefact, plan, results) == artefact.render(results)


@pytest.mark.skipif(not TABLES, reason="GREAD_PAPER is not set to the folder of the paper's tables")
@pytest.mark.parametrize(
    ("kind", "names"),
    [("adjacency", {"OA": "original", "SA": "soft"}), ("beta", {"SC": "scalar", "VC": "vector"})],
)
def test_published_ablations_equal_the_tables_of_the_paper(kind, names):
    with open(Path(TABLES, f"ablation_{kind}.csv")) as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(DATASETS) * 2 * 7
    for row in rows:
        found = PUBLISHED[kind][row["dataset"]][names[row[kind]]][f"GREAD-{row['reaction']}"]
        assert found == [float(row[part]) for part in ("mean", "std") if row[part]]


def test_reproduce_warns_about_missing_graphs_and_computes_the_others(tmp_path, monkeypatch):
    here, absent = (
        complete(RunSpec(dataset=name, model="mlp", train=TrainConfig(epochs=1)))
        for name in ("csbm", "amazon-computers")
    )
    shown = []

    def render(results):
        shown.extend(result.spec.dataset for result in results)
        return TextTable("", (), ())

    artefacts = {"both": Artefact(lambda: [here, absent], render)}
    artefacts["absent"] = Artefact(lambda: [absent], render)
    module = importlib.import_module("gread.experiments.reproduce")
    monkeypatch.setattr(module, "ARTEFACTS", Registry("artefact", artefacts))
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())
    monkeypatch.setenv("GREAD_DATA", str(tmp_path / "none"))
    places = {"store": tmp_path, "out": tmp_path, "workers": 1, "device": "cpu"}
    with pytest.warns(UserWarning, match="Amazon-Computers is not computed: real/amazon-comp"):
        module.reproduce(["both"], **places)
    assert shown == ["csbm"]
    with pytest.raises(DataError, match="is not in"):
        module.reproduce(["absent"], **places)
