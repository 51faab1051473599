"""Lazy imports of names."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy(package: str) -> None:
    """Import the names under ``if TYPE_CHECKING`` of a package when they are first used.

    Importing torch and PyG takes seconds, and most commands and many scripts need neither. The
    block is read from the source, so that a name is written once.
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
        # Python binds a submodule to its package: `gread.runs.launch` would be the file and not
        # the function in it.
        if not (name in self.homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.homes})


POSTPONED = ("torch._dynamo", "torch_geometric.datasets")
"""Modules that PyG imports although few programs use them: they take as long as PyTorch."""


class Postponed(ModuleType):
    """A module that is executed when an attribute of it is first used.

    Its ``__path__`` counts as one, so that the module is executed before its submodules.
    """

    def __getattr__(self, name: str) -> Any:
        with _EXECUTION:  # other threads wait until it is complete
            if type(self) is Postponed and "__path__" not in vars(self):
                self._execute()
        return ModuleType.__getattribute__(self, name)

    def _execute(self) -> None:
        spec = self.__spec__
        assert spec is not None and isinstance(spec.loader, _Postpone)
        self.__path__ = spec.submodule_search_locations or []
        try:
            spec.loader.origin.exec_module(self)
        except BaseException:
            del self.__path__  # the next use tries again
            raise
        self.__loader__ = spec.loader = spec.loader.origin
        self.__class__ = ModuleType  # type: ignore[assignment]


_EXECUTION = threading.RLock()


class _Postpone(Loader):
    """Loader of a module that another loader is to execute."""

    def __init__(self, origin: Loader):
        self.origin = origin

    def exec_module(self, module: ModuleType) -> None:
        del module.__path__
        module.__class__ = Postponed


class _Loaded(Loader):
    """Loader of a module that is loaded already."""

    def __init__(self, module: ModuleType):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Postponing(MetaPathFinder):
    """Finder of the modules of `POSTPONED`.

    An import of a submodule executes its package, which may import that submodule: Python would
    then load it a second time.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.rpartition(".")[0] in POSTPONED and name in sys.modules:
            spec = copy.copy(sys.modules[name].__spec__)
            assert spec is not None
            spec.loader = _Loaded(sys.modules[name])
            return spec
        spec = PathFinder.find_spec(name, path, target) if name in POSTPONED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Postpone(spec.loader)
        return spec


def postpone() -> None:
    """Execute the modules of `POSTPONED` when they are first used, and not when imported."""
    if not any(isinstance(finder, _Postponing) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Postponing())


class Reference:
    """A class or function ``"module:name"`` that is imported when it is called or inspected.

    ``fixed`` are arguments of every call.

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
        """Keyword-only arguments with defaults, read from the source without importing it."""
        module, name = self.path.split(":")
        known = _definitions(module)
        found = known[name]
        while isinstance(found, ast.ClassDef):  # the constructor may be that of its base
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
