"""Progress: a bar in a terminal or a notebook, otherwise a line every few seconds."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import progress
from rich.console import Console

if TYPE_CHECKING:
    from typing_extensions import Self

EVERY = 15.0
"""Seconds between lines without a terminal."""


class LazyProgress(progress.Progress):
    """Progress bars that appear with the first update, so that an early error is printed alone."""

    def start(self) -> None:
        """Wait: `update` starts it."""

    def stop(self) -> None:
        """See `rich.progress.Progress`."""
        if self.live.is_started:
            super().stop()

    def update(self, task_id: progress.TaskID, **options: Any) -> None:
        """See `rich.progress.Progress`."""
        super().start()
        super().update(task_id, **options)


def bar(console: Console, weighted: bool = False) -> progress.Progress:
    """A progress bar that disappears at the end.

    Args:
        console: Console to print on.
        weighted: Count seconds instead of parts, for parts that differ in length.
    """
    return LazyProgress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn() if weighted else progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class Stages:
    """Progress of a computation with several stages.

    Without a terminal, a line is printed every `EVERY` seconds; a short computation prints none.

    Args:
        console: Console to print on.

    Example:
        >>> with Stages(Console(quiet=True)) as shown:
        ...     shown.stage("training", total=2)
        ...     shown.update("epoch 1", completed=1)
    """

    def __init__(self, console: Console):
        self.console = console
        self.bar = bar(console) if console.is_terminal or console.is_jupyter else None
        self.text, self._done = "", threading.Event()

    def __enter__(self) -> Self:
        if self.bar is None:
            self._began = time.monotonic()
            self._lines = threading.Thread(target=self._print_lines, daemon=True)
            self._lines.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
            return
        self._done.set()
        self._lines.join()

    def stage(self, text: str, total: int | None = None) -> None:
        """Begin a stage of ``total`` parts, or of an unknown number."""
        self.text = text
        if self.bar is not None:
            for task in self.bar.tasks:
                task.visible = False
            self.bar.update(self.bar.add_task(text, total=total))

    def update(self, text: str, completed: int | None = None) -> None:
        """Report the progress of the stage."""
        self.text = text
        if self.bar is not None:
            self.bar.update(self.bar.tasks[-1].id, description=text, completed=completed)

    def _print_lines(self) -> None:
        while not self._done.wait(EVERY):
            if self.text:
                seconds = time.monotonic() - self._began
                self.console.print(f"{seconds:.0f} s: {self.text}", soft_wrap=True)
