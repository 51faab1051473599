"""Commands, code and numbers of the documentation are correct."""

import csv
import importlib
import json
import re
import runpy
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

import gread
from gread.base.registry import Registry
from tests.processes import Forked

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PAGES = [*ROOT.glob("*.md"), *sorted(set((ROOT / "docs").rglob("*.md")) - set(TUTORIALS))]
REFERENCE = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))


def shortened(text: str) -> str:
    """The same code and commands with trainings of two epochs, or of three seconds."""
    text = re.sub(r"(--time )[\d.]+", r"\g<1>0.05", text)  # minutes
    return re.sub(r'(epochs(?:"?: ?|=| = | ))\d+', r"\g<1>2", text)


SNIPPETS = [
    pytest.param(shortened(code), id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def test_catalogue_page_matches_the_registries():
    made = runpy.run_path(str(ROOT / "studies" / "build_catalogue.py"))["catalogue"]()
    assert (ROOT / "docs" / "catalogue.md").read_text() == made, "run: make docs"


@pytest.mark.parametrize("name", gread.__all__)
def test_every_public_name_has_a_reference_with_an_example(name):
    assert REFERENCE.count(f"::: gread.{name}\n") == 1
    found = getattr(gread, name)
    described = not isinstance(found, Registry) and ">>>" in found.__doc__
    assert described or re.search(rf"```python\n[^`]*gread\.{name}\b", REFERENCE)


def test_every_symbol_of_the_paper_map_exists():
    symbols = re.findall(r"`(gread\.[\w.]+)`", (ROOT / "docs" / "paper-map.md").read_text())
    assert len(symbols) > 10
    for symbol in symbols:
        module, _, name = symbol.rpartition(".")
        assert hasattr(importlib.import_module(module), name), symbol


def test_results_in_the_readme_are_the_committed_ones():
    with (ROOT / "results" / "table-8.csv").open(encoding="utf-8") as file:
        means = [[cell.partition(" ± ")[0] for cell in row] for row in csv.reader(file)]
    committed = {model: values for model, *values in means}
    for (model, *_), (kind, *values) in pairwise(means):
        committed[f"{model}, {kind.removeprefix('– ')}"] = values
    shown = re.findall(r"^\| (\w.*?) \| (.*\d) \|$", (ROOT / "README.md").read_text(), re.M)
    assert shown
    assert all(committed[model] == values.split(" | ") for model, values in shown)


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(code)
    done = Forked(script, cwd=tmp_path).end()
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run_from_top_to_bottom(tutorial, tmp_path):
    blocks = re.findall(r"```(python|sh)\n(.*?)```", shortened(tutorial.read_text()), re.DOTALL)
    script = tmp_path / "block.py"
    for language, code in blocks:
        if language == "python":
            script.write_text(code)
            programs = [[script]]
        else:
            lines = [shlex.split(line) for line in code.splitlines()]
            assert {command for command, *_ in lines} == {"gread"}
            programs = [["-m", *line] for line in lines]
        for program in programs:
            done = Forked(*program, cwd=tmp_path).end()
            assert done.returncode == 0, f"{code}\n{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook, tmp_path):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert '"pip", "install --quiet gread"' in code[0]
    script = tmp_path / "cells.py"
    script.write_text(shortened("\n\n".join(code)), encoding="utf-8")
    done = Forked(script, cwd=tmp_path).end()
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    script = tmp_path / example.name
    script.write_text(shortened(example.read_text("utf-8")), encoding="utf-8")
    done = Forked(script, cwd=tmp_path).end()
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("page", [*PAGES, *TUTORIALS], ids=lambda path: path.stem)
def test_links_between_pages_have_existing_targets(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
