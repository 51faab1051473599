"""The measurable rules of our English: documentation, help, docstrings and comments."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from studies.build_commands import contexts

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\b(nobody|anew|to and fro|beside|so many|the like|what is known of|by itself|whatever|luck"
    r"|asks|knows|is told|sees to it)\b",
    re.IGNORECASE,
)
LONGEST = 30
"""Largest number of words of a sentence, outside code and parentheses; the aim is 25."""

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = [ROOT / name for name in ("gread", "studies", "tests", "examples")]
SOURCES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
OTHERS = sorted(path for kind in ("js", "css", "toml") for path in ROOT.glob(f"gread/**/*.{kind}"))
PLACES = sorted({path.parent for path in (*SOURCES, *OTHERS)})
COMMANDS = {context.command_path: context for context in contexts()}


def name(path: Path) -> str:
    """Path in the repository."""
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Markdown without code and without the targets of links."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def sentences(text: str) -> Iterator[str]:
    """Sentences of Markdown, without headings, indented lines, tables and parentheses."""
    lines = re.sub(r"^(?: {4}|#|\s*\|).*$", "", prose(text), flags=re.MULTILINE)
    for block in re.split(r"\n\s*(?:\n|[-*] |\d+\. )", lines):
        whole = re.sub(r"\([^()]*\)", "", " ".join(block.split()))
        yield from re.split(r"(?<=[.:;!?])\W* (?=\W*\w)", whole)


def docstrings(source: Path) -> list[str]:
    """Docstrings of a module, its classes and functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(source.read_text("utf-8"))
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [text for text in found if text]


def comments(path: Path) -> list[str]:
    """Comments of a file in Python, TOML, JavaScript or CSS."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [token.string for token in tokens if token.type == tokenize.COMMENT]
    pattern = r"(?:^|\s)# .*" if path.suffix == ".toml" else r"(?:^|\s)// .*|/\*[\s\S]*?\*/"
    return re.findall(pattern, text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_are_plain(page):
    text = prose(page.read_text("utf-8"))
    assert WORDS.findall(text) == []
    assert re.findall(r"\bcolor\w*|\bneighbor\w*", text) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sentences_are_short_and_lead_with_their_subject(page):
    found = list(sentences(page.read_text("utf-8")))
    words = {one: re.findall(r"(?:^|(?<=\s))\W*[^\W\d_]{2}\S*", one) for one in found}
    assert [one for one in found if len(words[one]) > LONGEST] == []
    assert [one for one in found if re.match(r"(?:What\b.* (?:is|are)|Where)\b", one)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_complete_and_unique(command):
    context = COMMANDS[command]
    own = [one for one in context.command.get_params(context) if one.name != "help"]
    texts = [one.help or "" for one in own]
    assert all(texts), [one.name for one in own if not one.help]
    assert len(set(texts)) == len(texts), sorted(text for text in texts if texts.count(text) > 1)
    found = WORDS.findall(" ".join([context.command.help or "", *texts]))
    assert found == []


def found_in(
    folder: Path, paths: list[Path], texts: Callable[[Path], list[str]]
) -> dict[str, list[str]]:
    """Texts of the files of a folder, by file."""
    return {name(path): texts(path) for path in paths if path.parent == folder}


@pytest.mark.parametrize("folder", PLACES, ids=name)
def test_docstrings_are_plain_and_begin_with_a_short_sentence(folder):
    for file, texts in found_in(folder, SOURCES, docstrings).items():
        firsts = [text.splitlines()[0] for text in texts]
        assert [line for line in firsts if len(line) > 100 or not line.endswith(".")] == [], file
        assert [text for text in texts if WORDS.search(text)] == [], file


@pytest.mark.parametrize("folder", PLACES, ids=name)
def test_comments_are_plain(folder):
    for file, texts in found_in(folder, [*SOURCES, *OTHERS], comments).items():
        assert [text for text in texts if WORDS.search(text)] == [], file
