"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable

from gread.base.registry import Registry
from gread.runs.executors.job import Executor
from gread.runs.executors.local import Local
from gread.runs.executors.ray import Ray

EXECUTORS: Registry[Callable[[str], Executor]] = Registry("executor", {"local": Local, "ray": Ray})
"""From an address, or nothing, to an executor."""


def find_executor(text: str) -> Executor:
    """The executor that ``NAME`` or ``NAME=ADDRESS`` stands for.

    Example:
        >>> find_executor("local").choose_device("cpu")
        'cpu'
    """
    name, _, address = text.partition("=")
    return EXECUTORS[name](address)
