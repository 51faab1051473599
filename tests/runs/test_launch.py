import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from gread import MODELS, REACTIONS
from gread.base.errors import InputError
from gread.base.memory import OutOfMemory
from gread.runs.executors.find import find_executor
from gread.runs.launch import launch
from gread.runs.run import run, run_together
from gread.runs.store import ResultStore
from gread.training.config import TrainConfig
from tests.processes import Forked

KILLER = """
# Repeatedly starts a launch in a child process and kills it after a random time.
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from gread.runs import ResultStore, RunSpec, launch
folder, texts = sys.argv[1], sys.argv[2:]
specs = [RunSpec.from_json(text) for text in texts]
launch(specs[:1], ResultStore(folder + "/warm-up"))  # children inherit the lazy imports
random.seed(0)
start = time.monotonic()
launch(specs, ResultStore(folder + "/whole"))
whole = time.monotonic() - start
killed = 0
for _ in range(20):
    child = os.fork()
    if child == 0:
        launch(specs, ResultStore(folder + "/killed"))
        os._exit(0)
    time.sleep(random.uniform(0, whole / 6))
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
launch(specs, ResultStore(folder + "/killed"))
print(killed)
"""


def test_launch_computes_only_missing_runs(tmp_path, small):
    store = ResultStore(tmp_path)
    specs = [small(seed=seed) for seed in range(3)]
    seen = []
    launch(specs[:2], store, on_result=seen.append)
    launch(specs, store, on_result=seen.append)
    launch(specs, store, on_result=seen.append)
    assert [result.spec.seed for result in seen] == [0, 1, 2]


@pytest.mark.slow
def test_multiple_workers_give_the_same_histories_as_one_process(tmp_path, small):
    specs = [small(seed=seed) for seed in range(3)]
    store = ResultStore(tmp_path)
    launch(specs, store, workers=2)
    assert [store.get(spec).history for spec in specs] == [run(spec).history for spec in specs]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.slow
def test_several_processes_share_a_gpu(tmp_path, small):
    specs = [small(seed=seed) for seed in range(3)]
    store = ResultStore(tmp_path)
    launch(specs, store, workers=2, devices=["cuda"], together=False)
    assert [store.get(spec).device.split()[0] for spec in specs] == ["cuda"] * 3


def test_error_stops_the_launch_and_keeps_finished_results(tmp_path, small):
    store = ResultStore(tmp_path)
    with pytest.raises(InputError, match="split must be below 10"):
        launch([small(), small(split=10)], store)
    assert len(store) == 1
    with pytest.raises(InputError, match="workers must be a whole number of at least 1, got 0"):
        launch([], store, workers=0)


@pytest.mark.slow
def test_repeatedly_killed_launch_gives_the_same_results(tmp_path, small):
    texts = [small(seed=seed, split=split).to_json() for seed in range(4) for split in range(5)]
    done = Forked("-c", KILLER, tmp_path, *texts).end()
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5  # the others finished before they were killed
    whole, killed = (
        {result.spec.key: result.history for result in ResultStore(tmp_path / name)}
        for name in ("whole", "killed")
    )
    assert len(whole) == 20
    assert whole == killed


OWN = """
from gread import REACTIONS

@REACTIONS.register("standstill")
def standstill(s):
    return 0 * s.h
"""

LAUNCHER = """
import sys
from gread.runs import ResultStore, RunSpec, launch
if __name__ == "__main__":
    specs = [RunSpec.from_json(text) for text in sys.argv[2:]]
    launch(specs, ResultStore(sys.argv[1]), workers=2, on_result=lambda _: print("one", flush=True))
"""


@pytest.fixture
def own_reaction(tmp_path, monkeypatch):
    """Function that imports a module with a reaction; registries are restored after the test."""
    before = [(registry, dict(registry._entries)) for registry in (REACTIONS, MODELS)]
    monkeypatch.syspath_prepend(tmp_path)

    def imported(code):
        (tmp_path / "own_reaction_of_a_test.py").write_text(code)
        return importlib.import_module("own_reaction_of_a_test").__name__

    yield imported
    sys.modules.pop("own_reaction_of_a_test", None)
    for registry, entries in before:
        registry._entries.clear()
        registry._entries.update(entries)


