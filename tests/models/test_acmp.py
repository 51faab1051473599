import pytest
import torch
from torch import nn

from gread.base.errors import InputError
from gread.models.catalog import MODELS
from tests.checks import dense


def build(name="acmp", **options):
    model = MODELS[name].build(3, 4, 2, **{"input_dropout": 0.0} | options).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def test_acmp_without_repulsion_and_double_well_equals_grand(graph):
    grand = build("grand", time=2.0)
    model = build(repulsion=0.0, time=2.0)
    for part in ("encoder", "decoder"):
        getattr(model, part).load_state_dict(getattr(grand, part).state_dict())
    model.attention.load_state_dict(grand.diffusion.attention.state_dict())
    model.strength.load_state_dict(grand.beta.state_dict())
    nn.init.constant_(model.alpha.logit, grand.diffusion.alpha.logit.item())
    nn.init.constant_(model.delta.logit, -torch.inf)
    torch.testing.assert_close(model(graph.x, graph.edge_index), grand(graph.x, graph.edge_index))


@pytest.mark.parametrize("relative", [True, False])
def test_one_euler_step_equals_dense_formula(graph, relative):
    model = build(repulsion=0.3, relative=relative, solver="euler", time=0.1)
    weight = torch.rand(graph.num_edges, dtype=torch.float64)
    h0 = model.encoder(graph.x)
    a = dense(model.attention(h0, graph.edge_index, weight))
    edges = torch.eye(12, dtype=torch.float64)
    edges[graph.edge_index[1], graph.edge_index[0]] = weight
    pairs = h0.unsqueeze(0) - h0.unsqueeze(1)  # [i, j] is H_j − H_i
    if relative:
        coupled = ((a - 0.3 * edges).unsqueeze(-1) * pairs).sum(1)
    else:
        coupled = (a.unsqueeze(-1) * pairs).sum(1) - 0.3 * edges @ h0
    slope = model.alpha() * coupled + model.delta() * (h0 - h0**3) + model.strength() * h0
    found = model.evolve(graph.x, graph.edge_index, weight).final
    torch.testing.assert_close(found, h0 + 0.1 * slope)


def test_double_well_term_drives_entries_to_plus_or_minus_one(graph):
    model = build(source=False, time=40.0, step_size=0.2)
    nn.init.constant_(model.alpha.logit, -torch.inf)
    nn.init.zeros_(model.delta.logit)
    solution = model.evolve(0.2 * graph.x, graph.edge_index, save_at=[0.0])
    torch.testing.assert_close(solution.final, solution.saved[0].sign(), atol=1e-4, rtol=0)


def test_negative_repulsion_is_rejected():
    with pytest.raises(InputError, match="repulsion must be a number, zero or above, got -1"):
        build(repulsion=-1)
