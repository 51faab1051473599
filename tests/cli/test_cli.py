"""The command line."""

import json
import lzma
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from gread import DATASETS, MODELS, REACTIONS, SOLVERS, __version__
from gread.base.registry import Registry
from gread.cli import main
from gread.data.files import DataError
from gread.experiments.artefact import SCALES, show
from gread.experiments.questions import ARTEFACTS
from gread.runs.archive import ARCHIVES, read_results
from gread.runs.result import Result
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.config import TrainConfig
from tests.processes import Forked, Outcome

ROOT = Path(__file__).parents[2]


def in_a_process(*arguments, **options):
    """Run the command in a process that has already imported gread."""
    return Forked("-m", "gread", *arguments, **options).end()


@pytest.fixture
def gread(monkeypatch, capsys):
    """Run the command in this process, which avoids importing torch again."""

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
    assert "reaction" not in by_name["gread-st"]  # the reaction is fixed
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
    assert models["gread-nagumo"]["title"] == "GREAD-NAGUMO"


def test_datasets_shows_paper_statistics_and_marks_differences(gread, real_root):
    shown = gread("datasets", "texas", "wisconsin", "chameleon", "cora").stdout
    assert "2325" in shown
    assert "235 ≠" in shown  # an error of the paper
    assert "6 ≠" in shown
    assert shown.count("≠") == 3  # two numbers and the legend
    assert "Rozemberczki" in shown
    rows = json.loads(gread("datasets", "texas", "--json").stdout)
    assert rows[0]["statistics"]["edges_with_loops"] == 295
    assert rows[0]["paper"]["homophily"] == 0.11


@pytest.mark.slow
def test_datasets_without_files_are_listed_with_advice(gread, tmp_path, monkeypatch):
    small = Path(json.__file__).parent  # a small folder of sources for python-ast
    monkeypatch.setattr("gread.data.generated.sysconfig.get_path", lambda _: small)
    monkeypatch.setenv("GREAD_DATA", str(tmp_path))
    monkeypatch.setenv("GREAD_MIRROR", "http://127.0.0.1:9")
    shown = gread("datasets")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in DATASETS)
    assert "put it there, or set GREAD_DATA" in " ".join(shown.stdout.split())
    named = gread("datasets", "texas")
    assert named.returncode == 2
    assert "put it there, or set GREAD_DATA" in named.stderr


def test_doctor_reports_versions_and_advice_for_missing_packages(gread):
    findings = {row["subject"]: row for row in json.loads(gread("doctor", "--json").stdout)}
    assert findings["torch"]["found"].startswith("2.")
    assert all(row["found"] or row["advice"] for row in findings.values())
    assert "torch-geometric" in gread("doctor").stdout


