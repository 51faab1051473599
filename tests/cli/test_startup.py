"""Commands that compute nothing start without torch and what else takes seconds to import."""

import os
import subprocess
import sys

import pytest

from gread.cli import COMMANDS
from gread.distributed.orders import ORDERS

HEAVY = {"torch", "torch_geometric", "scipy", "sklearn", "matplotlib", "pandas", "optuna"}
PROGRAM = f"""
import sys
from gread.cli import main
sys.argv = ["gread", *sys.argv[1:]]
try:
    main()
finally:
    print("imported:", *sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)
"""
COMPLETION = {"_GREAD_COMPLETE": "complete_bash", "COMP_CWORD": "1"}


def start(*arguments, **environment):
    """The output of a command in a process of its own, and what of `HEAVY` it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    *_, last = done.stderr.splitlines()
    assert done.returncode == 0, done.stderr
    assert last.startswith("imported:"), done.stderr
    return done.stdout, last.split()[1:]


@pytest.mark.parametrize("command", ["--help", "--version", "runs --help", "runs export --help"])
def test_help_and_version_import_nothing_heavy(command):
    shown, imported = start(*command.split())
    assert shown
    assert not imported


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_imports_nothing_heavy(command):
    shown, imported = start(command, "--help")
    assert f"gread {command} " in shown
    assert not imported


@pytest.mark.parametrize("kind", ["reactions", "solvers", "models", "datasets"])
def test_lists_import_nothing_heavy(kind):
    shown, imported = start("list", kind, "--json")
    assert shown.startswith("[")
    assert not imported


def test_stored_runs_are_listed_without_anything_heavy(tmp_path):
    shown, imported = start("runs", "--store", tmp_path)
    assert "dataset" in shown
    assert not imported


def test_completion_of_commands_imports_nothing_heavy():
    shown, imported = start(COMP_WORDS="gread re", **COMPLETION)
    assert shown.split() == ["reproduce", "report"]
    assert not imported


def test_completion_of_options_knows_those_of_the_command():
    shown, _ = start(COMP_WORDS="gread datasets --j", **COMPLETION | {"COMP_CWORD": "2"})
    assert "--json" in shown


def test_the_help_of_shard_names_every_partition():
    shown, _ = start("shard", "--help", COLUMNS="200")
    assert f"How nodes are assigned to shards: {', '.join(ORDERS)}." in shown
