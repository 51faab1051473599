"""What the documentation says is so."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import FRESH

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
SNIPPETS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def run_script(script: Path, folder: Path) -> tuple[int | None, str, str]:
    """How a script ends, what it prints and its errors, in a process and a folder of its own."""
    written = [folder / "printed", folder / "errors"]
    process = FRESH.Process(target=_run, args=(script, folder, written))
    process.start()
    process.join()
    printed, errors = (path.read_text() for path in written)
    return process.exitcode, printed, errors


def _run(script: Path, folder: Path, written: list[Path]) -> None:
    for number, path in enumerate(written, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    sys.argv[:] = [str(script)]
    runpy.run_path(str(script), run_name="__main__")


def test_catalogue_is_what_is_registered():
    made = runpy.run_path(str(ROOT / "docs" / "build_catalogue.py"))["catalogue"]()
    assert (ROOT / "docs" / "catalogue.md").read_text() == made, "run: make docs"


def test_every_symbol_of_the_paper_map_exists():
    symbols = re.findall(r"`(gread\.[\w.]+)`", (ROOT / "docs" / "paper-map.md").read_text())
    assert len(symbols) > 10
    for symbol in symbols:
        module, _, name = symbol.rpartition(".")
        assert hasattr(importlib.import_module(module), name), symbol


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(code)
    ended, _, errors = run_script(script, tmp_path)
    assert ended == 0, errors


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run_from_top_to_bottom(tutorial, tmp_path):
    blocks = re.findall(r"```(python|sh)\n(.*?)```", tutorial.read_text(), re.DOTALL)
    command = f'set -e\ngread() {{ "{sys.executable}" -m gread "$@"; }}\n'
    for language, code in blocks:
        if language == "python":
            script = tmp_path / "block.py"
            script.write_text(code)
            ended, _, errors = run_script(script, tmp_path)
        else:
            shell = ["sh", "-c", command + code]
            result = subprocess.run(shell, capture_output=True, text=True, cwd=tmp_path)
            ended, errors = result.returncode, result.stderr
        assert ended == 0, f"{code}\n{errors}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    ended, printed, errors = run_script(example, tmp_path)
    assert ended == 0, errors
    assert printed


@pytest.mark.parametrize("page", [*PAGES, *TUTORIALS], ids=lambda path: path.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
