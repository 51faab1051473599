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
"""Seconds between printed lines if there is no terminal."""

REFRESH = 1.0
"""Seconds between two updates of a bar."""


class LazyProgress(progress.Progress):
    """Progress bars that appear with the first update, so an early error is shown without a bar."""

    def start(self) -> None:
        """Do nothing; `update` starts the display."""

    def stop(self) -> None:
        """See `rich.progress.Progress`."""
        if self.live.is_started:
            super().stop()

    def update(self, task_id: progress.TaskID, **options: Any) -> None:
        """See `rich.progress.Progress`."""
        super().start()
        super().update(task_id, **options)


def bar(console: Console, weighted: bool = False) -> progress.Progress:
    """Create a progress bar that disappears at the end.

    Args:
        console: Console to print on.
        weighted: Whether to show a percentage instead of a count, for parts that differ in length.
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
        self.text, self.completed = "", 0
        self._done, self._began = threading.Event(), time.monotonic()
        self._clock = threading.Thread(target=self._follow_time, daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._clock.join()
        if self.bar is not None:
            self.bar.stop()

    def stage(self, text: str, total: int | None = None) -> None:
        """Begin a stage of ``total`` parts, or of an unknown number."""
        self.text, self.completed = text, 0
        if self.bar is not None:
            for task in self.bar.tasks:
                task.visible = False
            self.bar.update(self.bar.add_task(text, total=total))

    def update(self, text: str, completed: int = 0) -> None:
        """Report the progress of the stage."""
        self.text, self.completed = text, completed
        self._show()

    def now(self) -> tuple[str, int]:
        """Text of the stage, and the number of its parts that are completed."""
        return self.text, self.completed

    def _show(self) -> None:
        if self.bar is not None and self.bar.tasks:
            text, completed = self.now()
            self.bar.update(self.bar.tasks[-1].id, description=text, completed=completed)

    def _follow_time(self) -> None:
        while not self._done.wait(EVERY if self.bar is None else REFRESH):
            if self.bar is not None:
                self._show()
            elif self.text:
                seconds = time.monotonic() - self._began
                self.console.print(f"{seconds:.0f} s: {self.now()[0]}", soft_wrap=True)
