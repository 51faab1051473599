"""A table of the paper is two pure functions: which runs it needs, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gread.registry import Registry
from gread.report.tables import Table
from gread.runs import Result, RunSpec


@dataclass(frozen=True)
class Artefact:
    """Something of the paper to regenerate.

    Attributes:
        specs: The runs behind it.
        render: What is shown of their results; results may be missing.
    """

    specs: Callable[[], Iterable[RunSpec]]
    render: Callable[[Sequence[Result]], Table]


ARTEFACTS: Registry[Artefact] = Registry("artefact")
