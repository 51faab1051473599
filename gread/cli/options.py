"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from gread.base.errors import InputError

Model = Annotated[str, typer.Option(help="A model: gread list models.")]
Splits = Annotated[str, typer.Option(help="For instance 0-9 or 0,3,5.")]
Seeds = Annotated[str, typer.Option(help="Likewise.")]
Label = Annotated[str, typer.Option(metavar="COLUMN", help="The class; empty where unknown.")]
Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="Of the edges' weights.")]
Directed = Annotated[bool, typer.Option("--directed", help="Edges have one direction.")]
Device = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:1, ...; auto takes a GPU if there is one.")
]
ExecutorName = Annotated[
    str, typer.Option(metavar="NAME", help="local, or ray[=ADDRESS]: as tasks of a Ray cluster.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="On a GPU too, the same bytes every time; slower.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]
Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="Where results are stored.")]
STORE = Path("runs/store")

MOST_NUMBERS = 100_000
"""Of splits or of seeds."""


def into(help: str, metavar: str = "DIR") -> Any:
    """The option ``--out``."""
    return typer.Option("--out", metavar=metavar, help=help)


def names_in(registry: str) -> str:
    """The names in a registry ``module:NAME``, for a help text.

    Annotations are evaluated when the command is used, so that others do without the module.
    """
    module, _, name = registry.partition(":")
    return ", ".join(getattr(import_module(module), name))


def imports_of(context: typer.Context) -> list[str]:
    """The modules of ``gread --import``, which other processes import too."""
    return context.find_root().params["imports"] or []


def settings_of(texts: list[str] | None) -> dict[str, Any]:
    """The settings of ``--set``, by name."""
    return dict(map(setting, texts or []))


def setting(text: str) -> tuple[str, Any]:
    """``key=value``; the value as JSON where it is some, else as it stands."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"--set must be KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or numbers and nesting without end
        return key, value


def numbers(name: str, text: str) -> list[int]:
    """``0-3,7`` is 0, 1, 2, 3, 7."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = first.strip(), last.strip() if dash else first.strip()
        if not all(end.isdecimal() and len(end) < 10 for end in ends):
            raise InputError(f"--{name} must be numbers like 0-9 or 0,3,5, got {text!r:.80}")
        part_of = range(int(ends[0]), int(ends[1]) + 1)
        if len(found) + len(part_of) > MOST_NUMBERS:
            raise InputError(f"--{name} must be {MOST_NUMBERS:,} numbers at most, got {text!r:.80}")
        found += part_of
    return found
