"""The wheel works outside the checkout, with only the packages that it and one extra require."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from statistics import fmean

import pytest
from matplotlib.image import imread
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEGABYTE = 2**20
EXTRA = "search"
HIDE = """
import sys
from importlib.machinery import PathFinder

class Required(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in {hidden!r}
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Required
"""
SERVE = """
import json, os, sys
import gread.runs.run
from gread.cli import main
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        for number, file in enumerate(asked["files"], start=1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["gread", *asked["arguments"]]
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
SPACE = "epochs = 2\nhidden_channels = [4, 8]\n"
NODES = "id,topic,x,y\n" + "".join(
    f"n{k},{'ab'[k % 2] if k % 8 else ''},{k % 2 + k / 100},{k % 5}\n" for k in range(80)
)
EDGES = "src,dst\n" + "".join(f"n{k},n{(k + 2) % 80}\n" for k in range(80))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Folder with wheel and sdist; ``GREAD_DIST`` names one that is already built."""
    if "GREAD_DIST" in os.environ:
        return ROOT / os.environ["GREAD_DIST"]
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def required(name, extra=""):
    """Distributions that a package requires, including one of its extras."""
    found, waiting = set(), [(name, extra)]
    while waiting:
        name, extra = waiting.pop()
        if (canonicalize_name(name), extra) in found:
            continue
        found.add((canonicalize_name(name), extra))
        for text in metadata.requires(name) or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(one.name, wanted) for wanted in ("", *one.extras)]
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def gread(dist, tmp_path_factory):
    """Function that runs the command of the wheel in a temporary folder, and returns its output."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place)
    (wheel,) = dist.glob("*.whl")
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    wanted = required("gread", EXTRA)
    hidden = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not wanted & set(map(canonicalize_name, owners))
    }
    # Adding the folder to the path ignores its .pth files, which name the checkout.
    (site / "dependencies.pth").write_text(f"{metadata.distribution('torch').locate_file('')}\n")
    (site / "hide_others.py").write_text(HIDE.format(hidden=hidden))
    (site / "hide_others.pth").write_text("import hide_others\n")
    folder = tmp_path_factory.mktemp("work")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    files = [folder / "stdout", folder / "stderr"]

    def run(*arguments):
        asked = {"arguments": [str(one) for one in arguments], "files": [str(one) for one in files]}
        print(json.dumps(asked), file=server.stdin, flush=True)
        assert server.stdout.readline() == "0\n", files[1].read_text()
        return files[0].read_text()

    run.folder, run.python, run.environment = folder, python, environment
    serve = [python, "-c", SERVE]  # PyTorch is imported once for all commands
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(serve, cwd=folder, env=environment, **pipes) as server:
        yield run


def test_the_wheel_is_small_pure_and_complete(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 6 * MEGABYTE
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "gread"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(tracked.stdout.split()) <= names


def test_sdist_contains_the_build_and_test_files(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "Makefile", "constraints.txt", "tests/conftest.py", "LICENSE"}
    assert wanted <= names


def python(gread, code):
    command = [gread.python, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=gread.environment)


def test_package_is_imported_from_the_wheel(gread):
    code = "import gread; print(gread.__file__)"
    done = python(gread, code)
    assert Path(done.stdout.strip()).is_relative_to(gread.python.parents[1])


def test_non_required_packages_are_not_importable(gread):
    assert "No module named 'pandas'" in python(gread, "import pandas").stderr


def test_demo_command_gives_expected_accuracies_and_figures(gread):
    shown = json.loads(gread("demo", "--json"))
    check_cells(shown["cells"])
    for picture in shown["pictures"]:
        height, width, _ = imread(gread.folder / picture).shape
        assert height > 800
        assert width > 1400


def check_cells(cells):
    """Check that GCN and diffusion fail at low homophily, and GREAD is near the best everywhere."""
    assert len(cells) == len({(cell["model"], cell["homophily"]) for cell in cells}) == 16
    assert all(len(cell["accuracies"]) >= 3 for cell in cells)
    mean = {(cell["model"], cell["homophily"]): fmean(cell["accuracies"]) for cell in cells}
    for homophily in (0.0, 0.2):
        for smoothing in ("gcn", "grand"):
            assert mean["gread-bs", homophily] > mean[smoothing, homophily] + 15
            assert mean["mlp", homophily] > mean[smoothing, homophily] + 15
    for homophily in (0.0, 0.2, 0.5, 0.8):
        best = max(value for (_, at), value in mean.items() if at == homophily)
        assert mean["gread-bs", homophily] > best - 5


def test_train_command_completes_a_run(gread):
    dataset = "texas" if "GREAD_DATA" in os.environ else "csbm"
    (row,) = json.loads(gread("train", dataset, "--splits", "0", "--epochs", "2", "--json"))
    assert row["status"] == "ok"


def test_fit_and_predict_commands_write_predictions(gread):
    (gread.folder / "nodes.csv").write_text(NODES)
    (gread.folder / "edges.csv").write_text(EDGES)
    files = ("--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "topic")
    gread("fit", *files, "--out", "model", "--set", "epochs=2")
    gread("predict", "model", "--out", "predictions.csv")
    assert len((gread.folder / "predictions.csv").read_text().splitlines()) == 1 + 10


def test_commands_use_the_stored_runs_of_the_package(gread):
    assert "| GREAD-BS | " in gread("reproduce", "table-4", "--stored")
    gread("report", "--out", "report.html")
    assert "GREAD-BS" in (gread.folder / "report.html").read_text()
    assert json.loads(gread("compare", "gread-bs", "gcn", "--json"))


def test_explore_command_exports_the_page(gread):
    gread("explore", "--export", "page.html")
    assert (gread.folder / "page.html").stat().st_size > MEGABYTE / 10


def test_bench_command_measures_the_headline_section(gread):
    shown = json.loads(gread("bench", "headline", "--quick", "--device", "cpu", "--json"))
    assert shown["sections"]["headline"]["rows"]


def test_search_command_completes_its_trials(gread):
    (gread.folder / "space.toml").write_text(SPACE)
    shown = gread("search", "csbm", "--trials", "2", "--splits", "0", "--space", "space.toml")
    assert "2 trials" in shown


def test_doctor_command_reports_the_installed_torch(gread):
    """Other tests call the function of the console script; this one runs the script."""
    command = [gread.python.with_name("gread"), "doctor", "--json"]
    done = subprocess.run(command, cwd=gread.folder, env=gread.environment, capture_output=True)
    rows = {row["subject"]: row for row in json.loads(done.stdout)}
    assert rows["torch"]["found"]
