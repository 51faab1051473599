"""Runs on a real Ray cluster of two local nodes, parts of which are killed.

These tests are slow, because a process of the cluster takes seconds to start. The contract of
executors is tested without a cluster in test_launch.py. Tests share one cluster. The test that
removes a node comes after the others that need two nodes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types

import pytest

from gread.base.errors import InputError
from gread.cli import main
from gread.data.catalog import DATASETS, DatasetEntry
from gread.data.synthetic import csbm
from gread.experiments.artefact import Artefact
from gread.experiments.questions import ARTEFACTS
from gread.runs.executors.find import find_executor
from gread.runs.executors.job import Job
from gread.runs.launch import launch
from gread.runs.run import run
from gread.runs.store import ResultStore
from gread.search.search import search
from gread.search.space import Space
from gread.search.study import load_study
from gread.training.config import TrainConfig
from tests.runs.test_launch import GREEDY
from tests.search.conftest import TABLE

ray = pytest.importorskip("ray", reason="Ray is not installed")
from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

pytestmark = pytest.mark.slow

DRIVER = """
import sys
from gread.runs import ResultStore, RunSpec, launch
specs = [RunSpec.from_json(text) for text in sys.argv[3:]]
show = lambda _: print("one", flush=True)
launch(specs, ResultStore(sys.argv[2]), executor=f"ray={sys.argv[1]}", on_result=show)
"""


@pytest.fixture(autouse=True)
def limit():
    """Fail a test that hangs."""

    def end(*_):
        raise TimeoutError("the test took more than two minutes")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def disconnected():
    """Disconnect this process from any cluster."""
    ray.shutdown()


@pytest.fixture(scope="module")
def local_cluster():
    """Cluster that starts with one node with one core; `cluster` adds a second."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,  # a short path
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")  # otherwise it writes a token to the home folder
        patch.setenv("RAY_worker_niceness", "0")  # otherwise other tests have priority
        made = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def cluster(local_cluster):
    """Cluster of two nodes."""
    if not local_cluster.worker_nodes:
        local_cluster.add_node(num_cpus=1)
    return local_cluster


@pytest.fixture
def executor(cluster):
    return find_executor(f"ray={cluster.address}")


@pytest.fixture(scope="module")
def table(small):
    """Specs of short runs, and their histories."""
    specs = [small(seed=seed, train=TrainConfig(epochs=50)) for seed in range(8)]
    return {spec: run(spec).history for spec in specs}


def busy_workers(*nodes) -> list[int]:
    """Worker processes of the nodes that are computing a job."""
    raylets = {node.all_processes["raylet"][0].process.pid for node in nodes}
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, parent, name in rows if int(parent) in raylets and "_work" in name]


def stop_workers(*nodes) -> list[int]:
    """Stop the processes that are computing a job, and return those that have no result yet."""
    processes = busy_workers(*nodes)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    still = busy_workers(*nodes)  # a process loses this name before it sends its result
    for process in set(processes) - set(still):
        os.kill(process, signal.SIGCONT)
    return [process for process in processes if process in still]


def assert_same(store: ResultStore, table) -> None:
    assert {result.spec: result.history for result in store} == table


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "refused"),
        ("no-such-host.invalid:6379", "not known|resolution"),
        ("nonsense", "Invalid address"),
    ],
)
def test_unreachable_ray_address_raises_input_error(disconnected, address, reason):
    with pytest.raises(InputError, match=f"cluster must be reachable, got '{address}': .*{reason}"):
        find_executor(f"ray={address}")


