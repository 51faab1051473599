"""docs/baselines.md agrees with the committed files and with studies/tune_baselines.py."""

import json
import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from statistics import fmean

import pytest

from gread.data.catalog import DATASETS
from gread.experiments import far
from gread.experiments.accuracy import summary
from gread.experiments.curves import accuracies
from gread.experiments.fair import FAIR, render as render_fair
from gread.experiments.far import NOT_THE_AUTHORS, baseline_specs, far_cells, origin_of
from gread.experiments.protocol import preset_of
from gread.experiments.searched import by_model_and_graph
from gread.models.catalog import MODELS
from gread.runs.archive import ARCHIVES, read_results
from gread.runs.store import ResultStore
from gread.search.search import search
from gread.search.study import StudySettings
from studies.tune_baselines import LARGER, Cell, cell, draws, elsewhere

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PLAN = StudySettings("csbm", "mlp", {}, "random", True, [0, 1, 2], [0])
RATES = [{"lr": rate} for rate in (0.1, 0.2, 0.3, 0.4)]


PAGE = (ROOT / "docs" / "baselines.md").read_text("utf-8")
CELLS = sorted({(spec.model, spec.dataset) for spec in baseline_specs()})
EXAMINED = ("texas", "chameleon", "cora")


def section(heading):
    """The text of the page below a heading, up to the next one."""
    return re.split(r"^#+ ", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.M)[0]


def test_page_reports_pair_counts_by_origin_of_settings():
    found = Counter(origin_of(*cell) for cell in CELLS)
    rows = re.findall(r"^\| ([^|]+?) \| (\d+)(?: of (\d+))? \| (.+) \|$", PAGE, re.M)
    listed = {name: int(count) for name, count, _, _ in rows}
    assert listed["the authors'"] == found["authors'"]
    others = [count for name, count in listed.items() if name.startswith("not the authors'")]
    assert others == [72, 12]
    assert sum(others) == found["not the authors'"]
    assert (listed["searched"], listed["borrowed"]) == (found["searched"], found["borrowed"])
    assert [int(total) for *_, total, _ in rows if total] == [len(CELLS)]
    tuned = {model for model, dataset in CELLS if preset_of(model, dataset).source == "tuned"}
    assert len(tuned) == 13
    assert "for thirteen models" in PAGE


def test_preset_file_headers_mark_settings_not_from_the_authors():
    marked = {}
    for file in (ROOT / "gread/runs/presets/published").glob("*.toml"):
        text = file.read_text("utf-8")
        first = text.partition("\n")[0]
        if NOT_THE_AUTHORS in first:
            tables = tomllib.loads(text)
            settings = {json.dumps(table, sort_keys=True) for table in tables.values()}
            kind = "another" if "another model" in first else "few"
            marked.setdefault(kind, {})[file.stem] = len(tables), len(settings)
    assert sum(graphs for graphs, _ in marked["few"].values()) == 72
    assert sum(graphs for graphs, _ in marked["another"].values()) == 12
    named = {MODELS[model].title for rows in marked.values() for model in rows}
    (few,) = re.findall(r"72 \| (.+) have one setting for all nine graphs, (\S+) has two", PAGE)
    (other,) = re.findall(r"12 \| (\S+) has the settings of .+, (\S+) on three graphs", PAGE)
    assert {*re.split(", | and ", few[0]), few[1], *other} == named


def test_the_page_lists_the_patience_of_every_model():
    found = {}
    for model, dataset in CELLS:
        found.setdefault(MODELS[model].title, set()).add(preset_of(model, dataset).train.patience)
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", section("When training stops"), re.M)
    listed = {title: text for titles, text in rows[1:] for title in titles.split(", ")}
    listed.pop("---", None)
    assert listed == {
        title: " or ".join(str(n or "none") for n in sorted(values, key=lambda n: n or 0))
        for title, values in found.items()
    }


@pytest.fixture(scope="module")
def runs():
    tables = ("table-8", "table-4", "table-2")
    return [run for name in tables for run in read_results(ARCHIVES / f"{name}.jsonl.xz")]


