"""Training without autograd gives the same numbers as training with it."""

from importlib import import_module

import pytest
import torch

import gread
from gread import REACTIONS
from gread.kernels.backend import available
from gread.training.direct import direct_model

fitting = import_module("gread.training.fit")
pytestmark = pytest.mark.skipif(isinstance(available("cpu"), Exception), reason="needs a compiler")
KNOWN = [name for name, reaction in REACTIONS.items() if hasattr(reaction, "terms")]


@pytest.fixture(scope="module")
def graph():
    """A graph with sparse features."""
    data = gread.load("csbm", num_nodes=60, num_features=30)
    torch.manual_seed(0)
    data.x = 0.1 * (data.x * (torch.rand(60, 30) < 0.1)).double()
    return data


def built(graph, **settings):
    torch.manual_seed(1)
    settings = {"adjacency": "original", "dropout": 0.3} | settings
    return gread.GREAD(graph.num_features, 5, 2, **settings).double()


def direct(graph, model):
    return direct_model(model, graph, torch.stack(fitting.masks_of(graph, 0)))


def trained(graph, epochs=6, **settings):
    model = built(graph, **settings)
    found = gread.fit(model, graph, gread.TrainConfig(epochs=epochs, lr=0.05))
    return found, list(model.parameters())


@pytest.mark.parametrize("reaction", [None, *KNOWN])
@pytest.mark.parametrize(
    ("alpha", "beta"),
    [("scalar", "scalar"), ("vector", "vector"), ("scalar", "vector"), ("one", "positive-vector")],
)
@pytest.mark.parametrize(("solver", "time"), [("euler", 1.0), ("rk4", 3.0)])
def test_direct_training_matches_training_with_autograd(
    graph, reaction, alpha, beta, solver, time, monkeypatch
):
    settings = {"reaction": reaction, "alpha": alpha, "beta": beta, "solver": solver, "time": time}
    settings["step_size"] = 0.5
    assert direct(graph, built(graph, **settings)) is not None
    ours, parameters = trained(graph, **settings)
    monkeypatch.setattr(fitting, "direct_model", lambda *arguments: None)
    expected, others = trained(graph, **settings)
    for one, other in zip(ours.history, expected.history, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-9)
        assert one.val_loss == pytest.approx(other.val_loss, abs=1e-9)
        assert (one.train, one.val, one.test) == (other.train, other.val, other.test)
    for one, other in zip(parameters, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-8)


@pytest.mark.parametrize("metric", ["accuracy", "macro-f1", "nll"])
def test_direct_training_selects_the_same_epoch_by_several_metrics(graph, metric, monkeypatch):
    config = gread.TrainConfig(epochs=8, lr=0.2, metric=metric)
    found = []
    for maker in (direct_model, lambda *arguments: None):
        monkeypatch.setattr(fitting, "direct_model", maker)
        model = built(graph, reaction="bs")
        best = gread.fit(model, graph, config).best
        found.append((best.number, best.val, model(graph.x, graph.edge_index)))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-9)
    torch.testing.assert_close(found[0][2], found[1][2], rtol=0, atol=1e-8)


@pytest.mark.parametrize("rates", [{"input_dropout": 0.0}, {"dropout": 0.0}])
def test_no_seed_is_drawn_without_dropout(graph, rates, monkeypatch):
    ours, _ = trained(graph, **rates)
    monkeypatch.setattr(fitting, "direct_model", lambda *arguments: None)
    expected, _ = trained(graph, **rates)
    assert ours.best.loss == pytest.approx(expected.best.loss, abs=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"adjacency": "soft"},
        {"encoder": "mlp"},
        {"decoder": "mlp"},
        {"output_activation": True},
        {"local": "scalar"},
        {"alpha": "matrix"},
        {"solver": "dopri5"},
        {"reaction": "st", "detach_source": True},
        {"reaction": lambda state: state.h},
    ],
)
def test_unsupported_model_settings_use_autograd(graph, settings):
    assert direct(graph, built(graph, **settings)) is None


def test_frozen_parameters_hooks_and_dense_features_use_autograd(graph):
    model = built(graph)
    model.encoder.weight.requires_grad_(False)
    assert direct(graph, model) is None
    model = built(graph)
    model.layer.register_forward_hook(lambda *arguments: None)
    assert direct(graph, model) is None
    dense = gread.load("csbm", num_nodes=60, num_features=30)
    model = gread.GREAD(30, 5, 2, adjacency="original")
    assert direct(dense, model) is None
    with gread.plain_only():
        assert direct(graph, built(graph)) is None


def test_overflow_raises_the_same_error_as_with_autograd(graph, monkeypatch):
    settings = {"reaction": "f", "beta": "vector", "time": 60.0, "step_size": 1.0}
    errors = []
    for found in (direct_model, lambda *arguments: None):
        monkeypatch.setattr(fitting, "direct_model", found)
        model = built(graph, solver="euler", **settings)
        torch.nn.init.constant_(model.layer.beta.value, -3.0)
        torch.nn.init.constant_(model.encoder.weight, 5.0)
        with pytest.raises(ArithmeticError) as error:
            gread.fit(model, graph, gread.TrainConfig(epochs=2))
        errors.append(str(error.value))
    assert errors[0] == errors[1]