@pytest.mark.slow
def test_modules_are_imported_in_every_process(tmp_path, small, own_reaction):
    module, store = own_reaction(OWN), ResultStore(tmp_path)
    specs = [small(model="gread-standstill", seed=seed) for seed in range(2)]
    launch(specs, store, workers=2, imports=[module])
    assert all(store.get(spec).status == "ok" for spec in specs)


GREEDY = """
import fcntl, time
from pathlib import Path
import torch
from gread import REACTIONS

room, crowded = Path(__file__).with_name("room"), Path(__file__).with_name("crowded")

@REACTIONS.register("greedy")
def greedy(s):  # memory is enough for one at a time; the first waits for a second
    with room.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            crowded.touch()
            raise torch.OutOfMemoryError("no room") from None
        until = time.monotonic() + 30
        while not crowded.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return 0 * s.h
"""


TOO_LARGE = """
import torch
from gread import REACTIONS

@REACTIONS.register("greedy")
def greedy(s):
    raise torch.OutOfMemoryError("no room")
"""


@pytest.mark.slow
def test_launch_fails_if_a_run_alone_is_out_of_memory(tmp_path, small, own_reaction):
    module, spec = own_reaction(TOO_LARGE), small(model="gread-greedy")
    with pytest.raises(OutOfMemory):
        launch([spec, replace(spec, seed=1)], ResultStore(tmp_path), workers=2, imports=[module])


@pytest.mark.slow
def test_out_of_memory_runs_are_retried_alone(tmp_path, small, own_reaction):
    module, store = own_reaction(GREEDY), ResultStore(tmp_path)
    specs = [small(model="gread-greedy", seed=seed) for seed in range(4)]
    launch(specs, store, workers=2, imports=[module])
    assert all(store.get(spec).status == "ok" for spec in specs)
    assert (tmp_path / "crowded").exists()


