"""Fuzzing of the command line."""

import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import typer
from hypothesis import strategies as st
from typer.testing import CliRunner

from gread.cli import app
from gread.cli.options import numbers, setting
from studies.soak.fuzz.targets import OURS, target
from studies.soak.fuzz.values import TEXTS, WORDS
from studies.soak.hostile.folders import trained

ARGUMENTS = TEXTS.map(
    lambda text: os.fsdecode(text.replace("\0", "").encode("utf-8", "surrogatepass"))
)
"""Arguments as a shell may pass them: any bytes except zero."""

FEW = {
    "demo": ["--out", "a-file"],
    "bench": ["no-such-section"],
    "explore": ["--export", "page.html"],
    "reproduce": ["--dry-run", "--store", "store"],
    "search": ["--trials", "0", "--store", "store"],
    "report": ["--store", "a-file"],
    "train": ["--epochs", "1", "--splits", "0", "--seeds", "0", "--store", "store"],
    "fit": ["--set", "epochs=1", "--tune", "0"],
    "runs": ["--store", "store"],
    "compare": ["--store", "store"],
}
"""Arguments that end long commands early; the last arguments take precedence."""

KNOWN = [
    *("csbm", "texas", "gread-bs", "gcn", "table-4", "figure-2", "models", "reactions", "all"),
    *("topic", "x", "w", "0", "1", "cpu", "auto", "meta", "random", "balanced", "quick"),
    *("epochs=1", "time=2", "hidden_channels=x", "reaction=3", "solver=exec"),
]
FILES = ["nodes.csv", "edges.csv", "model", "a-file", "space.toml", "nowhere", ".", "store"]


@cache
def _commands() -> dict[str, list[str]]:
    """Every command and its options."""
    group: Any = typer.main.get_command(app)
    return {
        name: [option for parameter in command.params for option in parameter.opts if "-" in option]
        for name, command in group.commands.items()
    }


def _lines() -> st.SearchStrategy[list[str]]:
    values = st.one_of(st.sampled_from(KNOWN), st.sampled_from(FILES), ARGUMENTS)

    def line(name: str) -> st.SearchStrategy[list[str]]:
        option = st.sampled_from([*_commands()[name], "--help", "--no", "-x"])
        part = st.one_of(values.map(lambda v: [v]), st.tuples(option, values).map(list))
        parts = st.lists(part, max_size=5)
        return parts.map(lambda found: [name, *(word for part in found for word in part)])

    return st.sampled_from([*_commands(), *_commands(), "no-such-command"]).flatmap(
        lambda name: line(name) if name in _commands() else st.lists(values, max_size=3)
    )


def _files(folder: Path) -> None:
    (folder / "nodes.csv").write_text(
        "id,topic,x\n" + "".join(f"{k},{'ab'[k % 2]},{k / 3}\n" for k in range(24))
    )
    (folder / "edges.csv").write_text(
        "source,target,w\n" + "".join(f"{k},{(k + 1) % 24},1\n" for k in range(24))
    )
    (folder / "space.toml").write_text("time = [1.0, 2.0]\n")
    (folder / "a-file").write_text("")
    (folder / "model").symlink_to(trained())


@target("command lines", _lines(), 600)
def _command(folder: Path, line: list[str]) -> None:
    if not (folder / "a-file").exists():
        _files(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = CliRunner().invoke(app, [*line, *FEW.get(line[0] if line else "", [])])
    finally:
        os.chdir(before)
    if found.exception is not None and not isinstance(found.exception, (SystemExit, *OURS)):
        raise found.exception
    assert "Traceback" not in found.output


@target(
    "graphs with arbitrary names, diagnosed and fitted by the command",
    st.tuples(TEXTS, TEXTS, TEXTS, st.sampled_from(["diagnose", "diagnose", "fit"])),
    100,
)
def _names(folder: Path, case: Any) -> None:
    """Names of classes, columns and ids in tables, figures and pages."""
    first, second, column, command = case
    place = folder / str(len(list(folder.iterdir())))
    place.mkdir()
    quoted = ['"' + text.replace('"', '""') + '"' for text in (first, second, column)]
    rows = [f"{k},{quoted[k % 2]},{k % 5}" for k in range(24)]
    text = "\n".join([f"id,topic,{quoted[2]}", *rows])
    (place / "n.csv").write_text(text, encoding="utf-8", errors="replace")
    ends = "\n".join(f"{k},{(k + 2) % 24}" for k in range(24))
    (place / "e.csv").write_text(f"source,target\n{ends}")
    files = ["--nodes", str(place / "n.csv"), "--edges", str(place / "e.csv"), "--label", "topic"]
    settings = ["--set", "epochs=1", "--set", "hidden_channels=2"] if command == "fit" else []
    out = str(place / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = CliRunner().invoke(app, [command, *files, *settings, "--out", out])
        if command == "fit" and found.exit_code == 0:
            rest = ["--nodes", files[1], "--edges", files[3], "--out", str(place / "p.csv")]
            found = CliRunner().invoke(app, ["predict", out, *rest])
    if found.exception is not None and not isinstance(found.exception, (SystemExit, *OURS)):
        raise found.exception
    assert "\x1b[2J" not in found.output


SHORT = st.text('0123456789,-=.[]{}" abc²', max_size=12)


@target("--set and --splits", st.one_of(WORDS, SHORT), 12_000)
def _parts(folder: Path, text: str) -> None:
    for parse in (setting, lambda found: numbers("splits", found)):
        try:
            parse(text)
        except OURS:
            continue
