"""Metadata, documentation, workflows and versions of the project agree."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import gread
from studies.check_release import differences

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_extra_is_documented_with_its_packages():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", (ROOT / "docs" / "install.md").read_text(), re.M)
    assert [name for name, _ in rows] == list(EXTRAS)
    for name, packages in rows:
        own = [Requirement(text).name for text in EXTRAS[name] if not text.startswith("gread[")]
        assert name in ("test", "dev") or all(package in packages for package in own)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_commands_are_makefile_targets(workflow):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = re.findall(r"^\s*- run: (.*)$", workflow.read_text(), re.M)
    assert commands
    assert all(re.fullmatch(r"make ([\w-]+)", command) for command in commands)
    assert {command.removeprefix("make ") for command in commands} <= targets


def test_python_versions_match_the_workflow_matrix():
    declared = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: 3." in name]
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert re.search(r"python: \[(.*)\]", text)[1] == ", ".join(f'"{v}"' for v in declared)
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_lowest_versions_are_the_declared_bounds():
    texts = [text for part in (PROJECT["dependencies"], *EXTRAS.values()) for text in part]
    bounds = {one.name: one.specifier for one in map(Requirement, texts) if one.specifier}
    lines = (ROOT / "constraints-min.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    wanted = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert wanted <= pins.keys()
    for name in pins.keys() & bounds.keys():
        (lower,) = (Version(one.version) for one in bounds[name] if one.operator == ">=")
        pinned = Version(pins[name])
        assert pinned in bounds[name]
        assert pinned.release[: len(lower.release)] == lower.release


def test_version_matches_the_citation_and_the_changelog():
    assert not differences(gread.__version__)
