import math
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import gread
from gread.base.errors import InputError
from gread.graph.adjacency import NORMALIZATIONS, ExplainedEdges, OriginalAdjacency, SoftAdjacency
from gread.graph.operator import Adjacency, in_one_pattern
from tests.checks import dense, traceable

DIRECTED = torch.tensor([[0, 0, 1, 2, 2, 3], [1, 2, 2, 0, 2, 0]])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0, 4.0, 1.5], dtype=torch.float64)


def raw(edge_index, weight, n):
    matrix = torch.zeros(n, n, dtype=torch.float64)
    matrix[edge_index[1], edge_index[0]] = weight
    return matrix


def test_product_gathers_from_sources_into_targets():
    adj = Adjacency.from_edges(DIRECTED, WEIGHT, num_nodes=5)
    h = torch.randn(5, 3, dtype=torch.float64)
    matrix = raw(DIRECTED, WEIGHT, 5)
    torch.testing.assert_close(adj @ h, matrix @ h)
    torch.testing.assert_close(adj.laplacian(h), h - matrix @ h)


def test_product_has_the_right_gradients():
    h = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    weight = WEIGHT.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w, h: Adjacency.from_edges(DIRECTED, w, 4) @ h, (weight, h)
    )


def test_adjacency_attributes_cannot_be_reassigned():
    with pytest.raises(FrozenInstanceError):
        Adjacency.from_edges(DIRECTED, WEIGHT, num_nodes=5).weight = WEIGHT


def test_normalization_names_are_symmetric_row_and_column():
    assert set(NORMALIZATIONS) == {"symmetric", "row", "column"}


