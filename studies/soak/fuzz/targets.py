"""Targets of fuzzing: every parser with its cases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from gread.base.errors import InputError
from gread.base.registry import Registry

OURS = (InputError, OSError, ArithmeticError)
"""Errors that a user may get; the command prints each as one line."""


class Target(NamedTuple):
    """One parser.

    Attributes:
        cases: Strategy of inputs.
        read: Function that reads a case in a separate folder; it may raise only `OURS`.
        times: Number of cases for the page.
    """

    cases: SearchStrategy[Any]
    read: Callable[[Path, Any], object]
    times: int


TARGETS: Registry[Target] = Registry("fuzzed parser")


def target(
    name: str, cases: SearchStrategy[Any], times: int
) -> Callable[[Callable[[Path, Any], object]], Callable[[Path, Any], object]]:
    """Decorator that registers a reader."""

    def decorate(read: Callable[[Path, Any], object]) -> Callable[[Path, Any], object]:
        TARGETS.add(name, Target(cases, read, times))
        return read

    return decorate
