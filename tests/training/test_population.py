"""Populations give the results of single trainings."""

import sys
from dataclasses import replace

import pytest
import torch

import gread
from gread import TrainConfig
from gread.kernels import reference
from gread.models.attention import NORMALIZERS
from gread.runs.complete import complete
from gread.runs.grouping import bytes_of, populations, size_of
from gread.runs.launch import launch
from gread.runs.run import built, form, run, run_together
from gread.runs.spec import RunSpec
from gread.runs.store import ResultStore
from gread.training.memory import bytes_held
from gread.training.optimizer import MemberAdam
from gread.training.population import fit_together

SETTINGS = [
    {"time": 1.0, "alpha": "scalar", "beta": "vector", "dropout": 0.3},
    {"time": 2.5, "step_size": 0.5, "alpha": "vector", "beta": "scalar", "input_dropout": 0.0},
    {"time": 0.3, "alpha": "vector", "beta": "positive-vector", "dropout": 0.0},
]


def specs(epochs=8, **common):
    return [
        RunSpec(
            dataset="csbm",
            model="gread-bs",
            split=number,
            seed=10 + number,
            hyper={"hidden_channels": 8, **common, **own},
            train=TrainConfig(epochs=epochs, lr=0.01 * (1 + number), weight_decay=1e-3 * number),
            options={"num_nodes": 60},
            record=("coefficients",),
        )
        for number, own in enumerate(SETTINGS)
    ]


def assert_same(together, alone):
    assert together.status == alone.status
    assert together.epoch == alone.epoch
    assert together.val_loss == pytest.approx(alone.val_loss, abs=1e-4)
    for ours, theirs in zip(together.history, alone.history, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)  # rounding errors grow over epochs
    for name, numbers in alone.records.get("coefficients", {}).items():
        assert together.records["coefficients"][name] == pytest.approx(numbers, abs=1e-4)


def assert_members_match_single_runs(adjacency):
    chosen = specs(adjacency=adjacency)
    assert len({form(spec) for spec in chosen}) == 1
    for together, spec in zip(run_together(chosen), chosen, strict=True):
        assert_same(together, run(spec))


@pytest.mark.parametrize("adjacency", ["original", "soft"])
def test_population_members_match_single_runs(adjacency):
    assert_members_match_single_runs(adjacency)


def test_members_match_single_runs_with_the_fused_loss_kernel(monkeypatch):
    for module in ("losses", "loop"):
        monkeypatch.setattr(sys.modules[f"gread.training.{module}"], "IN_ONE_PASS", ("cpu",))
    monkeypatch.setattr(sys.modules["gread.training.loop"], "backend_for", lambda _: reference)
    assert_members_match_single_runs("soft")


def test_grand_members_match_single_runs():
    own = [{"time": 1.0, "dropout": 0.3}, {"time": 2.5, "step_size": 0.5}, {"input_dropout": 0.0}]
    chosen = [
        replace(spec, model="grand", hyper={"hidden_channels": 8, **hyper}, record=())
        for spec, hyper in zip(specs(), own, strict=True)
    ]
    assert len(populations(chosen, "cpu", None)) == 1
    for together, spec in zip(run_together(chosen), chosen, strict=True):
        assert_same(together, run(spec))


@pytest.mark.parametrize("most", [1, 2, 9])
def test_populations_have_at_most_the_given_number_of_members(most):
    groups = populations(specs(), "cpu", None, most=most)
    assert max(map(len, groups)) == min(most, 3)
    assert sorted(spec.key for group in groups for spec in group) == sorted(
        spec.key for spec in specs()
    )


def test_nonlinear_grand_members_match_single_runs():
    hyper = {"hidden_channels": 8, "linear": False, "normalizer": "squareplus", "time": 2.0}
    own = [{"dropout": 0.3}, {"dropout": 0.0}, {"dropout": 0.0, "time": 3.0}]
    chosen = [
        replace(spec, model="grand", hyper={**hyper, **rate}, record=())
        for spec, rate in zip(specs(), own, strict=True)
    ]
    # Members with different numbers of steps are not combined.
    groups = populations(chosen, "cpu", None)
    assert sorted(map(len, groups)) == [1, 2]
    for together, spec in zip(run_together(chosen[:2]), chosen, strict=False):
        assert_same(together, run(spec))


def test_diverging_nonlinear_grand_member_leaves_others_unchanged():
    hyper = {"hidden_channels": 8, "linear": False, "time": 2.0}
    chosen = [replace(spec, model="grand", hyper=hyper, record=()) for spec in specs(epochs=6)]
    chosen[1] = replace(chosen[1], train=TrainConfig(epochs=6, lr=1e20))
    results = run_together(chosen)
    assert results[1].status in ("failed", "diverged")
    for number in (0, 2):
        assert_same(results[number], run(chosen[number]))


def test_members_stop_at_the_same_epoch_as_in_single_runs():
    configs = [
        TrainConfig(epochs=25),  # more than one batch of epochs
        TrainConfig(epochs=3),
        TrainConfig(epochs=60, patience=2, lr=0.05),
    ]
    chosen = [replace(s, train=c) for s, c in zip(specs(), configs, strict=True)]
    results = run_together(chosen)
    assert len(results[1].history) == 3
    assert len(results[2].history) < 60
    for together, spec in zip(results, chosen, strict=True):
        assert_same(together, run(spec))