def test_page_lists_exactly_the_cells_far_from_the_paper(runs):
    cells = far_cells(summary(runs))
    examined = {
        (cell.title, cell.dataset): (f"{cell.ours[0]:.2f}", f"{cell.paper[0]:.2f}")
        for cell in cells
        if cell.dataset in EXAMINED
    }
    rows = re.findall(r"^\| (\S+) (texas|chameleon|cora) \| (\S+) \| (\S+) \| .+ \|$", PAGE, re.M)
    assert {(title, dataset): (own, paper) for title, dataset, own, paper in rows} == examined
    others = [(cell.title, cell.dataset) for cell in cells if cell.dataset not in EXAMINED]
    causes = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", section("The other six graphs"), re.M)
    named = [tuple(cell.split()) for cells in causes[2:] for cell in cells.split(", ")]
    named += re.findall(r"^- (\S+) (squirrel) \(", section("What remains unexplained"), re.M)
    assert sorted(named) == sorted(others)
    assert f"lists the {len(cells)} cells" in PAGE
    assert f"These {len(examined)} cells" in PAGE
    assert f"these {len(others)} cells" in PAGE


def test_page_lists_the_ggcn_runs_that_stopped_early(runs):
    own = [r for r in runs if (r.spec.model, r.spec.dataset) == ("ggcn", "squirrel")]
    early = {r.spec.split: round(100 * r.train) for r in own if r.train < 0.5}
    assert early == {0: 31, 8: 33}
    assert "splits 0 and 8 stopped with a training accuracy of 31 % and 33 %" in PAGE
    others = [r for r in own if r.spec.split not in early]
    assert min(r.train for r in others) > 0.89
    assert f"a mean of {100 * fmean(r.test for r in others):.2f}" in PAGE


def test_page_describes_the_budgets_of_the_fair_comparison():
    text = section("The fair comparison")
    per_model = sum(FAIR.budget_of(d).runs(FAIR.splits_of(d)) for d in FAIR.datasets)
    finals = sum(FAIR.splits_of(d) * len(FAIR.budget_of(d).seeds) for d in FAIR.datasets)
    assert f"a search of {per_model} runs for each model, from seed 0, and {finals} final" in text
    assert f"for all {len(FAIR.models) * len(FAIR.datasets)} cells" in text
    baselines = [m for m in FAIR.models if MODELS[m].group not in ("GREAD", "tuned")]
    assert f"{len(baselines)} baselines" in text
    rows = re.findall(r"^  \| ([A-Z][^|]+) \| ([^|]+) \| (\w+) \| (\d+) \| ([^|]+) \|$", text, re.M)
    names = {DATASETS[d].title: d for d in FAIR.datasets}
    listed = {names[title]: row[1:] for row in rows for title in row[0].split(", ")}
    for dataset in FAIR.datasets:
        budget = FAIR.budget_of(dataset)
        splits = "0" if len(budget.search) == 1 else f"0 to {len(budget.search) - 1}"
        finalists = str(budget.finalists) if budget.finalists > 1 else "none"
        seeds = ", ".join(map(str, budget.seeds))
        epochs = str(FAIR.training_of(dataset)["epochs"])
        assert listed[dataset] == (splits, finalists, epochs, seeds)
        assert budget.settings == 10


@pytest.fixture(scope="module")
def finals():
    """Runs of the cells that have all of their runs; tables show no others."""
    found = {result.spec: result for result in read_results(ARCHIVES / "fair.jsonl.xz")}
    short = {(spec.model, spec.dataset) for spec in FAIR.specs() if spec not in found}
    return [r for r in found.values() if (r.spec.model, r.spec.dataset) not in short]


def test_page_and_readme_report_the_ranks_of_the_fair_comparison(runs, finals):
    text = section("What the fair search found")
    table = render_fair([*runs, *finals])
    (place,) = re.findall(r"with equal budgets it is in place (\d+ of \d+)", table.note)
    ranks = {row[0].text: row[table.columns.index("average rank")].text for row in table.rows}
    assert f"**GREAD-BS is in place {place}**, with an average rank of {ranks['GREAD-BS']}" in text
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"it is in place {place} on nine graphs" in readme
    first = list(ranks)[:3]
    assert first == ["ACM-GCN", "GCN, tuned", "GCNII"]
    own = f"GREAD-FB has {ranks['GREAD-FB']} and GREAD-X {ranks['GREAD-X']}"
    assert f"({ranks[first[0]]} to {ranks[first[2]]}), {own}" in text
    assert not set(FAIR.specs()) - {one.spec for one in read_results(ARCHIVES / "fair.jsonl.xz")}
    assert "All 342 cells are computed" in text
    diagram = (ROOT / "results/fair-ranks.json").read_text("utf-8")
    assert "(" + re.findall(r"Friedman's χ² = [\d.]+, (p = [\d.]+\d)", diagram)[0] + ")" in text


