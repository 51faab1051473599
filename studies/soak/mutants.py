"""Mutation testing of one file: ``python -m studies.soak.mutants FILE TEST ...``.

mutmut and cosmic-ray are not suitable: mutmut skips decorated functions, such as all reactions, and
importing PyTorch for every mutant takes seconds. Here every mutant is written to a copy of the
project, and tested in a fork of a process that has imported the dependencies of the tests, but
nothing of gread. This module therefore does not import gread.
"""

import argparse
import ast
import compileall
import copy
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
COPIED = ("gread", "tests", "studies", "results", "pyproject.toml")
IMPORTED = (
    "pytest",
    "scipy.sparse.linalg",
    "sklearn.metrics",
    "torch_geometric.explain",
    "torch_geometric.nn",
    "torchdiffeq",
    "typer.testing",
)
MOST_MEMORY = 8 * 2**30


class Mutant(NamedTuple):
    """A file with one change."""

    line: int
    change: str
    source: str

    @property
    def key(self) -> str:
        """Digest of the mutated source."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


ORDER = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """Mutations of an expression or a statement."""
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            yield _with(node, ops=[*node.ops[:place], ORDER[type(op)](), *node.ops[place + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield _with(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for place in range(len(node.values)):
            yield _with(node, values=node.values[:place] + node.values[place + 1 :])
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.comprehension):
        for place in range(len(node.ifs)):
            yield _with(node, ifs=node.ifs[:place] + node.ifs[place + 1 :])
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        for place in range(len(node.keywords)):
            yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])
    elif isinstance(node, ast.FunctionDef):
        for place in range(len(node.decorator_list)):
            others = node.decorator_list[:place] + node.decorator_list[place + 1 :]
            yield _with(node, decorator_list=others)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(ast.Constant(None))
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise):
        yield ast.Pass()


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str):
        yield ast.Constant(f"{value}?")


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def mutants(file: str) -> Iterator[Mutant]:
    """All mutants of a file, with one change each."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    original = ast.unparse(tree)
    seen: dict[str, int] = {}
    for owner, field, place, node, path in _places(tree, ""):
        for other in changed(node):
            before = _shown(owner, node)
            _set(owner, field, place, other)
            after = _shown(owner, other) if isinstance(node, ast.Constant) else _shown(other, other)
            change = f"{path or 'module'}: {_difference(before, after)}"
            seen[change] = seen.get(change, 0) + 1
            if seen[change] > 1:
                change += f" ({seen[change]})"
            source = ast.unparse(ast.fix_missing_locations(tree))
            _set(owner, field, place, node)
            if source != original:
                yield Mutant(getattr(node, "lineno", 0), change, source)


def _places(node: ast.AST, path: str) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, str]]:
    """Positions of code, without docstrings, annotations and error messages."""
    for field, value in ast.iter_fields(node):
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_only_said(node, field, child):
                continue
            yield node, field, place, child, path
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            below = f"{path}.{child.name}".lstrip(".") if named else path  # type: ignore[attr-defined]
            yield from _places(child, below)


def _is_only_said(node: ast.AST, field: str, child: ast.AST) -> bool:
    docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
    words = isinstance(node, ast.Raise) or isinstance(child, ast.JoinedStr)
    typed = field in ("annotation", "returns") or ast.unparse(child).startswith(("TypeVar", "F ="))
    overloaded = isinstance(child, ast.FunctionDef) and "overload" in map(
        ast.unparse, child.decorator_list
    )
    return docstring or words or typed or overloaded


def _set(owner: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[place] = node


def _shown(owner: ast.AST, node: ast.AST) -> str:
    """Source on one line; a constant is shown with its context."""
    if isinstance(node, ast.FunctionDef):
        return " ".join(f"@{ast.unparse(d)}" for d in node.decorator_list) or "no decorator"
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    shown = owner if isinstance(node, ast.Constant) else node
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(shown))).split())


def _difference(before: str, after: str) -> str:
    """Both sources, shortened to the part that differs."""
    begin = next(
        (k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after)
    )
    return f"{_cut(before, begin)} → {_cut(after, begin)}"


def _cut(text: str, begin: int) -> str:
    if len(text) <= 90:
        return text
    first = max(0, begin - 30)
    return f"{'… ' * (first > 0)}{text[first : begin + 40]}{' …' * (len(text) > begin + 40)}"


def tried(
    file: str, tests: Sequence[str], known: Collection[str], most: int | None
) -> Iterator[dict[str, Any]]:
    """Outcomes of all new mutants of a file, or of the first ``most``.

    Raises:
        RuntimeError: The tests fail without a mutation.
    """
    for name in IMPORTED:
        import_module(name)
    assert "gread" not in sys.modules, "every child imports its own"
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, Path(folder, name))
            else:
                shutil.copy(ROOT / name, folder)
        place = Path(folder, file)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # bytecode of another mutant could be used
        compileall.compile_dir(folder, quiet=2)
        for old in (place.parent / "__pycache__").glob(f"{place.stem}.*"):
            old.unlink()
        place.write_text(ast.unparse(ast.parse(place.read_text("utf-8"))), "utf-8")
        begin = time.monotonic()
        if not _pass(folder, [file, *tests], 600):
            said = Path(folder, "said").read_text("utf-8")
            raise RuntimeError(f"tests must pass before {file} is mutated: {said}")
        patience = 20 + 5 * (time.monotonic() - begin)
        for mutant in islice((one for one in mutants(file) if one.key not in known), most):
            place.write_text(mutant.source, "utf-8")
            survived = _pass(folder, [file, *tests], patience)
            yield {"key": mutant.key, "change": mutant.change, "survived": survived}


def _pass(folder: str, tests: list[str], seconds: float) -> bool:
    """Whether all tests pass in a child process within the time limit."""
    child = os.fork()
    if child == 0:
        _test(folder, tests)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _stop(child)
            return status == 0
        time.sleep(0.02)
    _stop(child)
    os.waitpid(child, 0)
    return False


def _stop(group: int) -> None:
    """Kill a child process and its descendants."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _test(folder: str, tests: list[str]) -> None:
    import pytest

    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        os.chdir(folder)
        os.environ["PYTHONPATH"] = folder
        sys.path[:] = [folder, *(path for path in sys.path if Path(path).resolve() != ROOT)]
        sys.dont_write_bytecode = True
        sys.modules.pop("studies", None)
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(said, stream)
        options = ["-x", "-n", "0", "-q", "-p", "no:cacheprovider"]
        code = pytest.main([*options, *tests], plugins=[QuickFirst(Path(folder, "seconds.json"))])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(int(code))


class QuickFirst:
    """Plugin that runs fast tests first, so that mutants are detected earlier."""

    def __init__(self, file: Path):
        self.file = file
        self.known = file.exists()
        self.seconds: dict[str, float] = json.loads(file.read_text("utf-8")) if self.known else {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Sort tests by duration."""
        items.sort(key=lambda item: self.seconds.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add the duration of a test and its setup."""
        if not self.known:
            self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Store the durations of the first session."""
        if not self.known:
            self.file.write_text(json.dumps(self.seconds), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m studies.soak.mutants")
    parser.add_argument("file")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--known", default="", help="keys to skip, separated by commas")
    parser.add_argument("--times", type=int, help="maximum number of mutants")
    asked = parser.parse_args()
    for outcome in tried(asked.file, asked.tests, asked.known.split(","), asked.times):
        print(json.dumps(outcome, ensure_ascii=False), flush=True)
