"""What is fuzzed: every parser, with what it is given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from gread.base.errors import InputError
from gread.base.registry import Registry

OURS = (InputError, OSError, ArithmeticError)
"""What a user may be told; the command makes one sentence of each."""


class Target(NamedTuple):
    """One parser.

    Attributes:
        cases: What it is given.
        read: Reads a case, in a folder of its own; it may raise `OURS` and nothing else.
        times: How often, for the page.
    """

    cases: SearchStrategy[Any]
    read: Callable[[Path, Any], object]
    times: int


TARGETS: Registry[Target] = Registry("fuzzed parser")


def target(
    name: str, cases: SearchStrategy[Any], times: int
) -> Callable[[Callable[[Path, Any], object]], Callable[[Path, Any], object]]:
    """Enters the reader below it."""

    def decorate(read: Callable[[Path, Any], object]) -> Callable[[Path, Any], object]:
        TARGETS.add(name, Target(cases, read, times))
        return read

    return decorate
