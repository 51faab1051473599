"""Registries: mappings from names to entries, with a decorator and helpful errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Generic, TypeVar

from gread.base.errors import InputError

T = TypeVar("T")
S = TypeVar("S")


class UnknownName(InputError, KeyError):
    """Raised if a name is not registered."""

    def __str__(self) -> str:  # KeyError would show the sentence in quotes
        return str(self.args[0])


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to entries of one kind.

    An unknown name raises an error that names the kind and lists the registered names.

    Example:
        >>> shapes = Registry("shape", {"disc": 1})
        >>> shapes["disk"]  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        ...
        UnknownName: unknown shape 'disk', did you mean 'disc'? Choose from: disc
    """

    def __init__(self, kind: str, entries: Mapping[str, T] | None = None):
        self.kind = kind
        self._entries: dict[str, T] = dict(entries or {})
        self._followers: list[Callable[[str, T], None]] = []

    def register(self, name: str) -> Callable[[S], S]:
        """Return a decorator that registers an entry under ``name`` and returns it unchanged."""

        def decorate(entry: S) -> S:
            self.add(name, entry)  # type: ignore[arg-type]  # S is always a T
            return entry

        return decorate

    def add(self, name: str, entry: T) -> None:
        """Register ``entry``; a registered name raises an error."""
        if name in self._entries:
            raise InputError(f"{self.kind} {name!r} is registered already; choose another name")
        self._entries[name] = entry
        for follow in self._followers:
            follow(name, entry)

    def follow(self, derive: Callable[[str, T], None]) -> None:
        """Call ``derive(name, entry)`` for every entry, including future ones."""
        for name, entry in self.items():
            derive(name, entry)
        self._followers.append(derive)

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        near = get_close_matches(str(name), self._entries, n=1)
        hint = f", did you mean {near[0]!r}? Choose" if near else "; choose"
        choices = ", ".join(self._entries)
        raise UnknownName(f"unknown {self.kind} {name!r}{hint} from: {choices}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
