"""Modules that are executed when they are first used."""

import importlib
import sys

import pytest

from gread.base import lazy


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that notes when it is executed, as one of `POSTPONED`."""
    folder = tmp_path / "late"
    folder.mkdir()
    (folder / "__init__.py").write_text("import sys\nsys.executed = True\nvalue = 7\n")
    (folder / "part.py").write_text("from late import value\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lazy, "POSTPONED", ("late",))
    monkeypatch.setattr(sys, "executed", False, raising=False)
    lazy.postpone()
    importlib.invalidate_caches()
    yield "late"
    for name in [name for name in sys.modules if name.partition(".")[0] == "late"]:
        del sys.modules[name]


def test_a_module_is_executed_when_an_attribute_is_used(package):
    module = importlib.import_module(package)
    assert module.__file__.endswith("__init__.py")
    assert not sys.executed
    assert module.value == 7
    assert sys.executed
    assert type(module) is type(sys)
    assert not hasattr(module, "other")


def test_it_is_executed_before_its_submodules(package):
    importlib.import_module(package)
    assert not sys.executed
    assert importlib.import_module(f"{package}.part").value == 7
    assert sys.executed


def test_one_finder_is_enough():
    before = list(sys.meta_path)
    lazy.postpone()
    assert sys.meta_path == before
