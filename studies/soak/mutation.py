"""Mutations of the core: a test detects each, or a documented reason explains why not."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from studies.soak.mutants import mutants
from studies.soak.rows import RESULTS, ROOT, SCRIPTS, Row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FAULT = "Mutation of the core"
MUST_HOLD = "no relevant mutant survives"
SCRIPT = "studies/soak/mutation.py"
REASONS = ROOT / "studies" / "soak" / "survivors.toml"
"""Reasons for surviving mutants."""

TESTS = {
    "gread/dynamics/reactions.py": (
        "tests/dynamics/test_reactions.py",
        "tests/dynamics",
        "tests/models/test_gread.py",
    ),
    "gread/graph/adjacency.py": (
        *("tests/graph/test_adjacency.py", "tests/models/test_gread.py", "tests/dynamics"),
        "tests/distributed/test_fit.py::test_directed_edges_with_weights_and_loops",
    ),
    "gread/graph/operator.py": (
        *("tests/graph/test_operator.py", "tests/graph/test_adjacency.py"),
        *("tests/models/test_gread.py", "tests/dynamics", "tests/models/test_stacking.py"),
    ),
    "gread/dynamics/integrate.py": (
        *("tests/dynamics", "tests/models/test_gread.py", "tests/training/test_population.py"),
    ),
    "gread/runs/store.py": (
        *("tests/runs/test_store.py", "tests/runs/test_archive.py", "tests/runs/test_keys.py"),
        "tests/studies/test_findings.py",
    ),
}
"""Tests that must detect mutants of each file, in addition to its doctests."""


def mutation(file: str, times: int | None) -> list[Row]:
    """Row of a file, and one row for every reason of survivors.

    Outcomes are stored per mutant. Detected mutants are not tried again, so the script can be
    resumed after an interruption, or after a test or a reason is added. With ``times``, the first
    ``times`` mutants are tried, and nothing is stored.
    """
    kept = RESULTS / "mutants" / f"{_name(file)}.jsonl"
    noticed = [] if times else [one for one in _read(kept, file) if not one["survived"]]
    known = ",".join(one["key"] for one in noticed)
    command = [sys.executable, "-m", "studies.soak.mutants", file, *TESTS[file], "--known", known]
    command += ["--times", str(times)] if times else []
    outcomes = noticed
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            outcomes.append(json.loads(line))
            if outcomes[-1]["survived"]:
                print(f"{file} survives: {outcomes[-1]['change']}", flush=True)
            if times is None:
                kept.parent.mkdir(exist_ok=True)
                lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in outcomes)
                kept.write_text("".join(lines), encoding="utf-8")
    assert process.returncode == 0, command
    left: dict[str, list[str]] = {}
    for one in outcomes:
        if one["survived"]:
            left.setdefault(reason(file, one["change"]), []).append(one["change"])
    return [_summary(file, len(outcomes), left), *(_row(file, why, left[why]) for why in left)]


def _read(kept: Path, file: str) -> list[dict[str, Any]]:
    """Stored outcomes of mutants of the current file."""
    if not kept.exists():
        return []
    keys = {mutant.key for mutant in mutants(file)}
    outcomes = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    return [one for one in outcomes if one["key"] in keys]


def _name(file: str) -> str:
    return Path(file).stem


def reason(file: str, change: str) -> str:
    """Reason of a survivor; empty if there is none."""
    known = tomllib.loads(REASONS.read_text(encoding="utf-8"))["survivors"]
    return next((k["why"] for k in known if k["file"] == file and change in k["changes"]), "")


def _summary(file: str, count: int, left: dict[str, list[str]]) -> Row:
    survive = sum(map(len, left.values()))
    found = f"{count - survive} detected; {survive} survive"
    if "" in left:
        found = f"DID NOT HOLD for {len(left[''])}: {found}"
    return Row(FAULT, MUST_HOLD, f"`{file}` with one mutation", count, found, SCRIPT)


def _row(file: str, why: str, changes: list[str]) -> Row:
    shown = "; ".join(f"`{change}`" for change in changes)
    found = f"survive: {why or 'no reason is recorded'}"
    return Row(FAULT, MUST_HOLD, f"`{file}`: {shown}", len(changes), found, SCRIPT)


for _file in TESTS:
    SCRIPTS.add(f"mutation-{_name(_file)}", partial(mutation, _file))
