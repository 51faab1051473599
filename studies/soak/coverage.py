"""Coverage of the package by tests; ``python -m coverage report`` lists missing lines."""

import json
import subprocess
import sys
from collections import defaultdict

from studies.soak.rows import ROOT, SCRIPTS, Row


@SCRIPTS.register("coverage")
def main(times: int | None) -> list[Row]:
    """Run the test suite under coverage, up to ``times`` failures."""
    most = [] if times is None else [f"--maxfail={times}"]
    _coverage("erase")
    passed = _coverage("run", "-m", "pytest", *most)
    _coverage("combine", "--quiet")
    return [row(passed)]


def row(passed: bool) -> Row:
    """Row from stored coverage data; ``passed`` is False if a test failed."""
    path = ROOT / ".coverage.json"
    _coverage("json", "--quiet", "--fail-under=0", "-o", str(path))
    rooms: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, found in json.loads(path.read_text("utf-8"))["files"].items():
        of = rooms[name.split("/")[1].removesuffix(".py")]
        of[0] += found["summary"]["covered_lines"]
        of[1] += found["summary"]["num_statements"]
    path.unlink()
    run, lines = (sum(room[place] for room in rooms.values()) for place in (0, 1))
    least = sorted(rooms, key=lambda name: rooms[name][0] / max(1, rooms[name][1]))[:3]
    worst = ", ".join(f"{name} {rooms[name][0] / rooms[name][1]:.0%}" for name in least)
    found = f"{run / lines:.1%} are executed by a test; lowest: {worst}"
    found += "" if passed else "; not all tests passed in this run"
    return Row(
        "Coverage of the package",
        "95 % of the lines",
        "lines of `gread` without the GPU kernels, whole test suite: `make coverage`",
        lines,
        found if run >= 0.95 * lines else f"DID NOT HOLD: {found}",
        "studies/soak/coverage.py",
    )


def _coverage(*arguments: str) -> bool:
    """Run a coverage command, and return whether it succeeded."""
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0
