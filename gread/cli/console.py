"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

out = Console()
err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


def bar() -> Progress:
    """A bar on standard error, so that standard output stays clean."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def weighted_bar() -> Progress:
    """A bar for work whose parts differ in length: it moves by seconds, its text tells the rest."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def print_json(value: Any) -> None:
    """Indented, for a program or a person."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))
