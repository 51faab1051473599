"""The naive model equals GREAD, and every section of the benchmark runs.

The speed is not tested.
"""

import json
import math
from time import sleep

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from typer.testing import CliRunner

import gread
from gread.bench import naive as NAIVE
from gread.bench.costs import states_held, step_seconds
from gread.bench.section import measure
from gread.bench.sections import BENCHES
from gread.bench.timing import interleave, ratio
from gread.cli import app


def copied(model: nn.Module, **hyper) -> nn.Module:
    """Draw random parameters for `model`, and return a naive model with the same parameters."""
    other = NAIVE.NaiveGREAD(3, 8, 2, **hyper).double()
    with torch.no_grad():
        for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
            theirs.copy_(torch.rand_like(theirs) - 0.5)
            mine.copy_(shaped(theirs, mine))
    return other


def shaped(theirs: torch.Tensor, mine: torch.Tensor) -> torch.Tensor:
    """Return ``theirs`` in the shape of ``mine``; a matrix may be stored as its transpose."""
    found = theirs if theirs.shape == mine.shape else theirs.t()
    assert found.shape == mine.shape
    return found


def check_same(graph, hyper, product="scatter"):
    hyper = {"time": 1.3, "step_size": 0.5, **hyper}
    ours = gread.GREAD(3, 8, 2, **hyper).double().eval()
    theirs = copied(ours, **hyper, product=product).eval()
    x = graph.x / 10  # so that no reaction diverges
    logits = [model(x, graph.edge_index) for model in (ours, theirs)]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-5, atol=1e-5)
    for out in logits:
        cross_entropy(out, graph.y).backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        found = shaped(one.grad, other.grad)
        torch.testing.assert_close(found, other.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("adjacency", ["original", "soft"])
@pytest.mark.parametrize("solver", ["euler", "rk4"])
@pytest.mark.parametrize("reaction", list(NAIVE.REACTIONS))
def test_naive_model_equals_gread(graph, reaction, solver, adjacency):
    check_same(graph, {"reaction": reaction, "solver": solver, "adjacency": adjacency})


@pytest.mark.parametrize(
    "hyper",
    [
        {"alpha": "vector", "beta": "scalar"},
        {"encoder": "mlp", "decoder": "mlp", "output_activation": True},
        {"adjacency": "original", "normalization": "column"},
        {"adjacency": "original", "self_loops": 0.0},
        {"self_loops": 0.0, "heads": 2, "attention_channels": 6},
    ],
)
def test_naive_model_equals_gread_for_other_hyperparameters(graph, hyper):
    check_same(graph, hyper)


def test_naive_model_equals_gread_with_a_coo_matrix(graph):
    check_same(graph, {"adjacency": "original"}, product="coo")


def test_naive_model_learns_a_homophilous_graph():
    data = gread.csbm(100, 2, homophily=0.8, degree=6, num_features=8)
    accuracies = []
    model = NAIVE.NaiveGREAD(8, 8, 2)
    NAIVE.train(model, data, epochs=30, on_epoch=accuracies.append)
    assert len(accuracies) == 30
    assert accuracies[-1] > 0.8


def test_interleaved_timings_alternate_and_give_a_ratio(monkeypatch):
    turns = []

    def side(name, seconds, count):
        turns.append(name)
        return seconds

    monkeypatch.setattr("gread.bench.timing.ROUNDS", 3)
    found = interleave({"a": lambda n: side("a", 0.1, n), "b": lambda n: side("b", 0.4, n)}, False)
    assert turns == ["a", "b"] * 4  # the first turns determine the number of repetitions
    assert ratio(found, slow="b", fast="a")["ratio"] == pytest.approx(4)


def test_tensors_saved_by_autograd_are_counted_once():
    data = gread.csbm(50, num_features=4)

    class Squares(nn.Module):
        def forward(self, x, edge_index):
            y = x.exp()  # stores y for the backward pass
            return y * y + y.square()  # both terms store y again

    data.x.requires_grad_()
    assert states_held(Squares(), data, 4) == 1


def test_a_training_step_is_timed_without_an_evaluation():
    data = gread.csbm(20, num_features=4, num_splits=1)
    calls = []

    class Slow(nn.Linear):
        def forward(self, x, edge_index):
            calls.append(self.training)
            sleep(0.002)
            return super().forward(x)

    assert step_seconds(Slow(4, 2), data, steps=3) >= 0.002
    assert calls == [True] * 5  # two warm-up steps and three measured ones


@pytest.mark.parametrize("name", BENCHES)
def test_every_section_gives_positive_numbers(name):
    section = measure(name, "cpu", True)
    assert section.rows, section.note
    numbers = [
        value for row in section.rows for value in row.values() if not isinstance(value, str)
    ]
    assert numbers
    assert all(number > 0 and math.isfinite(number) for number in numbers)
    assert section.figure is not None
    assert len(section.table().rows) == len(section.rows)


def test_section_without_its_data_reports_the_reason(monkeypatch):
    def fail(device, quick):
        raise gread.DataError("cora is not here")

    monkeypatch.setitem(BENCHES._entries, "shares", fail)
    section = measure("shares", "cpu", True)
    assert not section.rows
    assert section.note == "Left out: cora is not here."


@pytest.mark.slow
def test_bench_command_prints_tables_and_writes_files(tmp_path):
    result = CliRunner().invoke(
        app, ["bench", "shares", "bandwidth", "--quick", "--device", "cpu", "--out", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert "Parts of a training step" in result.output
    assert "threads" in result.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"bench.md", "bench.json", "shares.png", "bandwidth.png"}
    assert all(path.stat().st_size > 500 for path in tmp_path.iterdir())
    markdown = (tmp_path / "bench.md").read_text()
    assert "## Sparse product against a copy\n\n| graph | d |" in markdown
    assert "(bandwidth.png)" in markdown
    stored = json.loads((tmp_path / "bench.json").read_text())
    assert set(stored) == {"machine", "sections"}
    assert len(stored["sections"]["bandwidth"]["rows"]) == 3


def test_bench_command_prints_json_and_lists_its_sections():
    shown = CliRunner().invoke(app, ["bench", "shares", "--quick", "--device", "cpu", "--json"])
    assert json.loads(shown.stdout)["sections"]["shares"]["rows"][0]["step ms"] > 0
    shown_help = CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "300"}).output
    assert all(name in shown_help for name in BENCHES)
    wrong = CliRunner().invoke(app, ["bench", "headlin"])
    assert "did you mean 'headline'" in str(wrong.exception)
