"""Commands that compute nothing start without torch and other slow imports."""

import json
import os
import subprocess
import sys

from gread.cli import COMMANDS
from gread.distributed.orders import ORDERS

HEAVY = {"torch", "torch_geometric", "scipy", "sklearn", "matplotlib", "pandas", "optuna"}
PROGRAM = f"""
# Runs command lines in turn, and prints the output, exit code and heavy imports of each.
import io, json, sys
from contextlib import redirect_stdout
from gread.cli import main
for line in json.load(sys.stdin):
    sys.argv = ["gread", *line]
    try:
        with redirect_stdout(io.StringIO()) as shown:
            main()
    except SystemExit as left:
        imported = sorted({HEAVY!r} & sys.modules.keys())
        print(json.dumps([shown.getvalue(), left.code, imported]))
"""
COMPLETION = {"_GREAD_COMPLETE": "complete_bash", "COMP_CWORD": "1"}


def start(*lines, **environment):
    """Output of commands in one new process, and the modules of `HEAVY` imported so far."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([line.split() for line in lines]),
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    for line, found in zip(lines, done.stdout.splitlines(), strict=True):
        shown, code, imported = json.loads(found)
        assert not code, line
        yield line, shown, imported


def test_help_and_version_import_nothing_heavy():
    lines = ("--help", "--version", "runs --help", "runs export --help")
    for line, shown, imported in start(*lines):
        assert shown, line
        assert not imported, line


def test_the_help_of_a_command_imports_nothing_heavy():
    for line, shown, imported in start(*(f"{command} --help" for command in COMMANDS)):
        assert f"gread {line.split()[0]} " in shown
        assert not imported, line


def test_lists_import_nothing_heavy():
    kinds = ("reactions", "solvers", "models", "datasets")
    for line, shown, imported in start(*(f"list {kind} --json" for kind in kinds)):
        assert shown.startswith("["), line
        assert not imported, line


def test_listing_stored_runs_imports_nothing_heavy(tmp_path):
    ((_, shown, imported),) = start(f"runs --store {tmp_path}")
    assert "dataset" in shown
    assert not imported


def test_completion_of_commands_imports_nothing_heavy():
    ((_, shown, imported),) = start("", COMP_WORDS="gread re", **COMPLETION)
    assert shown.split() == ["reproduce", "report"]
    assert not imported


def test_completion_suggests_options_of_the_command():
    words = COMPLETION | {"COMP_WORDS": "gread datasets --j", "COMP_CWORD": "2"}
    ((_, shown, _),) = start("", **words)
    assert "--json" in shown


def test_the_help_of_shard_names_every_partition():
    ((_, shown, _),) = start("shard --help", COLUMNS="200")
    assert f"How nodes are assigned to shards: {', '.join(ORDERS)}." in shown