@pytest.mark.slow
def test_doctor_explains_missing_kernels_and_disabled_fast_paths():
    rows = json.loads(in_a_process("doctor", "--json", env=os.environ | {"CC": "false"}).stdout)
    (kernels,) = (row for row in rows if row["subject"] == "kernels for cpu")
    assert not kernels["found"]
    assert "false fails" in kernels["advice"]
    assert "install a C compiler" in kernels["advice"]
    plainly = os.environ | {"GREAD_PLAIN": "1"}  # read when gread is imported
    doctor = [sys.executable, "-m", "gread", "doctor", "--json"]
    rows = json.loads(subprocess.run(doctor, env=plainly, capture_output=True, text=True).stdout)
    assert any("all fast paths are off" in row["advice"] for row in rows)


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
def test_invalid_arguments_print_an_error_and_exit_with_code_2(gread, arguments, sentence):
    result = gread(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_bad_input_shows_no_traceback():
    result = in_a_process("list", "reaction")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.fixture
def train(gread, tmp_path):
    """Train briefly, with a separate store."""

    def run(*arguments, dataset="csbm", epochs=2):
        return gread("train", dataset, "--epochs", epochs, "--store", tmp_path, *arguments)

    return run


def test_train_shows_each_split_and_the_mean(train):
    shown = train("--splits", "0-2", "--set", "hidden_channels=4")
    assert shown.returncode == 0
    assert "GREAD-BS on csbm, preset: default" in shown.stdout
    assert shown.stdout.count("ok") == 3
    assert "test " in shown.stdout
    assert " ± " in shown.stdout


def test_train_computes_only_missing_runs(train):
    first = json.loads(train("--splits", "0", "--json").stdout)
    both = json.loads(train("--splits", "0,1", "--json").stdout)
    assert len(both) == 2
    assert both[0] == first[0]  # including the time of completion


def test_train_counts_repeated_splits_once(train):
    found = json.loads(train("--splits", "1,0-1", "--model", "gcn", "--json").stdout)
    assert [result["spec"]["split"] for result in found] == [1, 0]


def test_only_fractions_are_shown_in_percent(gread, train, tmp_path, real_root, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(real_root))
    loss = ("--splits", "0", "--set", "metric=nll")
    (result,) = json.loads(train(*loss, "--json", dataset="texas").stdout)
    shown = train(*loss, dataset="texas").stdout
    assert f"test {result['test']:.4f} ± 0.0000" in shown
    assert "paper: " not in shown  # it has accuracies
    listed = gread("runs", "--store", tmp_path).stdout
    assert f"{result['val']:.4f}" in listed


def test_train_takes_settings_of_the_model_and_of_the_training(train):
    shown = train(
        "--splits", "0", "--set", "time=0.5", "--set", "lr=0.1", "--set", "beta=scalar", "--json"
    )
    spec = json.loads(shown.stdout)[0]["spec"]
    assert spec["hyper"]["time"] == 0.5
    assert spec["hyper"]["beta"] == "scalar"
    assert spec["train"]["epochs"] == 2
    assert spec["train"]["lr"] == 0.1


def test_train_accepts_parts_and_halo(train):
    shown = train("--splits", "0", "--set", "parts=3", "--set", "halo=1", "--json")
    (result,) = json.loads(shown.stdout)
    assert result["status"] == "ok"
    assert (result["spec"]["train"]["parts"], result["spec"]["train"]["halo"]) == (3, 1)
    assert result["records"] == {}


@pytest.mark.filterwarnings("default")
def test_train_reports_automatic_partitioning_of_a_large_graph(train, monkeypatch):
    monkeypatch.setattr("gread.training.memory.free_memory", lambda device: 1e6)
    shown = train("--splits", "0", "--json")
    assert "so the graph is partitioned into" in shown.stderr
    assert json.loads(shown.stdout)[0]["spec"]["train"]["parts"] > 1
    whole = train("--splits", "0", "--set", "parts=1", "--json")
    assert json.loads(whole.stdout)[0]["spec"]["train"]["parts"] == 1


@pytest.mark.slow
def test_train_with_two_processes_matches_one_process(train, tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(tmp_path / "data"))
    shown = train("--splits", "0", "--set", "input_dropout=0", "--processes", "2", "--json")
    (result,) = json.loads(shown.stdout)
    whole = json.loads(train("--splits", "0", "--set", "input_dropout=0", "--json").stdout)[0]
    assert result["spec"]["train"]["processes"] == 2
    assert result["test"] == pytest.approx(whole["test"])
    assert result["val_loss"] == pytest.approx(whole["val_loss"], rel=1e-5)
    assert "2 processes: halos of " in shown.stderr
    assert "MB sent an epoch" in shown.stderr


@pytest.mark.slow
def test_torchrun_trains_with_two_processes_and_prints_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(tmp_path / "data"))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    train = ["-m", "gread", "train", "csbm", "--splits", "0", "--epochs", "2", "--json"]
    shown = subprocess.run(
        [sys.executable, *torchrun, *train, "--store", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    (result,) = json.loads(shown.stdout)  # only one process prints
    assert result["spec"]["train"]["processes"] == 2


@pytest.mark.slow
def test_train_accepts_shards_written_by_the_shard_command(gread, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pairs = {"source": list(range(39)), "target": list(range(1, 40))}
    pq.write_table(pyarrow.table(pairs), tmp_path / "edges.parquet")
    about = {"x": [k / 40 for k in range(40)], "kind": [k % 2 for k in range(40)]}
    pq.write_table(pyarrow.table(about), tmp_path / "nodes.parquet")
    files = "--nodes", tmp_path / "nodes.parquet", "--edges", tmp_path / "edges.parquet"
    made = "--label", "kind", "--blocks", "2", "--out", tmp_path / "blocks"
    shown = gread("shard", *files, *made)
    assert "40 nodes and 78 edges in 2 shards; the largest halo has 1 nodes" in shown.stdout
    told = gread("train", tmp_path / "blocks", "--processes", "2", "--epochs", "2")
    assert json.loads(told.stdout)[0]["number"] in (0, 1)
    wrong = gread("train", tmp_path / "blocks", "--processes", "3", "--epochs", "2")
    assert wrong.returncode == 2
    assert "has 2 shards, one for each process, got 3 processes: start 2" in wrong.stderr


def test_train_shows_results_of_the_paper_and_its_published_code(train, real_root, monkeypatch):
    monkeypatch.setenv("GREAD_DATA", str(real_root))
    shown = train("--splits", "0", dataset="texas").stdout
    assert "preset: tuned" in shown
    assert "paper: 88.92 ± 3.72" in shown
    assert "published code: 86.30" in shown


def test_train_logs_new_runs_to_trackers(train, tmp_path):
    pytest.importorskip("tensorboard")
    assert train("--splits", "0,1", "--track", "tensorboard").returncode == 0
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--track", "wandv"), "unknown tracker 'wandv', did you mean 'wandb'?"),
        (("--set", "tme=3"), "gread-bs has no hyperparameter 'tme', did you mean 'time'?"),
        (("--set", "parts=0"), "parts must be a whole number of at least 1, got 0"),
        (("--processes", "0"), "processes must be a whole number of at least 1, got 0"),
        (("--processes", "2", "--set", "parts=2"), "parts must be 1 with several processes"),
        (("--processes", "2", "--model", "gcn"), "processes must be 1 for gcn"),
        (("--processes", "2", "--track", "wandb"), "tracking needs a graph that one process holds"),
        (("--set", "parts=101"), "parts must be at most the 100 nodes, got 101"),
        (("--set", "time"), "--set must be KEY=VALUE, got 'time'"),
        (("--set", "time=soon"), "time must be a number, zero or above, got 'soon'"),
        (("--splits", "a-b"), "--splits must be numbers like 0-9 or 0,3,5, got 'a-b'"),
        (("--splits", "3-1"), "--splits must be rising ranges like 0-9, got '3-1'"),
        (("--splits", "99"), "split must be below 10, the number of splits, got 99"),
        (("--model", "gred"), "unknown model 'gred'"),
        (("--preset", "mine"), "unknown preset 'mine'; choose from: tuned, published, paper"),
        (("--device", "cuda:77"), "device must be one that this machine has, got 'cuda:77'"),
        (("--epochs", "0"), "epochs must be a whole number of at least 1, got 0"),
        (("--store", "/proc/nowhere"), "the store /proc/nowhere/results.sqlite cannot be written"),
    ],
)
def test_invalid_train_arguments_exit_with_code_2(train, arguments, sentence):
    result = train(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_stored_runs_are_listed_and_compared(gread, train, tmp_path, monkeypatch):
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())
    train("--splits", "0-3", "--model", "gcn")
    train("--splits", "0-3", "--model", "mlp")
    rows = json.loads(gread("runs", "--store", tmp_path, "--model", "gcn", "--json").stdout)
    assert [row["spec"]["split"] for row in rows] == [0, 1, 2, 3]
    assert gread("runs", "--store", tmp_path).stdout.count("csbm") == 8
    found = json.loads(gread("compare", "gcn", "mlp", "--store", tmp_path, "--json").stdout)
    assert found[0]["pairs"] == 4
    assert 0 <= found[0]["wilcoxon"] <= 1
    assert "Wilcoxon" in gread("compare", "gcn", "mlp", "--store", tmp_path).stdout
    none = gread("compare", "gcn", "gread-bs", "--store", tmp_path)
    assert none.returncode == 2
    assert "must have runs in common" in none.stderr


def test_compare_prints_differences_of_fractions_in_points(gread, tmp_path, monkeypatch):
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())
    for metric, place in (("roc-auc", "texas"), ("nll", "cora")):
        train = TrainConfig(metric=metric)
        for model, test in (("gcn", 0.5), ("mlp", 0.625)):
            spec = RunSpec(dataset=place, model=model, train=train)
            ResultStore(tmp_path).put(Result(spec, "ok", test=test))
    shown = gread("compare", "gcn", "mlp", "--store", tmp_path).stdout
    rows = [line.split()[1::2] for line in shown.splitlines() if "-auc" in line or "nll" in line]
    assert rows == [
        ["cora", "nll", "-0.1250", "1", "1", "1"],
        ["texas", "roc-auc", "-12.50", "1", "1", "1"],
    ]


