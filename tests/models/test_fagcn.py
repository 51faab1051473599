import torch
from torch import nn
from torch_geometric.nn import FAConv

from gread.graph.adjacency import OriginalAdjacency
from gread.models.catalog import MODELS
from tests.checks import dense


def build(**options):
    return MODELS["fagcn"].build(3, 4, 2, **options).double().eval()


def operator(graph):
    return dense(OriginalAdjacency(self_loops=0.0)(graph.x, graph.edge_index))


def test_fagcn_equals_dense_formula(graph):
    model = build(eps=0.3)
    s = operator(graph)
    h = h0 = torch.relu(model.encoder(graph.x))
    for gate in model.gates:
        left = h.unsqueeze(1).expand(12, 12, 4)
        pairs = torch.cat([left, left.transpose(0, 1)], dim=-1)  # [h_i ‖ h_j]
        h = 0.3 * h0 + (gate.gate(pairs).squeeze(-1).tanh() * s) @ h
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(h))


def test_fagcn_layers_equal_pyg_faconv(graph):
    model = build(eps=0.3, num_layers=3)
    h = h0 = torch.relu(model.encoder(graph.x))
    for signed in model.gates:
        nn.init.zeros_(signed.gate.bias)  # PyG has none
        pyg = FAConv(4, eps=0.3, add_self_loops=False).double()
        own, other = signed.gate.weight.data.chunk(2, dim=1)
        pyg.att_r.weight.data, pyg.att_l.weight.data = own, other
        h = pyg(h, h0, graph.edge_index)
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(h))


def test_constant_gates_give_signed_diffusion_or_the_first_state(graph):
    model = build(eps=0.2, num_layers=3)
    s, h0 = operator(graph), torch.relu(model.encoder(graph.x))
    for gates, sign in ((50.0, 1), (-50.0, -1), (0.0, 0)):
        h = h0
        for signed in model.gates:
            nn.init.zeros_(signed.gate.weight)
            nn.init.constant_(signed.gate.bias, gates)
            h = 0.2 * h0 + sign * s @ h
        torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(h))


def test_self_loops_do_not_change_the_output(graph):
    model = build()
    looped = torch.cat([graph.edge_index, torch.arange(12).expand(2, 12)], dim=1)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))
