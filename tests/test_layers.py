"""Imports go one way."""

import ast
from pathlib import Path

import gread

PACKAGE = Path(gread.__file__).parent
LAYERS = {
    "inputs": 0,
    "kernels": 0,
    "output": 0,
    "processes": 0,
    "registry": 0,
    "shipped": 0,
    "versions": 0,
    "adjacency": 1,
    "measures": 1,
    "memory": 1,
    "ode": 1,
    "parts": 1,
    "flow": 1,
    "reactions": 1,
    "structure": 1,
    "tables": 1,
    "data": 2,
    "diagnosis": 2,
    "models": 2,
    "training": 3,
    "distributed": 4,
    "population": 4,
    "runs": 5,
    "estimator": 6,
    "figures": 6,
    "report": 6,
    "experiments": 7,
    "search": 7,
    "bench": 7,
    "demo": 7,
    "doctor": 7,
    "listing": 7,
    "explorer": 8,
    "cli": 9,
    "__main__": 10,
}
STRANGERS = {("models", "data"), ("data", "models"), ("training", "models"), ("training", "data")}


def imports_of(path: Path) -> set[str]:
    """The rooms of the package that a file imports from."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the direction"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "gread" and len(parts) > 1 and parts[1] in LAYERS:
                rooms.add(parts[1])
    return rooms


def files_by_room() -> list[tuple[str, Path]]:
    return [
        (path.relative_to(PACKAGE).with_suffix("").parts[0], path)
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "__init__.py"
    ]


def test_every_room_has_a_layer():
    assert {room for room, _ in files_by_room()} == set(LAYERS)


def test_imports_go_down():
    upward = [
        f"{path.relative_to(PACKAGE)} imports gread.{other}"
        for room, path in files_by_room()
        for other in imports_of(path)
        if LAYERS[other] > LAYERS[room] or (room, other) in STRANGERS
    ]
    assert not upward


def test_the_check_sees_what_it_should(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "from gread.cli import main\nimport gread.dynamics.tableau\nfrom gread import data\n"
    )
    assert imports_of(file) == {"cli", "ode", "data"}