@pytest.mark.parametrize("self_loops", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_normalization_equals_dense_formula(name, self_loops):
    h0 = torch.zeros(5, 1, dtype=torch.float64)
    adj = OriginalAdjacency(normalization=name, self_loops=self_loops)(h0, DIRECTED, WEIGHT)
    a = raw(DIRECTED, WEIGHT, 5)
    loops = torch.diag(a)
    a += torch.diag(torch.where(loops == 0, self_loops, 0.0).double())  # existing loops are kept
    rows, columns = a.sum(1, keepdim=True), a.sum(0, keepdim=True)
    expected = {"symmetric": a / (rows * columns).sqrt(), "row": a / rows, "column": a / columns}[
        name
    ].nan_to_num(0.0)  # degree zero: weight zero
    torch.testing.assert_close(dense(adj), expected)


def test_symmetric_normalization_equals_gcn_norm_on_undirected_graphs(graph):
    adj = OriginalAdjacency()(graph.x, graph.edge_index)
    edge_index, weight = gcn_norm(graph.edge_index, num_nodes=12, dtype=torch.float64)
    torch.testing.assert_close(dense(adj), dense(Adjacency.from_edges(edge_index, weight, 12)))
    torch.testing.assert_close(dense(adj), dense(adj).T)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_spectral_radius_is_at_most_one(graph, name):
    adj = OriginalAdjacency(normalization=name, self_loops=0.0)(graph.x, graph.edge_index)
    assert torch.linalg.eigvals(dense(adj)).abs().max() < 1 + 1e-9


def test_isolated_node_without_loop_is_a_zero_row(graph):
    for adjacency in (OriginalAdjacency(self_loops=0.0), SoftAdjacency(3, self_loops=0.0).double()):
        matrix = dense(adjacency(graph.x, graph.edge_index))
        assert not matrix[11].any()
        assert matrix.isfinite().all()


def test_soft_adjacency_starts_as_the_row_average(graph):
    soft = SoftAdjacency(3).double()(graph.x, graph.edge_index)
    mean = OriginalAdjacency(normalization="row")(graph.x, graph.edge_index)
    torch.testing.assert_close(dense(soft), dense(mean), atol=1e-4, rtol=0)


def test_reset_parameters_reinitializes_the_attention_bias():
    soft = SoftAdjacency(4)
    torch.nn.init.constant_(soft.key.bias, 7.0)
    soft.reset_parameters()
    assert soft.key.bias.abs().max() <= 0.5  # as in nn.Linear, 1/√4
    assert soft.key.bias.std() > 0.1


@pytest.mark.parametrize("heads", [1, 4])
def test_soft_adjacency_equals_dense_attention(graph, heads):
    soft = SoftAdjacency(3, heads=heads, attention_channels=8, self_loops=1.0).double()
    for parameter in soft.parameters():
        torch.nn.init.normal_(parameter)
    d_k = 8 // heads
    q, k = soft.query(graph.x), soft.key(graph.x)
    edges = dense(OriginalAdjacency()(graph.x, graph.edge_index)) > 0
    expected = torch.zeros(12, 12, dtype=torch.float64)
    for head in range(heads):
        part = slice(head * d_k, (head + 1) * d_k)
        scores = q[:, part] @ k[:, part].T / d_k**0.5
        expected += scores.masked_fill(~edges, -torch.inf).softmax(dim=1) / heads
    torch.testing.assert_close(dense(soft(graph.x, graph.edge_index)), expected)


def test_soft_adjacency_weighs_by_edge_weight(graph):
    soft = SoftAdjacency(3, self_loops=0.0).double()
    torch.nn.init.normal_(soft.query.weight)
    weight = torch.rand(graph.num_edges, dtype=torch.float64) + 0.1
    plain = soft(graph.x, graph.edge_index)
    torch.testing.assert_close(
        soft(graph.x, graph.edge_index, 7 * torch.ones_like(weight)).weight, plain.weight
    )
    rows = dense(soft(graph.x, graph.edge_index, weight)).sum(1)
    torch.testing.assert_close(rows[:11], torch.ones(11, dtype=torch.float64))
    one_head = SoftAdjacency(3, heads=1, self_loops=0.0).double()
    one_head.load_state_dict(soft.state_dict())
    logits = (
        dense(one_head(graph.x, graph.edge_index)).log() + raw(graph.edge_index, weight, 12).log()
    )
    expected = logits.softmax(dim=1).nan_to_num(0.0)  # a node without neighbours
    torch.testing.assert_close(dense(one_head(graph.x, graph.edge_index, weight)), expected)


def test_edges_of_weight_zero_are_ignored(graph):
    keep = torch.rand(graph.num_edges) > 0.4
    for adjacency in (OriginalAdjacency(), SoftAdjacency(3).double()):
        cut = adjacency(graph.x, graph.edge_index[:, keep])
        zeroed = adjacency(graph.x, graph.edge_index, keep.double())
        torch.testing.assert_close(dense(zeroed), dense(cut))


def test_invalid_adjacency_arguments_raise_input_errors(graph):
    with pytest.raises(InputError, match="self_loops must be a number, zero or above, got -1"):
        OriginalAdjacency(self_loops=-1)
    with pytest.raises(InputError, match=r"attention_channels must be a multiple of heads \(3\)"):
        SoftAdjacency(4, heads=3, attention_channels=64)
    with pytest.raises(
        InputError, match="unknown normalization 'symetric', did you mean 'symmetric'"
    ):
        OriginalAdjacency(normalization="symetric")
    with pytest.raises(InputError, match="edge_weight must be finite and not negative"):
        OriginalAdjacency()(graph.x, graph.edge_index, -torch.ones(graph.num_edges).double())


@pytest.mark.parametrize("self_loops", [0.0, 1.0])
def test_lower_bound_is_close_to_the_smallest_eigenvalue(self_loops):
    data = gread.load("csbm", num_nodes=60)
    h = torch.zeros(60, 1, dtype=torch.float64)
    adj = OriginalAdjacency(self_loops=self_loops)(h, data.edge_index)
    lowest = torch.linalg.eigvalsh(adj @ torch.eye(60, dtype=torch.float64))[0].item()
    assert max(-1.0, lowest - 0.05) <= adj.lowest <= lowest


def cycle(n, nodes=None):
    """H(0) and the edges of a cycle of ``n`` nodes in both directions; other nodes are isolated."""
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    h0 = torch.zeros(nodes or n, 1, dtype=torch.float64)
    return h0, torch.cat([ring, ring.flip(0)], dim=1)


def test_lower_bound_is_minus_one_if_the_spectrum_is_not_computed(monkeypatch):
    def bound(n):
        return OriginalAdjacency()(*cycle(n)).lowest

    assert bound(6) == bound(7) == -1.0
    # A ring with loops has eigenvalues (1 + 2 cos 2πk/n) / 3, the smallest for even n is −1/3.
    assert bound(8) == pytest.approx(-1 / 3 - 0.02, abs=3e-3)
    monkeypatch.setattr("gread.graph.operator.LARGEST", 3 * 8)
    assert bound(8) > -1.0
    monkeypatch.setattr("gread.graph.operator.LARGEST", 3 * 8 - 1)
    assert bound(8) == -1.0


def test_lower_bound_holds_for_clustered_smallest_eigenvalues():
    adjacency = OriginalAdjacency()
    first, second = (adjacency(*cycle(2000)).lowest for _ in range(2))
    assert -1 / 3 - 0.03 <= first <= -1 / 3
    assert first == second  # independent of the global generator


def test_lower_bound_allows_isolated_nodes_and_is_at_least_minus_one():
    bipartite = OriginalAdjacency(self_loops=0.0)(*cycle(10, nodes=13))
    assert bipartite.lowest == -1.0
    odd = OriginalAdjacency(self_loops=0.0)(*cycle(9, nodes=13))
    assert odd.lowest == pytest.approx(-math.cos(math.pi / 9) - 0.02, abs=3e-3)


def test_lower_bound_is_minus_one_for_nan_weights():
    _, edge_index = cycle(10)
    weight = torch.full((20,), torch.nan, dtype=torch.float64)
    assert Adjacency.from_edges(edge_index, weight, 10).lowest == -1.0


@pytest.mark.parametrize("self_loops", [0.0, 0.5])
def test_own_loops_false_replaces_loops_of_the_graph(self_loops):
    h0 = torch.zeros(4, 1, dtype=torch.float64)
    adjacency = OriginalAdjacency(normalization="row", self_loops=self_loops, own_loops=False)
    a = raw(DIRECTED, WEIGHT, 4).fill_diagonal_(self_loops)
    expected = (a / a.sum(1, keepdim=True)).nan_to_num(0.0)
    torch.testing.assert_close(dense(adjacency(h0, DIRECTED, WEIGHT)), expected)


def test_symmetry_is_detected_for_undirected_graphs_without_weights(graph):
    def symmetric(edge_index, weight=None, **options):
        return OriginalAdjacency(**options)(graph.x, edge_index, weight).symmetric

    assert symmetric(graph.edge_index)
    assert not symmetric(graph.edge_index, normalization="row")
    assert not symmetric(torch.tensor([[0, 1], [1, 2]]))
    ones = torch.ones(graph.num_edges, dtype=torch.float64)
    # Weights may differ in every call, so symmetry is not determined.
    assert not symmetric(graph.edge_index, ones)


@pytest.mark.slow
@traceable
def test_adjacency_compiles_without_graph_breaks(graph):
    adjacency = OriginalAdjacency()
    product = torch.compile(
        lambda x, edge_index: adjacency(x, edge_index) @ x, backend="eager", fullgraph=True
    )
    expected = dense(adjacency(graph.x, graph.edge_index.clone())) @ graph.x
    torch.testing.assert_close(product(graph.x, graph.edge_index), expected)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_transposed_weights_equal_the_dense_transpose(graph, name):
    adj = OriginalAdjacency(normalization=name)(graph.x, graph.edge_index)
    columns = adj.pattern.columns
    rows = columns.numbers()
    matrix = torch.zeros(12, 12, dtype=torch.float64)
    matrix[rows, columns.column.long()] = adj.transposed_weight
    torch.testing.assert_close(matrix, dense(adj).T)
    assert adj.transposed_weight is adj.transposed_weight


def test_matrices_keep_their_entries_in_a_shared_pattern():
    other = torch.tensor([[3, 0, 2], [3, 1, 1]])
    made = [
        Adjacency.from_edges(DIRECTED, WEIGHT, 4),
        Adjacency.from_edges(other, torch.tensor([5.0, 6.0, 7.0], dtype=torch.float64), 4),
    ]
    pattern, weight = in_one_pattern([(one.pattern, one.weight) for one in made])
    assert weight.shape == (2, 8)  # 6 and 3 entries, one in common
    for one, entries in zip(made, weight, strict=True):
        torch.testing.assert_close(dense(Adjacency(pattern, entries)), dense(one))


def test_adjacency_created_by_name_receives_all_arguments(graph):
    said = {"normalization": "row", "self_loops": 0.5, "heads": 2, "attention_channels": 6}
    original = gread.ReactionDiffusionConv(3, adjacency="original", **said).adjacency
    assert original.normalize is NORMALIZATIONS["row"]
    assert original.self_loops == 0.5
    soft = gread.ReactionDiffusionConv(3, adjacency="soft", **said).adjacency
    assert (soft.heads, soft.query.out_features, soft.self_loops) == (2, 6, 0.5)
    with pytest.raises(InputError, match="unknown adjacency 'softest'"):
        gread.ReactionDiffusionConv(3, adjacency="softest", **said)


@pytest.mark.parametrize("self_loops", [0.5, 2.0])
def test_soft_adjacency_weights_loops_by_self_loops(graph, self_loops):
    soft = SoftAdjacency(3, self_loops=self_loops).double()
    for linear in (soft.query, soft.key):
        torch.nn.init.zeros_(linear.weight)
    a = raw(graph.edge_index, torch.ones(graph.num_edges, dtype=torch.float64), 12)
    a += self_loops * torch.eye(12)
    torch.testing.assert_close(dense(soft(graph.x, graph.edge_index)), a / a.sum(1, keepdim=True))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"heads": 0}, "heads must be a whole number of at least 1, got 0"),
        ({"attention_channels": 0}, "attention_channels must be a whole number of at least 1"),
        ({"self_loops": -1.0}, "self_loops must be a number, zero or above, got -1"),
    ],
)
def test_invalid_attention_settings_raise_input_errors(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        SoftAdjacency(4, **arguments)


def test_mask_of_other_edges_raises_value_error():
    adjacency = OriginalAdjacency(self_loops=0.0)
    set_masks(adjacency, torch.ones(9), torch.zeros(2, 9, dtype=torch.int64))
    with pytest.raises(ValueError, match=f"must have {DIRECTED.size(1)} entries, got 9"):
        adjacency(torch.randn(4, 3), DIRECTED)


def test_propagating_messages_over_explained_edges_raises_an_error():
    with pytest.raises(TypeError, match="pass no messages"):
        ExplainedEdges().propagate(torch.empty(2, 0, dtype=torch.int64), x=torch.ones(1, 1))


@pytest.mark.parametrize("loops", [[], [2], [0, 1, 2, 3]])
@pytest.mark.parametrize("make", [OriginalAdjacency, lambda: SoftAdjacency(3)])
def test_edge_mask_applies_to_its_edge_if_nodes_have_loops(make, loops):
    own = torch.tensor(loops, dtype=torch.int64).expand(2, -1)
    edges = torch.cat([own, DIRECTED], 1)
    adjacency, h0 = make(), torch.randn(4, 3)
    before = dense(adjacency(h0, edges))
    for number, (source, target) in enumerate(edges.T.tolist()):
        mask = torch.ones(edges.size(1))
        mask[number] = 0
        set_masks(adjacency, mask, edges, apply_sigmoid=False)
        expected = before.clone()
        if source != target:  # explainers do not mask self loops
            expected[target, source] = 0
        torch.testing.assert_close(dense(adjacency(h0, edges)), expected)
