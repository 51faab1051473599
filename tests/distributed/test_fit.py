"""Training over several processes equals training in one; no process waits forever for another."""

import time

import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.base.processes import start_method
from gread.distributed.fit import fit_shard
from gread.distributed.launch import run_processes
from gread.distributed.shards import read_shard, shard
from gread.graph.adjacency import NORMALIZATIONS
from gread.models.steps import COEFFICIENTS, NORMS
from gread.training.config import TrainConfig
from gread.training.losses import LOSSES
from gread.training.metrics import METRICS
from tests.distributed import jobs as work

STEPPED = [n for n, e in gread.MODELS.items() if e.shardable and "num_steps" in e.hyperparameters]


@pytest.fixture(scope="module")
def data():
    """Graph with small states, in which no reaction diverges."""
    found = gread.csbm(60, 3, homophily=0.4, degree=4, num_features=6, num_splits=2, seed=1)
    found.x = 0.1 * found.x
    return found


@pytest.fixture(scope="module")
def shards(data, tmp_path_factory):
    """Folders of the same graph in one, two and four shards."""
    folder = tmp_path_factory.mktemp("shards")
    for count in (1, 2, 4):
        shard(data, folder / str(count), count)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("solver", work.ONE_STEP)
def test_every_reaction_and_adjacency_gives_the_losses_of_one_process(data, shards, solver):
    settings = work.settings(solver, **work.ONE_STEP[solver])
    for processes in (2, 4) if solver == "euler" else (2,):  # the exchange is the same for all
        assert_same_losses(data, shards, settings, processes)


def test_two_processes_give_the_losses_of_one(data, shards):
    """One fast case of the previous test."""
    assert_same_losses(data, shards, [{"adjacency": "soft", "solver": "euler", "time": 0.4}], 2)


def assert_same_losses(data, shards, settings, processes, epochs=5):
    folder = shards / str(processes)
    found = run_processes(work.losses, (folder, settings, epochs), processes=processes)
    assert all(others == found[0] for others in found)  # they took the same steps
    for hyper, losses in zip(settings, found[0], strict=True):
        alone = gread.fit(work.build(6, 3, **hyper), data, TrainConfig(epochs=epochs))
        expected = [epoch.loss for epoch in alone.history]
        assert losses == pytest.approx(expected, rel=1e-5), (processes, hyper)


@pytest.mark.slow
def test_every_loss_and_metric_gives_the_numbers_of_one_process(tmp_path):
    """Includes metrics that compare nodes of different processes."""
    data = {"classes": gread.csbm(60, homophily=0.8, degree=4, seed=1)}
    data["numbers"] = data["classes"].clone()
    data["numbers"].y = data["numbers"].x[:, 0].clone()
    data["labels"] = data["classes"].clone()
    data["labels"].y = (data["labels"].x > 0).float()
    for name, graph in data.items():
        shard(graph, tmp_path / name, 2)
    pairs = [
        (loss, metric)
        for loss, one in LOSSES.items()
        for metric, other in METRICS.items()
        if one.targets in other.targets
    ]
    first, second = run_processes(work.by_metric, (tmp_path, pairs), processes=2)
    assert first == second
    for (loss, metric), found in zip(pairs, first, strict=True):
        model = work.build(2, LOSSES[loss].outputs(2))
        config = TrainConfig(epochs=4, loss=loss, metric=metric)
        graph = data[LOSSES[loss].targets]
        for epoch, expected in zip(found, gread.fit(model, graph, config).history, strict=True):
            assert epoch == pytest.approx(vars(expected), abs=1e-5), (loss, metric)


def test_training_one_shard_matches_training_the_graph(data, shards):
    found = fit_shard(work.build(6, 3), read_shard(shards / "1"), TrainConfig(epochs=5)).fit
    alone = gread.fit(work.build(6, 3), data, TrainConfig(epochs=5))
    for one, other in zip(found.history, alone.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-6)
        assert (one.train, one.val, one.test) == pytest.approx(
            (other.train, other.val, other.test), abs=1e-6
        )


