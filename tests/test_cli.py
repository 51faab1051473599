"""The command line."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from gread import DATASETS, MODELS, REACTIONS, SOLVERS, __version__
from gread.cli import main


def in_a_process(*arguments, **options):
    """The command as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "gread", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


@dataclass
class Outcome:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def gread(monkeypatch, capsys):
    """The command in this process, which spares the seconds that importing torch takes."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gread", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return Outcome(left.value.code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("kind", "registry"),
    [("reactions", REACTIONS), ("solvers", SOLVERS), ("models", MODELS), ("datasets", DATASETS)],
)
def test_list_shows_everything_registered(gread, kind, registry):
    shown = gread("list", kind)
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in registry)
    rows = json.loads(gread("list", kind, "--json").stdout)
    assert [row["name"] for row in rows] == list(registry)


def test_models_are_listed_with_their_hyperparameters(gread):
    rows = json.loads(gread("list", "models", "--json").stdout)
    by_name = {row["name"]: row["hyperparameters"] for row in rows}
    assert by_name["gread-st"]["reaction"] == "st"
    assert by_name["gcn"] == {"num_layers": 2, "input_dropout": 0.5, "dropout": 0.5}


def test_a_users_reaction_is_listed_and_becomes_a_model(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import gread\n"
        "@gread.REACTIONS.register('nagumo')\n"
        "def nagumo(s):\n"
        "    '''r(H) = H (1 - H) (H - 1/4).'''\n"
        "    return s.h * (1 - s.h) * (s.h - 0.25)\n"
    )
    shown = in_a_process("--import", "mine", "list", "reactions", cwd=tmp_path)
    assert "H (1 - H) (H - 1/4)" in shown.stdout
    shown = in_a_process("--import", "mine", "list", "models", "--json", cwd=tmp_path)
    models = {row["name"]: row for row in json.loads(shown.stdout)}
    assert models["gread-nagumo"]["hyperparameters"]["reaction"] == "nagumo"


def test_datasets_are_shown_beside_the_paper_with_its_slips_marked(gread, real_root):
    shown = gread("datasets", "texas", "wisconsin", "chameleon", "cora").stdout
    assert "2325" in shown
    assert "235 ≠" in shown  # the paper's slip
    assert "6 ≠" in shown
    assert shown.count("≠") == 3  # and the legend
    assert "Rozemberczki" in shown
    rows = json.loads(gread("datasets", "texas", "--json").stdout)
    assert rows[0]["statistics"]["edges_with_loops"] == 295
    assert rows[0]["paper"]["homophily"] == 0.11


def test_all_datasets_are_listed_also_where_the_files_are_not(gread, tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(tmp_path))
    monkeypatch.setenv("GREAD_MIRROR", "http://127.0.0.1:9")
    shown = gread("datasets")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in DATASETS)
    assert "put it there, or set GREAD_DATA" in " ".join(shown.stdout.split())
    named = gread("datasets", "texas")
    assert named.returncode == 2
    assert "put it there, or set GREAD_DATA" in named.stderr


def test_doctor_names_versions_and_what_is_missing(gread):
    findings = {row["subject"]: row for row in json.loads(gread("doctor", "--json").stdout)}
    assert findings["torch"]["found"].startswith("2.")
    assert all(row["found"] or row["advice"] for row in findings.values())
    assert "torch-geometric" in gread("doctor").stdout


def test_version_and_help(gread):
    assert gread("--version").stdout.strip() == f"gread {__version__}"
    assert "demo" in gread("--help").stdout
    for command in ("demo", "list", "datasets", "doctor"):
        shown = gread(command, "--help")
        assert shown.returncode == 0
        assert "--json" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("datasets", "cora", "texs"), "unknown dataset 'texs', did you mean 'texas'?"),
        (("list", "reaction"), "unknown list 'reaction', did you mean 'reactions'?"),
        (("--import", "no_such", "doctor"), "must name a module that Python finds, got 'no_such'"),
        (("demo", "--out", "/proc/here"), "/proc/here"),
        (("demo", "--size", "3"), "No such option"),
        (("dance",), "No such command 'dance'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(gread, arguments, sentence):
    result = gread(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_bad_input_shows_no_traceback():
    result = in_a_process("list", "reaction")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
