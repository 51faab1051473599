"""Modules that are executed when they are first used."""

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from gread.base import lazy


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that notes when it is executed, as one of `POSTPONED`."""
    folder = tmp_path / "late"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import sys, time\nsys.executed = True\ntime.sleep(0.05)\n"
        "from late import part\nvalue = 7\n"
    )
    (folder / "part.py").write_text("import late\nhalf = not hasattr(late, 'value')\n")
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
    part = importlib.import_module(f"{package}.part")
    assert sys.executed
    assert part.half  # it was loaded once, within the execution of the package
    assert part is sys.modules[package].part
    assert part.__spec__.loader is part.__loader__


def test_threads_see_a_complete_module(package):
    module = importlib.import_module(package)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: module.value, range(4))) == [7] * 4


def test_a_failed_execution_is_repeated(package, tmp_path):
    file = tmp_path / "late" / "__init__.py"
    file.write_text("import missing_module\n")
    module = importlib.import_module(package)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="missing_module"):
            module.value  # noqa: B018


def test_one_finder_is_enough():
    before = list(sys.meta_path)
    lazy.postpone()
    assert sys.meta_path == before