@pytest.mark.slow
def test_compare_uses_the_setting_with_most_runs_per_dataset(gread, train, tmp_path, monkeypatch):
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())
    compare = ("compare", "gcn", "mlp", "--store", tmp_path, "--json")
    train("--splits", "0-3", "--model", "gcn")
    train("--splits", "0-3", "--model", "mlp")
    before = json.loads(gread(*compare).stdout)
    train("--splits", "0-1", "--model", "mlp", epochs=40)  # later, but fewer runs
    assert json.loads(gread(*compare).stdout) == before
    train("--splits", "2-4", "--model", "mlp", epochs=40)  # now more runs
    assert json.loads(gread(*compare).stdout) != before


archived = cache(read_results)


def committed(name):
    """Results of the package that an artefact needs, most of which are in the file of its name."""
    wanted, found = dict.fromkeys(ARTEFACTS[name].specs()), {}
    files = sorted(ARCHIVES.glob("*.jsonl.xz"), key=lambda path: path.stem != f"{name}.jsonl")
    for path in files:
        if wanted.keys() <= found.keys():  # reading them all takes seconds
            break
        found |= {result.spec: result for result in archived(path)}
    return [found[spec] for spec in wanted if spec in found]


@pytest.mark.slow
def test_reproduce_stored_uses_packaged_results_in_any_folder(gread, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out")
    shown = gread("reproduce", "table-4", "--stored", *places)
    assert shown.returncode == 0
    assert "| GREAD-BS | " in shown.stdout
    plan = SCALES["full"](ARTEFACTS["table-4"])
    assert show(ARTEFACTS["table-4"], plan, committed("table-4")).note in shown.stdout
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".md", ".csv", ".tex"}
    assert "GREAD-BS" in gread("reproduce", "table-2", "--stored", *places).stdout


