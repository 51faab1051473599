"""Output of commands: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, is_dataclass
from typing import Any

import typer
from rich import progress
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from gread.base.progress import bar as bar_on

_HIDDEN = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_HIDDEN |= set(range(0xD800, 0xE000))  # surrogates (undecodable bytes of a name) cannot be printed
_VISIBLE = {code: repr(chr(code))[1:-1] for code in _HIDDEN - set(map(ord, "\n\t"))}


class PlainConsole(Console):
    """Console that prints names from files literally.

    Brackets and colons are not markup, numbers have no colour, and control characters are shown as
    escapes.
    """

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `rich.console.Console`."""
        return super().render_str(text.translate(_VISIBLE), **options)


out = PlainConsole()
err = PlainConsole(stderr=True)


@contextmanager
def resumable() -> Iterator[None]:
    """End on Ctrl-C with a message, and redirect other prints to standard error."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except BaseException as error:
        if not _stopped(error):
            raise
        err.print("gread: stopped; finished runs are stored, and the same command continues")
        raise typer.Exit(130) from None


def _stopped(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused the error; Optuna raises another one if it holds a lock."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def stoppable() -> Iterator[None]:
    """End on Ctrl-C with a message; nothing is half-written."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("gread: stopped; nothing was written")
        raise typer.Exit(130) from None


def bar(weighted: bool = False) -> progress.Progress:
    """A progress bar on standard error; see `gread.base.progress`."""
    return bar_on(err, weighted)


def note(text: object) -> None:
    """Print a line on standard error without wrapping, so that a path in it can be copied."""
    err.print(text, soft_wrap=True)


def print_table(
    columns: Iterable[str | Column], rows: Iterable[Iterable[object]], **options: Any
) -> None:
    """Print a table; options as in `rich.table.Table`."""
    table = Table(*columns, **options)
    for row in rows:
        table.add_row(*map(str, row))
    out.print(table)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    known = is_dataclass(value) and not isinstance(value, type)
    return asdict(value) if known else str(value)
