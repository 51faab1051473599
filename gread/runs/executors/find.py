"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable

from gread.base.registry import Registry
from gread.runs.executors.job import Executor
from gread.runs.executors.local import Local
from gread.runs.executors.ray import Ray

EXECUTORS: Registry[Callable[[str], Executor]] = Registry("executor", {"local": Local, "ray": Ray})
"""Functions from an address (or an empty string) to an executor."""


def find_executor(text: str) -> Executor:
    """Executor for ``NAME`` or ``NAME=ADDRESS``.

    Example:
        >>> find_executor("local").choose_device("cpu")
        'cpu'
    """
    name, _, address = text.partition("=")
    return EXECUTORS[name](address)
