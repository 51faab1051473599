"""Several processes train as one does, and none waits for ever for one that is gone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import gread
from gread.adjacency import NORMALIZATIONS
from gread.distributed import fit_shard, read_shard, shard, spread
from gread.inputs import InputError
from gread.training import TrainConfig
from tests.distributed import work


@pytest.fixture(scope="module")
def data():
    """Small states, in which no reaction blows up."""
    found = gread.csbm(60, 3, homophily=0.4, degree=4, num_features=6, num_splits=2, seed=1)
    found.x = 0.1 * found.x
    return found


@pytest.fixture(scope="module")
def blocks(data, tmp_path_factory):
    """The same graph in one, two and four blocks."""
    folder = tmp_path_factory.mktemp("blocks")
    for count in (1, 2, 4):
        shard(data, folder / str(count), count)
    return folder


@pytest.fixture(scope="module")
def alone(data):
    """The losses of one process for all settings."""
    config = TrainConfig(epochs=20)
    return [
        [epoch.loss for epoch in gread.fit(work.build(6, 3, **hyper), data, config).history]
        for hyper in work.settings()
    ]


@pytest.mark.parametrize("processes", [2, 4])
def test_every_reaction_adjacency_and_solver_gives_the_losses_of_one_process(
    blocks, alone, processes
):
    settings = work.settings()
    found = spread(
        work.losses, (blocks / str(processes), settings, 20), processes=processes, seconds=300
    )
    assert all(others == found[0] for others in found)  # they have taken the same steps
    for hyper, losses, expected in zip(settings, found[0], alone, strict=True):
        assert losses == pytest.approx(expected, rel=1e-5), hyper


def test_one_block_needs_no_other_process(data, blocks):
    found = fit_shard(work.build(6, 3), read_shard(blocks / "1"), TrainConfig(epochs=5)).fit
    alone = gread.fit(work.build(6, 3), data, TrainConfig(epochs=5))
    for one, other in zip(found.history, alone.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-6)
        assert (one.train, one.val, one.test) == pytest.approx(
            (other.train, other.val, other.test), abs=1e-6
        )


def test_directed_edges_with_weights_and_loops(data, tmp_path):
    weighted = data.clone()
    weighted.edge_index = torch.cat([data.edge_index[:, ::2], torch.tensor([[3, 5], [3, 5]])], 1)
    weighted.edge_weight = 0.1 + torch.rand(weighted.edge_index.size(1))
    shard(weighted, tmp_path / "two", 2, "given")
    kinds = [{"normalization": name} for name in NORMALIZATIONS] + [{"adjacency": "soft"}]
    hypers = [
        {"adjacency": "original", "self_loops": loops} | kind
        for kind in kinds
        for loops in (0, 0.5)
    ]
    _same_as_one(weighted, tmp_path / "two", hypers, weighted.edge_weight.double())


def test_the_polynomial_of_a_linear_reaction(data, tmp_path):
    """On an undirected graph; no process has seen all of it, and yet each knows that it is one."""
    shard(data, tmp_path / "two", 2, "given")
    hyper = {"adjacency": "original", "solver": "rk4", "time": 4.0}
    hypers = [hyper | {"reaction": reaction} for reaction in ("bs", "st", "fb", "fb*")]
    _same_as_one(data, tmp_path / "two", hypers, None)


def _same_as_one(data, folder, hypers, edge_weight):
    """Logits and gradients, in float64, in which what is left out by mistake cannot hide."""
    first, second = spread(work.logits_and_gradients, (folder, hypers), processes=2)
    for hyper, one, other in zip(hypers, first, second, strict=True):
        model = work.build(6, 3, **hyper).double()
        logits = model(data.x.double(), data.edge_index, edge_weight)
        logits.square().sum().backward()
        torch.testing.assert_close(torch.cat([one[0], other[0]]), logits.detach())
        for a, b, parameter in zip(one[1], other[1], model.parameters(), strict=True):
            torch.testing.assert_close(a + b, parameter.grad, atol=1e-12, rtol=1e-8)


def test_the_bytes_sent_are_those_of_the_halo(blocks):
    """BS with Euler's steps has two products a step: forth, back, and for the accuracies."""
    steps, channels, epochs = 2, 8, 3
    hyper = {"reaction": "bs", "adjacency": "original", "solver": "euler"}
    for halo, asked, sent, exchanges in spread(
        work.traffic, (blocks / "4", hyper, epochs), processes=4
    ):
        assert exchanges == 6 * steps * epochs
        assert sent == 6 * steps * epochs * asked * channels * 4
        assert halo > 0


def test_a_state_that_blows_up_on_one_process_is_an_error_on_all(blocks):
    with pytest.raises(ArithmeticError, match="the state is not finite any more at t = "):
        spread(work.blow_up, (blocks / "2",), processes=2)


def test_a_training_goes_on_from_its_checkpoint_as_if_it_had_not_stopped(blocks, tmp_path):
    through, stopped, rest = spread(work.stop_and_go, (blocks / "2", tmp_path), processes=2)[0]
    assert len(stopped) == 4
    assert rest == through
    with pytest.raises(InputError, match=r"is of a training over 2 processes, got 1: start 2, or"):
        fit_shard(
            work.build(6, 3),
            read_shard(blocks / "1"),
            TrainConfig(epochs=6),
            checkpoint=tmp_path / "checkpoint",
        )


def test_a_process_that_is_killed_ends_all_or_starts_them_again(blocks, tmp_path):
    start = time.monotonic()
    with pytest.raises(ConnectionError, match="process 1 of 2 was killed by SIGKILL; the same"):
        spread(work.die_once, (blocks / "2", tmp_path / "first", 99), processes=2, seconds=30)
    assert time.monotonic() - start < 90
    through, again = spread(
        work.die_once, (blocks / "2", tmp_path / "second", 1), processes=2, restarts=1
    )
    assert through == again  # the second start went on from the checkpoint and finished
    assert len(through) == 6


def test_a_process_that_does_not_answer_is_given_up(blocks):
    with pytest.raises(ConnectionError, match="does not answer"):
        spread(work.be_silent, (blocks / "2",), processes=2, seconds=3)


def test_a_process_that_lost_another_says_so(blocks, tmp_path):
    """Without anybody who watches them, as on machines of their own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29611",
        "WORLD_SIZE": "2",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.distributed.work", str(blocks / "2"), str(tmp_path)],
            env=environment | {"RANK": str(number)},
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]
    while not (tmp_path / "began").exists():
        time.sleep(0.1)
        assert all(process.poll() is None for process in started)
    started[1].send_signal(signal.SIGKILL)
    _, said = started[0].communicate(timeout=60)
    assert started[0].returncode == 2
    assert "process 0 of 2 has lost another one, which died or does not answer" in said
    started[1].communicate()
