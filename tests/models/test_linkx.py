import torch
from torch_geometric.nn import LINKX
from torch_geometric.utils import add_self_loops, to_dense_adj

from gread.models.catalog import MODELS


def test_linkx_equals_dense_formula(graph):
    model = MODELS["linkx"].build(3, 8, 2, num_nodes=12, num_layers=1).double().eval()
    dense = to_dense_adj(graph.edge_index, max_num_nodes=12)[0].double()
    a = dense @ model.edge_map.weight + model.edge_map.bias
    b = graph.x @ model.node_map.weight + model.node_map.bias
    h = torch.cat([a, b], dim=1) @ model.mix.weight.T + model.mix.bias + a + b
    expected = h.relu() @ model.final_mlp[0].weight.T + model.final_mlp[0].bias
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_linkx_equals_pyg_linkx(graph):
    model = MODELS["linkx"].build(
        3, 8, 2, num_nodes=12, num_edge_layers=2, num_node_layers=2, num_layers=3, dropout=0.0
    )
    other = LINKX(12, 3, 8, 2, 3, num_edge_layers=2, num_node_layers=2)
    model, other = model.double(), other.double()
    with torch.no_grad():
        other.edge_lin.weight.copy_(model.edge_map.weight)
        other.edge_lin.bias.copy_(model.edge_map.bias)
        other.edge_mlp.lins[0].load_state_dict(model.edge_mlp[3].state_dict())
        other.node_mlp.lins[0].weight.copy_(model.node_map.weight.T)
        other.node_mlp.lins[0].bias.copy_(model.node_map.bias)
        other.node_mlp.lins[1].load_state_dict(model.node_mlp[3].state_dict())
        left, right = model.mix.weight.chunk(2, dim=1)
        other.cat_lin1.weight.copy_(left)
        other.cat_lin2.weight.copy_(right)
        other.cat_lin1.bias.copy_(model.mix.bias)
        other.cat_lin2.bias.zero_()
        for place, lin in zip((0, 4, 8), other.final_mlp.lins, strict=True):
            lin.load_state_dict(model.final_mlp[place].state_dict())
    # In training mode, with batch normalization.
    torch.testing.assert_close(model(graph.x, graph.edge_index), other(graph.x, graph.edge_index))


def test_self_loops_do_not_change_the_output(graph):
    model = MODELS["linkx"].build(3, 8, 2, num_nodes=12).double().eval()
    looped, _ = add_self_loops(graph.edge_index, num_nodes=12)
    torch.testing.assert_close(model(graph.x, looped), model(graph.x, graph.edge_index))


def test_edge_weights_of_two_equal_duplicated_edges(graph):
    model = MODELS["linkx"].build(3, 8, 2, num_nodes=12).double().eval()
    twice = torch.cat([graph.edge_index, graph.edge_index], dim=1)
    two = torch.full((graph.num_edges,), 2.0, dtype=torch.float64)
    torch.testing.assert_close(model(graph.x, graph.edge_index, two), model(graph.x, twice))