@pytest.mark.filterwarnings("default")
def test_corrupt_results_file_is_reported_and_skipped(gread, tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "table-4.jsonl.xz").write_bytes(lzma.compress(b"{}\n"))
    monkeypatch.chdir(tmp_path)
    shown = gread("reproduce", "table-4", "--stored")
    assert shown.returncode == 0
    assert "table-4.jsonl.xz, line 1, is not a result" in " ".join(shown.stderr.split())
    assert "| GREAD-BS | " in shown.stdout  # results of the package


def only(monkeypatch, *names):
    """Keep only these artefacts; test_artefacts.py plans all of them."""
    some = Registry("artefact", {name: ARTEFACTS[name] for name in names})
    monkeypatch.setattr(import_module("gread.experiments.reproduce"), "ARTEFACTS", some)


@pytest.mark.slow
def test_runs_are_exported_by_artefact(gread, tmp_path, monkeypatch):
    only(monkeypatch, "table-4", "figure-1", "table-5", "table-2", "table-7")
    monkeypatch.chdir(tmp_path)
    store = ("--store", tmp_path / "store")
    shown = gread("runs", "export", "--out", tmp_path / "all", *store)
    assert shown.returncode == 0, shown.stderr
    files = {path.name: read_results(path) for path in (tmp_path / "all").iterdir()}
    assert files["table-4.jsonl.xz"] == committed("table-4")
    assert "table-7.jsonl.xz" not in files  # the rankings use the same runs
    assert sum(map(len, files.values())) == len({r.spec for runs in files.values() for r in runs})
    gread("runs", "export", "table-2", "--out", tmp_path / "one", *store)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["table-2.jsonl.xz"]
    assert "unknown artefact 'tabel-2'" in gread("runs", "export", "tabel-2", *store).stderr
    shown = gread("runs", *store, "export").stderr
    assert "options of gread runs export must follow its name, got --store before it" in shown