@pytest.mark.slow
def test_directed_weighted_edges_with_loops_match_one_process(data, tmp_path):
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
    assert_same_as_one(weighted, tmp_path / "two", hypers, weighted.edge_weight.double())


def test_linear_reaction_polynomial_matches_one_process(data, tmp_path):
    """The processes find together that Ã is symmetric, although none has the whole matrix."""
    shard(data, tmp_path / "two", 2, "given")
    hyper = {"adjacency": "original", "solver": "rk4", "time": 4.0}
    hypers = [hyper | {"reaction": reaction} for reaction in ("bs", "st", "fb", "fb*")]
    assert_same_as_one(data, tmp_path / "two", hypers, None)
    task = work.traffic, (tmp_path / "two", hypers[0], 1)
    steps = 3 * 32  # products of the steps of BS in the forward and backward pass and evaluation
    assert all(exchanges < steps for *_, exchanges in run_processes(*task, processes=2))


@pytest.mark.slow
def test_many_solver_steps_match_one_process(data, tmp_path):
    shard(data, tmp_path / "two", 2, "given")
    hypers = [
        hyper
        for solver, steps in work.MORE_STEPS.items()
        for hyper in work.settings(solver=solver, **steps)
    ]
    assert_same_as_one(data, tmp_path / "two", hypers, None)


STEPS = [
    *({"model": name, "norm": norm} for name in STEPPED for norm in NORMS),
    *({"model": "gread-x", "reaction": reaction} for reaction in gread.REACTIONS),
    *({"model": "gread-x", "coefficients": kind} for kind in COEFFICIENTS),
    {"model": "gread-x", "residual": True, "jump": True, "local": False, "weights": "shared"},
    {"model": "gread-x", "normalization": "column", "self_loops": 0.5},
]


@pytest.mark.slow
def test_networks_of_steps_give_the_logits_and_gradients_of_one_process(data, tmp_path):
    shard(data, tmp_path / "two", 2, "given")
    assert_same_as_one(data, tmp_path / "two", STEPS, None, work.build_steps)


@pytest.mark.slow
def test_batch_normalization_has_the_statistics_of_all_nodes(data, shards):
    hypers = [{"model": name} for name in STEPPED]
    whole = data.clone()
    whole.x = data.x.double()
    for processes in (1, 2, 4):
        task = work.fit_steps, (shards / str(processes), hypers, 8)
        found = run_processes(*task, processes=processes)
        for number, hyper in enumerate(hypers):
            model = work.build_steps(6, 3, **hyper)
            alone = gread.fit(model, whole, TrainConfig(epochs=8)).history
            for losses, state in (one[number] for one in found):
                assert losses == pytest.approx([epoch.loss for epoch in alone], rel=1e-9)
                assert state.keys() == model.state_dict().keys()
                for name, tensor in model.state_dict().items():
                    torch.testing.assert_close(state[name], tensor, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_settings_that_need_the_whole_graph_raise_input_errors(shards):
    hypers = [{"embedding": True}, {"direction": "both"}]
    hypers = [{"model": "gread-x", **hyper} for hyper in hypers]
    first, second = run_processes(work.refused, (shards / "2", hypers), processes=2)
    assert first == second
    assert first == [
        "embedding must be False over several processes, got True",
        'direction must be "undirected" over several processes, got "both"',
    ]


def assert_same_as_one(data, folder, hypers, edge_weight, make=work.build):
    """Check logits and gradients in float64, so that missing terms exceed the tolerance."""
    first, second = run_processes(work.logits_and_gradients, (folder, hypers, make), processes=2)
    for hyper, one, other in zip(hypers, first, second, strict=True):
        model = make(6, 3, **hyper).double()
        logits = model(data.x.double(), data.edge_index, edge_weight)
        logits.square().sum().backward()
        torch.testing.assert_close(torch.cat([one[0], other[0]]), logits.detach())
        # The gradient of a bias before batch normalization is zero up to rounding.
        rounding = 1e-12 * max(float(p.grad.abs().max()) for p in model.parameters())
        for a, b, parameter in zip(one[1], other[1], model.parameters(), strict=True):
            torch.testing.assert_close(a + b, parameter.grad, atol=rounding, rtol=1e-8)


@pytest.mark.slow
def test_bytes_sent_equal_the_size_of_the_halo_exchanges(shards):
    """BS with Euler has two products per step, each in forward, backward and evaluation."""
    steps, channels, epochs = 2, 8, 3
    hyper = {"reaction": "bs", "adjacency": "original", "solver": "euler", "step_size": 0.5}
    for halo, asked, sent, exchanges in run_processes(
        work.traffic, (shards / "4", hyper, epochs), processes=4
    ):
        assert exchanges == 6 * steps * epochs
        assert sent == 6 * steps * epochs * asked * channels * 4
        assert halo > 0


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [("rk4", "the state overflows at t = "), ("dopri5", "dopri5 cannot continue")],
)
def test_overflow_on_one_process_raises_an_error_on_all_processes(shards, solver, sentence):
    with pytest.raises(ArithmeticError, match=sentence):
        run_processes(work.overflow, (shards / "2", solver), processes=2, seconds=20)


