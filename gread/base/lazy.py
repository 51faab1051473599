"""Lazy imports of names."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy(package: str) -> None:
    """Import the names under ``if TYPE_CHECKING`` of a package when they are first used.

    Importing torch and PyG takes seconds, and many commands and scripts need neither. The block is
    read from the source, so each name is written once.
    """
    module = sys.modules[package]
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    homes = {
        alias.asname: (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname
    }
    module.__dict__["__all__"] = list(homes)  # for ``import *``
    module.__class__ = type("LazyPackage", (_LazyPackage,), {"homes": homes})


class _LazyPackage(ModuleType):
    homes: dict[str, tuple[str, str]]

    def __getattr__(self, name: str) -> Any:
        if name not in self.homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home, origin = self.homes[name]
        found = getattr(import_module(home), origin)
        super().__setattr__(name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Python binds a submodule to its package: `gread.runs.launch` would be the module, not the
        # function in it.
        if not (name in self.homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.homes})


SELDOM_USED = ("torch._dynamo", "torch_geometric.datasets")
"""Modules that PyG imports and few programs use; importing them takes as long as PyTorch itself."""


def import_pyg_quickly() -> None:
    """Make later imports of PyG skip the modules in `SELDOM_USED`.

    Each is imported on first use: torch._dynamo by PyTorch's module-level ``__getattr__``, and the
    datasets by PyG's lazy loader.
    """
    if not any(isinstance(finder, _PyGFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PyGFinder())


class _PyGFinder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch_geometric":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _PyGLoader(name, spec.loader.path)
        return spec


class _PyGLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with _left_out(*SELDOM_USED) as names:
            super().exec_module(module)
        for name in names:
            package, _, local = name.partition(".")
            if package == self.name:
                loader = import_module("torch_geometric.lazy_loader").LazyLoader
                module.__dict__[local] = loader(local, vars(module), name)


@contextmanager
def _left_out(*names: str) -> Iterator[set[str]]:
    """Replace modules that are not imported yet by empty ones, and yield their names."""
    empty = {name: ModuleType(name) for name in names if name not in sys.modules}
    sys.modules.update(empty)
    try:
        yield set(empty)
    finally:
        for name in empty:
            del sys.modules[name]


class Reference:
    """A class or function ``"module:name"`` that is imported when it is called or inspected.

    ``fixed`` are default keyword arguments of every call.

    Example:
        >>> root = Reference("math:sqrt")
        >>> root(4.0), list(inspect.signature(root).parameters)
        (2.0, ['x'])
    """

    def __init__(self, path: str, **fixed: Any):
        self.path, self.fixed = path, fixed

    @cached_property
    def target(self) -> Any:
        """The class or function."""
        module, name = self.path.split(":")
        return getattr(import_module(module), name)

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Keyword-only arguments and their defaults, read from the source without an import."""
        module, name = self.path.split(":")
        known = _definitions(module)
        found = known[name]
        while isinstance(found, ast.ClassDef):  # the constructor may be inherited
            parts = {part.name: part for part in found.body if isinstance(part, ast.FunctionDef)}
            found = parts.get("__init__") or known[ast.unparse(found.bases[0])]
        return {
            argument.arg: inspect.Parameter.empty if default is None else ast.literal_eval(default)
            for argument, default in zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True)
        }

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.target)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the class or function."""
        return self.target(*arguments, **{**self.fixed, **options})


@lru_cache
def _definitions(module: str) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """Classes and functions of a module, without importing it."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    return {
        part.name: part for part in tree.body if isinstance(part, ast.ClassDef | ast.FunctionDef)
    }
