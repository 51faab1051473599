"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_HIDDEN = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_HIDDEN |= set(range(0xD800, 0xE000))  # bytes of a name that are no text, which cannot be printed
_VISIBLE = {code: repr(chr(code))[1:-1] for code in _HIDDEN - set(map(ord, "\n\t"))}


class PlainConsole(Console):
    """Shows names as they are: a file may hold any, and none may style, hide or steer anything.

    So brackets and colons are no markup, and characters that control a terminal can be seen.
    """

    def __init__(self, **options: Any):
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `rich.console.Console`."""
        return super().render_str(text.translate(_VISIBLE), **options)


out = PlainConsole()
err = PlainConsole(stderr=True)


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C is a way to stop, not an error; what others print meanwhile is no result."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except BaseException as error:
        if not _stopped(error):
            raise
        err.print("gread: stopped; what is done is stored, and the same command goes on from there")
        raise typer.Exit(130) from None


def _stopped(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: Optuna, stopped while it lets go of a lock, fails at that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C leaves nothing half-written."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("gread: stopped; nothing is written")
        raise typer.Exit(130) from None


class LazyProgress(Progress):
    """Bars that appear with the first progress: what fails before prints its sentence alone."""

    def start(self) -> None:
        """Wait: `update` starts it."""

    def stop(self) -> None:
        """See `rich.progress.Progress`."""
        if self.live.is_started:
            super().stop()

    def update(self, task_id: TaskID, **options: Any) -> None:
        """See `rich.progress.Progress`."""
        super().start()
        super().update(task_id, **options)


def bar() -> Progress:
    """A bar on standard error, so that standard output stays clean."""
    return LazyProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def weighted_bar() -> Progress:
    """A bar for work whose parts differ in length: it moves by seconds, its text tells the rest."""
    return LazyProgress(
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


def percent(share: float | None) -> str:
    """A share of 1 as it is shown in tables."""
    return "–" if share is None else f"{100 * share:.2f}"