@pytest.mark.slow
def test_training_resumed_from_a_checkpoint_matches_uninterrupted_training(shards, tmp_path):
    through, stopped, rest = run_processes(
        work.train_and_resume, (shards / "2", tmp_path), processes=2
    )[0]
    assert len(stopped) == 4
    assert rest == through
    with pytest.raises(
        InputError, match=r"is of a training over 2 processes, got 1: start 2 processes, or"
    ):
        fit_shard(
            work.build(6, 3),
            read_shard(shards / "1"),
            TrainConfig(epochs=6),
            checkpoint=tmp_path / "checkpoint",
        )


@pytest.mark.slow
def test_killed_process_stops_or_restarts_all_processes(shards, tmp_path):
    start = time.monotonic()
    with pytest.raises(ConnectionError, match="process 1 of 2 was killed by SIGKILL; the same"):
        run_processes(
            work.kill_itself, (shards / "2", tmp_path / "first", 99), processes=2, seconds=30
        )
    assert time.monotonic() - start < 90
    with pytest.warns(
        UserWarning, match="process 1 of 2 was killed by SIGKILL.*: all processes are restarted"
    ):
        first, second = run_processes(
            work.kill_itself, (shards / "2", tmp_path / "second", 1), processes=2, restarts=1
        )
    assert first == second
    assert len(first) == 6  # all epochs, also those before the restart


@pytest.mark.slow
def test_process_that_raises_an_error_is_not_restarted(tmp_path):
    with pytest.raises(ConnectionError, match="process 1 of 2 died with exit code 1"):
        run_processes(work.fail, (tmp_path,), processes=2, restarts=3)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_unresponsive_process_raises_a_connection_error(shards):
    with pytest.raises(ConnectionError, match="does not answer"):
        run_processes(work.stop_answering, (shards / "2",), processes=2, seconds=2)


@pytest.mark.slow
def test_process_reports_a_lost_connection_without_a_launcher(shards, tmp_path):
    """Start the processes without a launcher, as on separate machines."""
    where = (tmp_path / "meet").as_uri()
    started = [
        start_method(work.__name__).Process(
            target=work.train_without_launcher,
            args=(shards / "2", tmp_path, number, where),
            daemon=True,
        )
        for number in (0, 1)
    ]
    for process in started:
        process.start()
    while not (tmp_path / "began").exists():
        time.sleep(0.1)
        assert all(process.is_alive() for process in started)
    started[1].kill()
    started[0].join(60)
    assert (
        "process 0 of 2 lost the connection to another one, which died or does not answer"
        in (tmp_path / "said-0").read_text()
    )
