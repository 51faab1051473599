"""The numbers of docs/reproducibility.md are those of the committed runs."""

import lzma
import re
from pathlib import Path

import pytest

from gread.experiments.accuracy import DATASETS, PAPER, summary
from gread.experiments.settings import specs_of
from gread.runs.archive import ARCHIVES, read_results

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproducibility.md").read_text("utf-8")


def row(name):
    """Row of the first table of the page as numbers, the average last."""
    (cells,) = re.findall(rf"^\| {re.escape(name)}.*? \|(.+)\|$", PAGE, re.M)
    return [float(cell.strip(" *")) for cell in cells.split("|")]


def test_figures_page_reports_the_number_of_committed_runs():
    files = ARCHIVES.glob("*.jsonl.xz")
    counts = {file.name: lzma.decompress(file.read_bytes()).count(b"\n") for file in files}
    text = " ".join((ROOT / "docs" / "figures.md").read_text("utf-8").split())
    paper = r"All ([\d,]+) runs .+?: ([\d,]+) of .+?, (\d+) of the s"
    counted = paper + r".+? ([\d,]+) of the h.+? ([\d,]+) of the l.+? ([\d,]+) of the f"
    found = re.search(counted, text)
    listed = [int(number.replace(",", "")) for number in found.groups()]
    others = [counts[f"{name}.jsonl.xz"] for name in ("search", "honest", "larger", "fair")]
    total = sum(counts.values())
    assert listed == [total, total - sum(others), *others]


@pytest.fixture(scope="module")
def committed():
    files = ARCHIVES.glob("*.jsonl.xz")
    return {result.spec: result for file in files for result in read_results(file)}


def test_first_row_equals_the_accuracies_of_the_paper():
    printed = [PAPER["GREAD-BS"][name][0] for name in DATASETS]
    assert row("the paper prints")[:-1] == printed


@pytest.mark.parametrize(
    ("name", "source"),
    [("ours with those settings, as in", "published"), ("**ours tuned", "tuned")],
)
def test_our_rows_equal_the_means_of_committed_runs(name, source, committed):
    runs = [committed[spec] for spec in specs_of(source) if spec.model == "gread-bs"]
    means = [summary(runs)["GREAD-BS"][name][0] for name in DATASETS]
    assert row(name)[:-1] == pytest.approx(means, abs=0.006)
    assert row(name)[-1] == pytest.approx(sum(means) / len(means), abs=0.006)
