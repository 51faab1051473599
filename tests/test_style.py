"""The measurable part of how we write: docs, docstrings and help."""

import ast
import re
from pathlib import Path

import pytest

from studies.build_commands import contexts

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\b(nobody|anew|to and fro|beside|so many|the like|what is known of|by itself|whatever|luck"
    r"|asks|knows|is told|sees to it)\b",
    re.IGNORECASE,
)
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SOURCES = sorted((ROOT / "gread").rglob("*.py"))
COMMANDS = {context.command_path: context for context in contexts()}


def prose(text: str) -> str:
    """Markdown without code and without the targets of links."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_plain(page):
    found = WORDS.findall(prose(page.read_text("utf-8")))
    assert found == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_complete_and_unique(command):
    context = COMMANDS[command]
    own = [one for one in context.command.get_params(context) if one.name != "help"]
    texts = [one.help or "" for one in own]
    assert all(texts), [one.name for one in own if not one.help]
    assert len(set(texts)) == len(texts), sorted(text for text in texts if texts.count(text) > 1)
    found = WORDS.findall(" ".join([context.command.help or "", *texts]))
    assert found == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_first_lines_of_docstrings_are_short_sentences(source):
    tree = ast.parse(source.read_text("utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    firsts = [text.splitlines()[0] for text in texts if text]
    wrong = [line for line in firsts if len(line) > 100 or not line.endswith(".")]
    assert wrong == []
