"""Versions of gread in results."""

import shutil
import subprocess

import pytest

from gread.base import versions
from gread.base.versions import __version__, commit


@pytest.mark.parametrize(
    ("revision", "version"), [("0123456789ab", f"{__version__}+0123456789ab"), ("", __version__)]
)
def test_version_consists_of_package_version_and_commit(monkeypatch, revision, version):
    """Use a fixed commit, because files of the checkout may change while the tests run."""
    monkeypatch.setattr(versions, "commit", lambda: revision)
    assert versions.versions.__wrapped__()["gread"] == version


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_commit_is_the_checkout_head_and_marks_changed_files(tmp_path):
    def git(*words):
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", "-C", tmp_path, *names, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    package = tmp_path / "package"
    package.mkdir()
    file = package / "__init__.py"
    file.write_text("")
    assert commit(package) == ""  # not a checkout
    git("init", "-q")
    assert commit(package) == ""  # the package is not tracked
    git("add", ".")
    git("commit", "-qm", "first")
    assert commit(package) == git("rev-parse", "--short=12", "HEAD")
    file.write_text("changed = True\n")
    assert commit(package).endswith(".changed")


def test_commit_is_empty_if_git_is_not_installed(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit() == ""