def test_diverging_member_does_not_affect_other_members():
    chosen = specs(epochs=6)
    chosen[1] = replace(chosen[1], train=TrainConfig(epochs=6, lr=1e20))
    results = run_together(chosen)
    assert [result.status for result in results] == ["ok", run(chosen[1]).status, "ok"]
    assert results[1].status in ("failed", "diverged")
    for number in (0, 2):
        assert_same(results[number], run(chosen[number]))


def test_member_history_does_not_depend_on_the_other_members():
    chosen = specs()
    whole = run_together(chosen)
    part = run_together(chosen[1:])
    assert [result.history for result in whole[1:]] == [result.history for result in part]


@pytest.mark.parametrize(
    "model, hyper",
    [
        ("gread-bs", {"adjacency": "soft", "decoder": "mlp", "output_activation": True}),
        ("gread-fb", {"adjacency": "original"}),
        ("grand", {"linear": False}),
        ("gread-x", {"num_steps": 2, "norm": "batch"}),
        ("tuned-gcn", {"num_steps": 2, "norm": "layer"}),
    ],
)
def test_members_with_shared_initial_parameters_match_separate_models(model, hyper):
    """Models with records are separate, since records are measured on trained parameters."""
    rates = [{"hidden_channels": 8, "dropout": rate, **hyper} for rate in (0.0, 0.2, 0.5)] * 2
    shared = [
        replace(spec, model=model, seed=3, split=split, hyper=rates[split], record=())
        for split, spec in enumerate(specs() * 2)
    ]
    assert len({form(spec) for spec in shared}) == 1
    separate = [replace(spec, record=("probabilities",)) for spec in shared]
    for one, other in zip(run_together(shared), run_together(separate), strict=True):
        assert one.history == other.history
        assert one.status == "ok"


def test_member_adam_matches_pytorch_adam():
    config = TrainConfig(lr=0.03, weight_decay=0.1)
    ours, theirs = (torch.nn.Parameter(torch.ones(1, 5, dtype=torch.float64)) for _ in range(2))
    adam = MemberAdam([ours], [config])
    other = torch.optim.Adam([theirs], lr=config.lr, weight_decay=config.weight_decay)
    for step in range(5):
        for parameter in (ours, theirs):
            parameter.grad = torch.linspace(-1, step, 5, dtype=torch.float64).view(1, 5)
        adam.step()
        other.step()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_launch_groups_runs_of_the_same_form(tmp_path):
    chosen = [*specs(), *specs(hidden_channels=4), specs(solver="dopri5")[0]]
    groups = populations(chosen, "cpu", None)
    assert sorted(map(len, groups)) == [1, 3, 3]
    store = ResultStore(tmp_path)
    launch(chosen, store, together=True)
    for spec in chosen:
        assert_same(store.get(spec), run(spec))


def test_models_without_population_form_groups_of_one():
    chosen = [
        complete(RunSpec(dataset="csbm", model="gcn", split=split, options={"num_nodes": 60}))
        for split in range(3)
    ]
    assert list(map(len, populations(chosen, "cpu", None))) == [1, 1, 1]


def test_groups_are_as_large_as_memory_allows(monkeypatch):
    many = [replace(spec, seed=seed) for seed in range(20) for spec in specs()]
    (whole,) = populations(many, "cpu", None)
    assert len(whole) == 60
    monkeypatch.setattr("gread.runs.grouping.CPU_BYTES", 2**20)
    groups = populations(many, "cpu", None)
    assert len(groups) > 1
    size = size_of(gread.load("csbm", num_nodes=60))
    assert all(sum(bytes_of(spec, size) for spec in group) <= 2**20 for group in groups)
    assert sorted(spec.key for group in groups for spec in group) == sorted(s.key for s in many)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("attention", ["scaled-dot", "cosine"])
def test_memory_estimate_bounds_the_memory_of_nonlinear_grand(attention, normalizer):
    """The estimate is between one and three times the memory kept for the backward pass."""
    hyper = {"hidden_channels": 64, "linear": False, "heads": 8, "attention_channels": 32}
    hyper |= {"attention": attention, "normalizer": normalizer, "solver": "rk4", "time": 9.0}
    options = {"num_nodes": 300, "homophily": 0.5, "degree": 25}
    spec = RunSpec(dataset="csbm", model="grand", hyper=hyper, options=options)
    data = gread.load("csbm", **options)
    kept = bytes_held(built(spec, data), data.x, data.edge_index)
    assert kept <= bytes_of(spec, size_of(data)) <= 3 * kept


def test_population_training_rejects_invalid_class_indices():
    data = gread.load("csbm", num_nodes=60)
    models = [gread.GREAD(data.num_features, 4, 1) for _ in range(2)]
    generators = [torch.Generator(), torch.Generator()]
    with pytest.raises(gread.base.errors.InputError, match="y must name classes"):
        fit_together(models, data, [TrainConfig()] * 2, splits=(0, 1), generators=generators)
