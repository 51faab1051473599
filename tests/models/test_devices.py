"""Every model gives the same numbers on GPU and CPU, also with recorded epochs."""

import pytest
import torch

import gread
from gread.dynamics.integrate import integrate
from gread.models.catalog import MODELS
from gread.models.layers import Dropout

if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.fixture(params=MODELS)
def build(request):
    """Build the model from a fixed seed, with random parameters and without dropout."""

    def make():
        torch.manual_seed(2)
        rates = {"input_dropout": 0.0, "dropout": 0.0}
        model = MODELS[request.param].make(3, 8, 2, num_nodes=12, **rates)
        for module in model.modules():
            if isinstance(module, Dropout):
                module.rate = 0.0
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        return model.double()

    return make


def test_gpu_logits_and_gradients_equal_cpu_results(build, graph):
    found = []
    for device in ("cpu", "cuda"):
        model, data = build().to(device), graph.to(device)
        logits = model(data.x, data.edge_index)
        logits.square().sum().backward()
        found.append([logits, *(parameter.grad for parameter in model.parameters())])
    for here, there in zip(*found, strict=True):
        # Positions of BLEND have single precision and differ.
        torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("solver", gread.SOLVERS)
def test_gpu_solver_reaches_the_same_final_state_as_cpu(solver):
    h0 = torch.linspace(-1, 1, 12, dtype=torch.float64)
    here, there = (
        integrate(lambda t, h: torch.sin(h) - t * h, h0.to(device), 1.0, solver=solver).final
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(there.cpu(), here)


def test_gpu_training_gives_the_losses_and_metrics_of_the_cpu(build, graph):
    config = gread.TrainConfig(epochs=8, lr=1e-3)
    found = [
        gread.fit(build().to(device), graph.to(device), config).history
        for device in ("cpu", "cuda")
    ]
    for there, here in zip(found[1], found[0], strict=True):
        assert list(vars(there).values()) == pytest.approx(list(vars(here).values()), rel=1e-6)
