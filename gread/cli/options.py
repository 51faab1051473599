"""Options of commands: help texts and parsers."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from gread.base.errors import InputError
from gread.base.toml import read_toml

STORE = Path("runs/store")

MOST_NUMBERS = 100_000
"""Largest number of splits, and of seeds."""


def described(function: Callable[..., None]) -> Callable[..., None]:
    """Add the help of ``help.toml`` to the arguments of a command, as typer expects it."""
    help_of = read_toml("cli", "help.toml")
    assert help_of is not None
    own = help_of.get(function.__name__.rstrip("_"), {})
    signature = inspect.signature(function)
    parameters = [
        parameter
        if parameter.name == "context"
        else _declared(parameter, own.get(parameter.name) or help_of["every"][parameter.name])
        for parameter in signature.parameters.values()
    ]

    @wraps(function)
    def run(**arguments: Any) -> None:
        function(**arguments)

    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    return run


def _declared(parameter: inspect.Parameter, entry: str | Mapping[str, Any]) -> inspect.Parameter:
    """The parameter with a `typer.Option` or `typer.Argument` as its default."""
    options = {"help": entry} if isinstance(entry, str) else dict(entry)
    options["help"] = re.sub(r"\{([\w.]+):(\w+)\}", _names, options["help"])
    required = parameter.default is inspect.Parameter.empty
    default = ... if required else parameter.default
    if options.pop("argument", False):
        return parameter.replace(default=typer.Argument(default, **options))
    flag = options.pop("flag", "--" + parameter.name.replace("_", "-"))
    return parameter.replace(default=typer.Option(default, flag, **options))


def _names(registry: re.Match[str]) -> str:
    """The names in a registry, which is imported only when the command is used."""
    return ", ".join(getattr(import_module(registry[1]), registry[2]))


def imports_of(context: typer.Context) -> list[str]:
    """The modules of ``gread --import``; worker processes import them too."""
    return context.find_root().params["imports"] or []


def settings_of(texts: list[str] | None) -> dict[str, Any]:
    """Parse the values of ``--set``."""
    return dict(map(setting, texts or []))


def setting(text: str) -> tuple[str, Any]:
    """Parse ``key=value``; a value that is not JSON is text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"--set must be KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):  # not JSON, or numbers and nesting beyond limits
        return key, value


def numbers(name: str, text: str) -> list[int]:
    """Parse a list of numbers: ``0-3,7`` is 0, 1, 2, 3, 7; repeated ones count once."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = first.strip(), last.strip() if dash else first.strip()
        if not all(end.isdecimal() and len(end) < 10 for end in ends):
            raise InputError(f"--{name} must be numbers like 0-9 or 0,3,5, got {text!r:.80}")
        if int(ends[0]) > int(ends[1]):
            raise InputError(f"--{name} must be rising ranges like 0-9, got {text!r:.80}")
        part_of = range(int(ends[0]), int(ends[1]) + 1)
        if len(found) + len(part_of) > MOST_NUMBERS:
            raise InputError(f"--{name} must be {MOST_NUMBERS:,} numbers at most, got {text!r:.80}")
        found += part_of
    return list(dict.fromkeys(found))