def test_page_reports_counts_of_settings_selected_by_the_fair_search(runs, finals):
    text = section("What the fair search found")
    graphs = FAIR.datasets
    selected = {(model, d): FAIR.selected(model, d) for model in FAIR.models for d in graphs}
    assert None not in selected.values()
    ways = {
        graph: Counter(
            str(preset.options["directed"])
            for (_, dataset), preset in selected.items()
            if dataset == graph and "directed" in preset.options
        )
        for graph in ("chameleon", "squirrel")
    }
    pattern = r"(\d+) of the (\d+) models that .+ links to, (\d+) both ways, and one"
    (counts,) = re.findall(pattern, text)
    out, both, into = (ways["chameleon"][way] for way in ("reversed", "False", "True"))
    assert [out, out + both + into, both] == [*map(int, counts)]
    assert into == 1
    (counts,) = re.findall(r"On Squirrel, (\d+) select .+ and (\d+) both ways", text)
    assert ways["squirrel"] == {"reversed": int(counts[0]), "False": int(counts[1])}
    rows = sum(bool(preset.options["normalize_features"]) for preset in selected.values())
    assert f"in {rows} of {len(selected)} cells" in text
    assert sum(bool(selected["gcnii", d].hyper["variant"]) for d in graphs) == 6
    assert "GCNII* on six of nine graphs" in text
    found = accuracies(by_model_and_graph(finals))
    own = fmean(fmean(found["gread-bs", d]) for d in graphs)
    table = fmean(summary(runs)["GREAD-BS"][d][0] for d in graphs)
    assert f"is {own:.2f}, and {table:.2f} with the settings of Table 4" in text


def test_page_reports_number_of_far_cells_explained_by_the_fair_search(runs, finals):
    note = far.render([*runs, *finals]).note
    (near, known) = re.findall(r"in (\d+) of (\d+) cells", note)[0]
    assert f"Of the {known} cells that have one, {near} are\nwithin" in PAGE
    assert f"In the other {int(known) - int(near)}, the searched" in PAGE
    equal = accuracies(by_model_and_graph(finals))
    others = {
        (cell.title, cell.dataset): not far.is_far(fmean(values), cell.paper)
        for cell in far_cells(summary(runs))
        if cell.dataset not in EXAMINED
        and (values := equal.get((far.BASELINES[cell.title], cell.dataset)))
    }
    near = sorted(cell for cell, is_near in others.items() if is_near)
    assert f"has numbers for {len(others)} of them, and {len(near)} are within" in PAGE
    assert near == [
        ("ACMP", "pubmed"),
        ("BLEND", "pubmed"),
        ("ChebNet", "pubmed"),
        ("FA-GCN", "citeseer"),
        ("GAT", "wisconsin"),
        ("GCN", "squirrel"),
        ("GCNII", "squirrel"),
        ("GCNII", "wisconsin"),
        ("GRAND", "pubmed"),
        ("GRAND++", "film"),
        ("GRAND++", "pubmed"),
        ("GraphSAGE", "pubmed"),
        ("H2GCN", "pubmed"),
        ("LINKX", "pubmed"),
        ("SGC", "pubmed"),
        ("WRGAT", "film"),
        ("WRGAT", "squirrel"),
    ]


def test_every_baseline_is_listed_with_the_origin_of_its_settings(runs, finals):
    table = far.render_models([*runs, *finals])
    listed = {row[0].text: row[1].text for row in table.rows}
    assert len(listed) == 29
    at = table.columns.index("equal budgets")
    assert all(float(row[at].text) > 50 for row in table.rows)
    for text in listed.values():
        assert sum(map(int, re.findall(r"\d+", text))) == len(FAIR.datasets)
    assert not far.render_models(runs).rows


@pytest.mark.slow
def test_drawn_settings_equal_the_trials_of_a_random_search(tmp_path):
    store, options = ResultStore(tmp_path), {"num_nodes": 30}
    found = search("csbm", "sgc", trials=3, splits=[0], options=options, store=store)
    assert [dict(trial.settings) for trial in found] == [*islice(draws("sgc", "csbm"), 3)]


def test_best_third_runs_on_further_splits_and_best_mean_is_selected():
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
def test_larger_graphs_reuse_settings_of_the_smaller_graphs(dataset):
    settings = cell("gcon-gcn", dataset, {}).settings
    assert settings == elsewhere("gcon-gcn")
    texas = preset_of("gcon-gcn", "texas")
    assert dict(texas.hyper).items() <= settings[0].items()
    spec = cell("gcon-gcn", dataset, {}).begin()[0]
    assert (spec.dataset, spec.train) == (dataset, texas.train)
