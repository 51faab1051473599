import subprocess
import sys

import pytest

from gread.inputs import InputError
from gread.runs import ResultStore, launch, run

KILLER = """
# Starts a launch in a child, kills it after a random time, and does so again and again.
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from gread.runs import ResultStore, RunSpec, launch
folder, texts = sys.argv[1], sys.argv[2:]
specs = [RunSpec.from_json(text) for text in texts]
launch(specs[:1], ResultStore(folder + "/warm-up"))  # what is lazily imported is so in every child
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


def test_only_what_is_missing_is_computed(tmp_path, small):
    store = ResultStore(tmp_path)
    specs = [small(seed=seed) for seed in range(3)]
    seen = []
    launch(specs[:2], store, on_result=seen.append)
    launch(specs, store, on_result=seen.append)
    launch(specs, store, on_result=seen.append)
    assert [result.spec.seed for result in seen] == [0, 1, 2]


def test_several_processes_give_what_one_gives(tmp_path, small):
    specs = [small(seed=seed) for seed in range(3)]
    store = ResultStore(tmp_path)
    launch(specs, store, workers=2)
    assert [store.get(spec).history for spec in specs] == [run(spec).history for spec in specs]


def test_an_error_ends_the_launch_and_keeps_what_was_computed(tmp_path, small):
    store = ResultStore(tmp_path)
    with pytest.raises(InputError, match="split must be below 10"):
        launch([small(), small(split=10)], store)
    assert len(store) == 1
    with pytest.raises(InputError, match="workers must be a whole number of at least 1, got 0"):
        launch([], store, workers=0)


def test_killed_at_twenty_moments_it_ends_with_the_same_results(tmp_path, small):
    texts = [small(seed=seed, split=split).to_json() for seed in range(4) for split in range(5)]
    done = subprocess.run(
        [sys.executable, "-c", KILLER, tmp_path, *texts],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5  # the others were done before they could be killed
    whole, killed = (
        {result.spec.key: result.history for result in ResultStore(tmp_path / name)}
        for name in ("whole", "killed")
    )
    assert len(whole) == 20
    assert whole == killed