@pytest.fixture
def launched(tmp_path, small):
    """A launch in two processes after its first result, and its specs."""
    program = tmp_path / "program.py"
    program.write_text(LAUNCHER)
    long = TrainConfig(epochs=40)
    specs = [small(seed=seed, train=long) for seed in range(40)]
    process = subprocess.Popen(
        [sys.executable, program, tmp_path / "store", *(spec.to_json() for spec in specs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a separate process group, as in a terminal
    )
    assert process.stdout.readline() == "one\n", process.stderr.read()
    yield process, specs
    process.kill()
    process.communicate()


def in_group(group: int) -> list[str]:
    """States of the live processes of a group."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True).stdout
    rows = [row.split() for row in listed.splitlines()]
    return [state for number, state in rows if int(number) == group and state[0] != "Z"]


def gone(group: int) -> bool:
    """Whether all processes of the group end within ten seconds."""
    until = time.monotonic() + 10
    while in_group(group) and time.monotonic() < until:
        time.sleep(0.1)
    return not in_group(group)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow
def test_stopped_launch_leaves_no_processes_and_can_be_resumed(tmp_path, launched, how):
    process, specs = launched
    if how is signal.SIGINT:
        os.killpg(process.pid, how)  # Ctrl-C reaches all of them
    else:
        process.send_signal(how)
    assert process.wait(timeout=20) != 0
    assert gone(process.pid)
    store = ResultStore(tmp_path / "store")
    assert 0 < len(store) < len(specs)
    before = {result.spec.key: result.finished for result in store}
    launch(specs[:8], store)
    assert before.items() <= {result.spec.key: result.finished for result in store}.items()
    assert not store.missing(specs[:8])


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("no room"), RuntimeError("DefaultCPUAllocator: not enough memory")],
    ids=["gpu", "cpu"],
)
def test_a_population_that_needs_too_much_memory_is_halved(tmp_path, small, monkeypatch, error):
    specs = [small(seed=seed) for seed in range(5)]
    sizes = []

    def little_memory(specs, **options):
        sizes.append(len(specs))
        if len(specs) > 2:
            raise error
        return run_together(specs, **options)

    monkeypatch.setattr("gread.runs.executors.job.run_together", little_memory)
    store = ResultStore(tmp_path)
    launch(specs, store, together=True)
    assert sizes == [5, 2, 3, 2]  # the three are split into one and two
    apart = {spec.key: run(spec).val for spec in specs}
    assert store.numbers("val") == pytest.approx(apart)


@pytest.mark.slow
def test_runs_of_a_killed_worker_process_are_retried(tmp_path, small):
    specs = [small(seed=seed, train=TrainConfig(epochs=20)) for seed in range(6)]
    store, seen = ResultStore(tmp_path), []

    def kill(result):
        seen.append(result.spec)
        if len(seen) == 1:
            multiprocessing.active_children()[0].kill()

    with pytest.warns(UserWarning, match="runs were lost and are retried"):
        launch(specs, store, workers=2, on_result=kill)
    assert sorted(spec.seed for spec in seen) == list(range(6))
    assert all(store.get(spec).history == run(spec).history for spec in specs)


@pytest.mark.slow
def test_worker_processes_are_reused_until_their_executor_is_deleted(tmp_path, small):
    others = set(multiprocessing.active_children())
    store, executor, own = ResultStore(tmp_path), find_executor("local"), []
    for seeds in (range(2), range(2, 4)):
        launch([small(seed=seed) for seed in seeds], store, executor=executor, workers=2)
        own.append(set(multiprocessing.active_children()) - others)
    assert own[0] == own[1]
    first, _ = own[0]
    first.kill()  # while it is idle
    first.join()
    with pytest.warns(UserWarning, match="runs were lost and are retried"):
        launch([small(seed=seed) for seed in range(6)], store, executor=executor, workers=2)
    assert len(store) == 6
    del executor
    assert set(multiprocessing.active_children()) <= others


@pytest.mark.slow
def test_worker_processes_started_in_advance_compute_later_jobs(tmp_path, small):
    others = set(multiprocessing.active_children())
    executor = find_executor("local")
    executor.start("cpu", 2, ())
    started = set(multiprocessing.active_children()) - others
    assert len(started) == 2
    store = ResultStore(tmp_path)
    launch([small(seed=seed) for seed in range(4)], store, executor=executor, workers=2)
    assert len(store) == 4
    assert set(multiprocessing.active_children()) - others == started
    executor.start("cpu", 1, ())  # one worker is this process
    assert set(multiprocessing.active_children()) - others == started


class LossyExecutor:
    """Executor that loses every job except the one with seed 0."""

    remote = False

    def compute(self, jobs, workers, imports):
        for job in jobs:
            first = job.specs[0].seed == 0
            yield job, job.compute() if first else ConnectionError("no answer")


# A warning of PyTorch on Python 3.13: pytest.warns re-emits it without its module.
@pytest.mark.filterwarnings(
    "ignore:Failing to pass a value to the 'type_params':DeprecationWarning"
)
def test_launch_gives_up_after_three_consecutive_failures(tmp_path, small):
    store = ResultStore(tmp_path)
    lost = pytest.raises(ConnectionError, match=r"2 runs failed 3 times in a row.* no answer")
    with pytest.warns(UserWarning, match="are retried"), lost:
        launch([small(seed=seed) for seed in range(3)], store, executor=LossyExecutor())
    assert len(store) == 1
    with pytest.raises(InputError, match="unknown executor 'cloud'; choose from: local, ray"):
        launch([], store, executor="cloud")
    with pytest.raises(InputError, match="local must have no address, got 'here'"):
        launch([], store, executor="local=here")
