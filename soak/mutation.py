"""Mistakes put into the core one at a time: a test notices each, or a reason says why none can."""

import json
import os
import subprocess
import sys
from functools import partial

from soak.rows import ROOT, SCRIPTS, Row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FAULT = "Mutation of the core"
MUST_HOLD = "no mutant survives that matters"
SCRIPT = "soak/mutation.py"
REASONS = ROOT / "soak" / "survivors.toml"
"""Of survivors, why they do not matter."""

TESTS = {
    "gread/reactions.py": ("tests/test_reactions.py", "tests/flow", "tests/models/test_gread.py"),
    "gread/adjacency.py": ("tests/test_adjacency.py", "tests/models/test_gread.py", "tests/flow"),
    "gread/ode/integrate.py": ("tests/ode", "tests/models/test_gread.py"),
    "gread/runs/store.py": ("tests/runs/test_store.py", "tests/test_findings.py"),
}
"""Of every file of the core those who are to notice, beside its own examples."""


def mutation(file: str, times: int | None) -> list[Row]:
    """All mutants of a file, or the first ``times``; a row for it, and one for every reason."""
    command = [sys.executable, "-m", "soak.mutants", file, *TESTS[file]]
    environment = os.environ | {"MUTANTS": str(times or 0), "PYTHONPATH": str(ROOT)}
    left: dict[str, list[str]] = {}
    count = 0
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            count += 1
            outcome = json.loads(line)
            if outcome["survived"]:
                print(f"{file}:{outcome['line']} survives: {outcome['change']}", flush=True)
                left.setdefault(reason(file, outcome["change"]), []).append(outcome["change"])
    assert process.returncode == 0, command
    return [_summary(file, count, left), *(_row(file, why, left[why]) for why in left)]


def reason(file: str, change: str) -> str:
    """Why a survivor does not matter; nothing where nobody knows."""
    known = tomllib.loads(REASONS.read_text(encoding="utf-8"))["survivors"]
    return next((k["why"] for k in known if k["file"] == file and change in k["changes"]), "")


def _summary(file: str, count: int, left: dict[str, list[str]]) -> Row:
    survive = sum(map(len, left.values()))
    found = f"{count - survive} noticed; {survive} survive"
    if "" in left:
        found = f"DID NOT HOLD for {len(left[''])}: {found}"
    return Row(FAULT, MUST_HOLD, f"`{file}` with one mistake", count, found, SCRIPT)


def _row(file: str, why: str, changes: list[str]) -> Row:
    shown = "; ".join(f"`{change}`" for change in changes)
    found = f"survive: {why or 'NOBODY KNOWS WHY'}"
    return Row(FAULT, MUST_HOLD, f"`{file}`: {shown}", len(changes), found, SCRIPT)


for _file in TESTS:
    _name = _file.removesuffix(".py").split("/")[-1]
    SCRIPTS.add(f"mutation-{_name}", partial(mutation, _file))