@pytest.mark.slow
def test_ctrl_c_stops_training_with_exit_code_130(tmp_path):
    command = ("train", "csbm", "--epochs", "1000000", "--splits", "0", "--store", tmp_path)
    process = Forked("-m", "gread", *command)
    while not (tmp_path / "results.sqlite").exists():
        assert process.poll() is None, process.end()
        time.sleep(0.1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    done = process.end(timeout=30)
    assert done.returncode == 130
    assert "gread: stopped; finished runs are stored" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_reproduce_dry_run_counts_runs_without_computing(gread, tmp_path, monkeypatch):
    some = ("table-1", "table-4", "table-2", "figure-5", "table-24")
    only(monkeypatch, *some)
    store = ("--store", tmp_path / "store")
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())  # nothing is stored

    def plan(*words):
        rows = json.loads(gread("reproduce", *words, "--dry-run", "--json", *store).stdout)
        return {row["artefact"]: row for row in rows}

    full, quick = plan("all"), plan("all", "--scale", "quick")
    assert list(full) == list(quick) == [*some, "all"]
    assert full["table-1"] == {"artefact": "table-1", "runs": 0, "stored": 0, "seconds": 0}
    *each, every = full.values()
    assert max(row["runs"] for row in each) < every["runs"]
    assert every["runs"] < sum(row["runs"] for row in each)  # artefacts share runs
    assert quick["all"]["seconds"] < every["seconds"] / 20

    monkeypatch.setattr("gread.runs.archive.FOLDERS", [ARCHIVES])
    assert plan("table-4")["table-4"]["stored"] == len(committed("table-4"))
    assert "to compute" in gread("reproduce", "figure-5", "--dry-run", *store).stdout


@pytest.mark.slow
def test_reproduce_draws_a_figure_in_every_format(gread, tmp_path):
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out", "--workers", "1")
    shown = gread("reproduce", "figure-1", *places)
    assert shown.returncode == 0, shown.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"figure-1.{suffix}" for suffix in ("svg", "pdf", "png", "json")}


def test_unknown_scale_exits_with_code_2(gread, tmp_path):
    wrong = gread("reproduce", "figure-1", "--scale", "tiny", "--store", tmp_path)
    assert wrong.returncode == 2
    assert "unknown scale 'tiny'; choose from: full, quick" in wrong.stderr


@pytest.mark.slow
def test_report_is_one_page_with_every_artefact(gread, tmp_path, monkeypatch, real_root):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "new" / "report.html"
    shown = gread("report", "--out", page, "--store", tmp_path / "store")
    assert shown.returncode == 0, shown.stderr
    data = page.read_text().split('id="data">')[1].split("</script>")[0]
    sections = {section["name"]: section for section in json.loads(data)["sections"]}
    assert set(sections) == set(ARTEFACTS)
    assert list(sections)[:2] == ["figure-1", "figure-2"]
    for name in ("table-4", "figure-3", "figure-5", "table-23"):
        assert sections[name]["stored"] == len(committed(name))
        assert sections[name]["empty"] == (not committed(name))
        assert sections[name]["command"] == f"gread reproduce {name}"
    assert sections["figure-5"]["shown"]["claims"]


@pytest.mark.slow
def test_report_is_written_when_data_is_missing(gread, tmp_path, monkeypatch):
    def refuse(results):
        raise DataError("there is no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gread.runs.archive.FOLDERS", ())
    without = {name: replace(ARTEFACTS[name], render=refuse) for name in ("table-3", "table-9")}
    some = {"table-1": ARTEFACTS["table-1"], **without, "figure-1": ARTEFACTS["figure-1"]}
    monkeypatch.setattr("gread.experiments.report.ARTEFACTS", some)
    shown = gread("report")
    assert shown.returncode == 0, shown.stderr
    assert "Its data is missing: there is no network" in Path("report.html").read_text()