def test_connecting_to_a_server_that_is_not_ray_times_out(
    disconnected, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr("gread.runs.executors.ray.SECONDS", 3.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        arguments = ["train", "csbm", "--executor", f"ray={address}", "--store", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["gread", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    assert left.value.code == 2
    assert capsys.readouterr().err.endswith("no Ray answers within 3 s\n")


def test_missing_ray_package_error_names_the_pip_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'gread\[ray\]'"):
        find_executor("ray")


def test_cluster_gives_the_same_histories_as_local_runs(tmp_path, executor, table):
    store, seen = ResultStore(tmp_path), []
    launch(list(table)[:2], store, executor=executor)
    launch(table, store, executor=executor, on_result=seen.append)
    launch(table, store, executor=executor, on_result=seen.append)
    assert_same(store, table)
    assert len(seen) == len(table) - 2


def test_cluster_nodes_receive_graphs_from_the_driver(tmp_path, executor, small, monkeypatch):
    entry = DatasetEntry(lambda: csbm(40), title="", citation="", licence="")
    monkeypatch.setitem(DATASETS._entries, "only-here", entry)
    specs = [small(dataset="only-here", options={}, seed=seed) for seed in range(3)]
    store = ResultStore(tmp_path)
    launch(specs, store, executor=executor)
    assert_same(store, {spec: run(spec).history for spec in specs})
    assert len(executor.graphs) == 1


def test_errors_on_the_cluster_are_raised_in_the_driver(tmp_path, executor, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "only_here", types.ModuleType("only_here"))
    exec("def newer(): pass", vars(sys.modules["only_here"]))
    newer = sys.modules["only_here"].newer
    with pytest.raises(InputError, match=r"^split must be below 10"):
        launch([small(split=10)], ResultStore(tmp_path), executor=executor)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        launch([small()], ResultStore(tmp_path), executor=executor, imports=["no_such_module"])
    with pytest.raises(
        InputError, match=r"every node must have the same version of gread.*only_here"
    ):
        launch([small()], ResultStore(tmp_path), executor=executor, imports=[newer])
    with pytest.raises(InputError, match="processes must be 1 on Ray"):
        several = TrainConfig(epochs=1, processes=2)
        launch([small(train=several)], ResultStore(tmp_path), executor=executor)


GREEDY_DRIVER = """
import sys
from dataclasses import replace
import greedy_reaction_of_a_test as own
from gread.runs import ResultStore, RunSpec, launch
spec = replace(RunSpec.from_json(sys.argv[3]), model="gread-greedy")
store = ResultStore(sys.argv[2])
runs = [replace(spec, seed=seed) for seed in range(4)]
launch(runs, store, executor=f"ray={sys.argv[1]}", imports=[own.__name__])
print(*(store.get(run).status for run in runs))
"""


def test_out_of_memory_runs_are_retried_alone(tmp_path, cluster, small):
    (tmp_path / "greedy_reaction_of_a_test.py").write_text(GREEDY)
    driver = tmp_path / "driver.py"
    driver.write_text(GREEDY_DRIVER)
    command = [sys.executable, driver, cluster.address, tmp_path / "store", small().to_json()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "ok ok ok ok\n", done.stderr
    assert (tmp_path / "crowded").exists()


def test_postgresql_search_retries_runs_of_a_killed_worker(tmp_path, cluster, executor, postgresql):
    space = Space("gread-bs", TABLE | {"epochs": 60})
    settings = {"space": space, "splits": [0, 1], "options": {"num_nodes": 30}, "trials": 4}
    killed, counts = [], []

    def kill(progress):
        counts.append(progress.runs)
        until = time.monotonic() + 1  # later runs start after this function
        while not killed and time.monotonic() < until:
            for process in stop_workers(*cluster.list_all_nodes()):
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    store = ResultStore(tmp_path / "cluster")
    with pytest.warns(UserWarning, match="runs were lost and are retried"):
        found = search(
            "csbm", store=store, storage=postgresql, executor=executor, on_progress=kill, **settings
        )
    assert found == search("csbm", store=ResultStore(tmp_path / "here"), **settings)
    study, _ = load_study("csbm-gread-bs", postgresql, tmp_path)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4
    assert len(store) == 8 == counts[-1]  # each run was reported once


def test_commands_take_an_executor(tmp_path, cluster, executor, table, monkeypatch, capsys):
    mine = Artefact(lambda: list(table)[:3], ARTEFACTS["table-1"].render)
    monkeypatch.setitem(ARTEFACTS._entries, "mine", mine)
    space = tmp_path / "space.toml"
    space.write_text("epochs = 2\ntime = { low = 0.5, high = 1.0 }\n")
    commands = [
        ["train", "csbm", "--splits", "0-1", "--epochs", "2"],
        ["search", "csbm", "--trials", "2", "--splits", "0-1", "--space", space],
        ["reproduce", "mine", "--out", tmp_path],
    ]
    for command in commands:
        where = ["--executor", f"ray={cluster.address}", "--store", tmp_path / "store", "--json"]
        monkeypatch.setattr(sys, "argv", ["gread", *map(str, command), *map(str, where)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        assert left.value.code == 0, shown.err
        json.loads(shown.out)
    assert len(ResultStore(tmp_path / "store")) == 2 + 4 + 3


def test_timed_run_on_a_cluster_records_epoch_seconds(tmp_path, executor, small):
    store, timed = ResultStore(tmp_path), small(record=("epoch_seconds",))
    launch([timed], store, executor=executor)
    assert len(store.get(timed).records["epoch_seconds"]) == 20


def test_a_small_job_takes_an_eighth_of_a_gpu(executor, small, monkeypatch):
    job = Job([small()], None, "cuda", False, True)
    monkeypatch.setitem(vars(executor), "_gpu_memory", 1e9)
    assert executor._gpus(job, alone=False) == 1 / 8
    assert executor._gpus(job, alone=True) == 1
    with pytest.raises(InputError, match="device must be cpu on this cluster, got 'cuda'"):
        executor.choose_device("cuda")


def test_runs_of_a_removed_node_are_retried(tmp_path, cluster, executor, table):
    store, seen, (node,) = ResultStore(tmp_path), [], cluster.worker_nodes
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    ray.get(ray.remote(scheduling_strategy=there)(lambda: None).remote())  # starts a process there

    def remove(result):
        seen.append(result.spec)
        if node not in cluster.worker_nodes:
            return
        until = time.monotonic() + 1
        while not (processes := stop_workers(node)):  # between two runs
            if time.monotonic() > until:
                return  # its runs are done, and others start after this function
        cluster.remove_node(node, allow_graceful=False)
        for process in processes:
            os.kill(process, signal.SIGKILL)

    with pytest.warns(UserWarning, match="runs were lost and are retried"):
        launch(table, store, executor=executor, on_result=remove)
    assert_same(store, table)
    assert len(seen) == len(table)


def test_restarted_driver_computes_only_missing_runs(tmp_path, local_cluster, table):
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    texts = [spec.to_json() for spec in table]
    store = ResultStore(tmp_path / "store")
    command = [sys.executable, program, local_cluster.address, store.path.parent, *texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert "one\n" in iter(driver.stdout.readline, "")  # Ray also prints there
        driver.kill()
    before = {result.spec: result.finished for result in store}
    assert 0 < len(before) < len(table)
    seen = []
    launch(table, store, executor=f"ray={local_cluster.address}", on_result=seen.append)
    assert_same(store, table)
    assert len(before) + len(seen) == len(table)
    assert before.items() <= {result.spec: result.finished for result in store}.items()
