"""The numbers of docs/gread-x.md are those of the committed runs."""

import re
from pathlib import Path

import pytest

from gread.experiments import larger
from gread.experiments.honest import GRAPHS, HONEST, NINE, OURS, REFERENCE, render
from gread.models.catalog import MODELS
from gread.runs.archive import ARCHIVES, read_results

PAGE = (Path(__file__).parents[2] / "docs" / "gread-x.md").read_text("utf-8")
NAMES = {
    "Minesweeper (ROC-AUC)": "minesweeper",
    "Tolokers (ROC-AUC)": "tolokers",
    "filtered Squirrel": "squirrel-filtered",
    "filtered Chameleon": "chameleon-filtered",
    "Amazon-Computers": "amazon-computers",
    "Coauthor-CS": "coauthor-cs",
    "publication years on arXiv, structure only": "arxiv-year",
}


def by_row(results, datasets):
    """Texts of a table by row, and then by dataset or ``average``."""
    table = render("", datasets, results)
    known = [d for d in datasets if any(one.spec.dataset == d for one in results)]
    return {
        row[0].text: dict(zip([*known, "average"], [cell.text for cell in row[1:]], strict=False))
        for row in table.rows
    }


@pytest.fixture(scope="module")
def tables():
    """Both tables. The committed file also has runs of the ablation and of earlier settings."""
    shown = set(HONEST.specs())
    results = [one for one in read_results(ARCHIVES / "honest.jsonl.xz") if one.spec in shown]
    return by_row(results, GRAPHS), by_row(results, NINE)


def page_row(name):
    """Row of the page: GREAD-X, its ensemble if there is one, the tuned GCN, and p."""
    (cells,) = re.findall(rf"^\| {re.escape(name)} \|(.+)\|$", PAGE, re.M)
    ours, theirs, chance, _ = (cell.replace("*", "").strip() for cell in cells.split("|"))
    first, _, ensemble = ours.partition(", ensemble ")
    return first, ensemble, theirs, chance


@pytest.mark.parametrize("name", NAMES)
def test_row_of_a_graph_equals_the_means_of_committed_runs(name, tables):
    rows, dataset = tables[0], NAMES[name]
    ours, ensemble, theirs, chance = page_row(name)
    title = MODELS[OURS].title
    assert rows[title][dataset].startswith(f"{ours} ±")
    assert rows[MODELS[REFERENCE].title][dataset].startswith(f"{theirs} ±")
    if ensemble:
        assert rows[f"– {title}, ensemble"][dataset].startswith(f"{ensemble} ±")
    exact = rows["p, paired t-test over splits"][dataset]
    assert chance == exact or float(chance) == round(float(exact), 2)


def test_averages_of_the_nine_graphs_equal_those_of_committed_runs(tables):
    rows = tables[1]
    for name, ending in (
        ("average of the paper's nine graphs", ""),
        ("– ensemble of three seeds", ", ensemble"),
    ):
        prefix = "– " if ending else ""
        found = [f"{prefix}{MODELS[model].title}{ending}" for model in (OURS, REFERENCE)]
        assert [rows[title]["average"] for title in found] == [page_row(name)[0], page_row(name)[2]]


@pytest.mark.parametrize("title", ["GREAD-X", "GCN, tuned"])
def test_row_of_the_larger_search_equals_the_means_of_committed_runs(title):
    shown = set(larger.specs())
    files = [ARCHIVES / f"{name}.jsonl.xz" for name in ("honest", "larger")]
    known = {one.spec: one for file in files for one in read_results(file)}
    assert shown <= known.keys()
    rows = [[cell.text for cell in row] for row in larger.render([known[s] for s in shown]).rows]
    place = next(k for k, row in enumerate(rows) if row[0] == f"{title}, larger search")
    (cells,) = re.findall(rf"^\| {title}, larger search \|(.+)\|$", PAGE, re.M)
    texts = [cell.replace("*", "").strip() for cell in cells.split("|")]
    exact = zip(rows[place][1:], rows[place + 1][1:], strict=True)
    assert texts == [f"{m.split()[0]}, ensemble {e.split()[0]}" for m, e in exact]
