"""Imports of packages and files have one direction; light modules have no heavy dependencies."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gread

PACKAGE = Path(gread.__file__).parent
LAYERS = [
    {"base"},
    {"kernels"},
    {"graph"},
    {"data", "tables", "report"},
    {"dynamics"},
    {"models"},
    {"training"},
    {"distributed"},
    {"runs"},
    {"experiments", "search"},
    {"estimator"},
    {"bench", "explorer"},
    {"cli"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
BELOW = {package: {"base", "graph"} for package in ("data", "tables", "report")}
"""Allowed imports of packages that may not import all lower layers."""

LIGHT = ("gread.base.errors", "gread.base.registry", "gread.base.toml", "gread.base.checks")
LIGHT += ("gread.runs.spec", "gread.runs.result", "gread.runs.store", "gread.models.catalog")
LIGHT += ("gread.data.catalog", "gread.experiments.artefact", "gread.training.config", "gread.cli")
HEAVY = {"torch", "torch_geometric", "scipy", "sklearn", "matplotlib", "pandas", "optuna", "ray"}


@cache
def modules() -> dict[str, Path]:
    """Files of the package by module name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path) -> set[str]:
    """Names that a file imports from the package anywhere, including those given as strings.

    A lazy package lists its public names for type checkers; importing it imports none of them.
    """
    text = path.read_text("utf-8")
    tree, lazy = ast.parse(text), "\nlazy(__name__)" in text
    names = set()
    for block in tree.body:
        if lazy and isinstance(block, ast.If):
            continue
        for node in ast.walk(block):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative imports hide the direction"
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= (
                    {node.value.partition(":")[0]} if node.value.startswith("gread.") else set()
                )
    return {name for name in names if name.partition(".")[0] == "gread"}


@cache
def edges() -> dict[str, set[str]]:
    """For every module, the modules that it imports."""
    return {
        module: {found for name in imports_of(path) if (found := module_of(name))} - {module}
        for module, path in modules().items()
    }


def module_of(name: str) -> str:
    """Module of a name; empty for other strings."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return "" if name == "gread" else name


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_package_has_a_layer():
    packages = {package_of(module) for module in modules()} - {"", "__main__"}
    assert packages == set(LEVEL)


def test_root_has_no_modules_except_init_and_main():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_packages_import_only_from_lower_layers():
    upward = [
        f"{module} imports {other}"
        for module, others in edges().items()
        for other in others
        if (package := package_of(module)) in LEVEL and (below := package_of(other)) != package
        if LEVEL[below] >= LEVEL[package] or below not in BELOW.get(package, LEVEL)
    ]
    assert not upward


def test_modules_have_no_circular_imports():
    try:
        TopologicalSorter(edges()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_module_imports_names_from_the_root_package():
    public = [
        f"{module} imports {name}"
        for module, path in modules().items()
        for name in imports_of(path)
        if name.count(".") == 1 and name not in modules()
    ]
    assert not public


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_import_no_heavy_dependencies(module):
    program = f"import sys, {module}; print(*{HEAVY} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == []


def test_imports_of_finds_every_kind_of_import(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "from gread.cli import main\nfrom gread import data\n"
        'def f():\n    import gread.dynamics.tableau\n    return "gread.models.gread:GREAD"\n'
    )
    seen = {"gread.cli.main", "gread.data", "gread.dynamics.tableau", "gread.models.gread"}
    assert imports_of(file) == seen
