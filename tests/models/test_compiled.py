"""A model compiled by `torch.compile` gives the numbers of eager mode."""

import shutil

import pytest
import torch

import gread
from gread.models.gread_x import GREADX
from tests.checks import traceable

SHORT = {"solver": "euler", "time": 1.0, "input_dropout": 0.0}
MODELS = {
    "bs": lambda: gread.GREAD(3, 4, 2, reaction="bs", **SHORT),
    "ac": lambda: gread.GREAD(3, 4, 2, reaction="ac", adjacency="original", **SHORT),
    "x": lambda: GREADX(3, 4, 2, num_steps=2, dropout=0.0),
    "x with both directions": lambda: GREADX(
        *(3, 4, 2), num_steps=2, dropout=0.0, direction="both", embedding=True, num_nodes=12
    ),
}


@pytest.mark.slow
@traceable
@pytest.mark.skipif(not shutil.which("c++"), reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "backend"), [("bs", "inductor"), *((name, "aot_eager") for name in MODELS)]
)
def test_compiled_model_has_the_same_outputs_and_gradients(graph, name, backend):
    """Trace every model, forward and backward; compile C++ for one, which takes half a minute."""
    # Each process of a pool of compilers would import torch. The header for vector instructions
    # takes most of the compiler's time.
    options = {"compile_threads": 1, "cpp.vec_isa_ok": False} if backend == "inductor" else None
    model = MODELS[name]().double()
    source, target = graph.edge_index
    edge_index = graph.edge_index[:, source < target]  # as direction="both" requires
    x = (0.1 * graph.x).requires_grad_()  # Allen-Cahn amplifies rounding errors of large states
    found = []
    for each in (model, torch.compile(model, backend=backend, options=options)):
        logits = each(x, edge_index)
        found.append((logits.detach(), *torch.autograd.grad(logits.square().sum(), x)))
    torch.testing.assert_close(found[1], found[0])
