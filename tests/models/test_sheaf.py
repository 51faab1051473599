import pytest
import torch
from torch.nn.functional import elu
from torch_geometric.utils import add_self_loops

from gread.base.errors import InputError
from gread.models.catalog import MODELS
from gread.models.sheaf.laplacian import (
    bundle_laplacian,
    diagonal_laplacian,
    ends_of,
    fixed_laplacian,
    general_laplacian,
    inverse_root,
)
from gread.models.sheaf.maps import orthogonal
from gread.training.config import TrainConfig
from gread.training.fit import fit

KINDS = ["diag", "bundle", "general"]


@pytest.fixture
def ends(graph):
    return ends_of(graph.edge_index, None, graph.x)


def drawn(kind, ends, d=3):
    """Laplacian of random maps, and the maps as matrices [E, d, d]."""
    numbers = torch.randn(d, d, ends.weight.numel(), dtype=torch.float64)
    if kind == "diag":
        return diagonal_laplacian(numbers[0], ends), torch.diag_embed(numbers[0].T)
    if kind == "general":
        return general_laplacian(numbers, ends), numbers.movedim(-1, 0)
    maps = orthogonal(numbers.flatten(0, 1)[: d * (d - 1) // 2], d)
    gate = numbers[:1, 0].sigmoid()
    weight = gate * ends.across(gate)
    return bundle_laplacian(maps, weight, ends), (weight * maps).movedim(-1, 0)


def dense(laplacian, d=3):
    """Dense matrix of the Laplacian, [12d, 12d]."""
    identity = torch.eye(12 * d, dtype=torch.float64).view(12, d, 12 * d)
    return (laplacian @ identity).reshape(12 * d, 12 * d)


def by_edges(maps, ends):
    """Δ from its definition, block by block from the maps [E, d, d]."""
    d = maps.size(-1)
    u, v = ends.pattern.rows.numbers().tolist(), ends.pattern.rows.column.tolist()
    at = {place: number for number, place in enumerate(zip(u, v, strict=True))}
    blocks = maps.new_zeros(12, 12, d, d)
    for (i, j), number in at.items():
        own, other = maps[number], maps[at[j, i]]
        blocks[i, i] += own.T @ own
        blocks[i, j] -= own.T @ other
    values, vectors = torch.linalg.eigh(torch.eye(d) + blocks.diagonal().permute(2, 0, 1))
    root = torch.block_diag(*(vectors * values.unsqueeze(-2) ** -0.5 @ vectors.mT))
    return root @ blocks.permute(0, 2, 1, 3).reshape(12 * d, 12 * d) @ root


@pytest.mark.parametrize("kind", KINDS)
def test_laplacian_equals_its_edgewise_definition(ends, kind):
    laplacian, maps = drawn(kind, ends)
    torch.testing.assert_close(dense(laplacian), by_edges(maps, ends))


@pytest.mark.parametrize("kind", KINDS)
def test_the_laplacian_is_symmetric_with_eigenvalues_from_zero_to_two(ends, kind):
    matrix = dense(drawn(kind, ends)[0])
    torch.testing.assert_close(matrix, matrix.T)
    spectrum = torch.linalg.eigvalsh(matrix)
    assert spectrum.min() > -1e-12
    assert spectrum.max() < 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_energy_is_a_sum_over_edges(ends, kind):
    laplacian, maps = drawn(kind, ends)
    x = torch.randn(12, 3, 2, dtype=torch.float64)
    root = laplacian.root
    y = root @ x if root.dim() == 3 else root.unsqueeze(-1) * x
    u = ends.pattern.rows.numbers()
    image = maps @ y[u]
    differences = (image - image[ends.pattern.order]).square().sum()
    torch.testing.assert_close((x * (laplacian @ x)).sum(), differences / 2)  # two ends per edge


def test_identity_maps_give_the_graph_laplacian(graph, ends):
    u, v = graph.edge_index
    a = torch.zeros(12, 12, dtype=torch.float64).index_put((u, v), torch.ones(1).double())
    degree = a.sum(1)
    root = (1 + degree).rsqrt().diag()
    expected = torch.kron(root @ (degree.diag() - a) @ root, torch.eye(3))
    ones = ends.weight.new_ones(1, ends.weight.numel())
    maps = torch.eye(3, dtype=torch.float64).unsqueeze(-1) * ones
    torch.testing.assert_close(dense(diagonal_laplacian(ones.expand(3, -1), ends)), expected)
    torch.testing.assert_close(dense(bundle_laplacian(maps, ones, ends)), expected)
    torch.testing.assert_close(dense(general_laplacian(maps, ends)), expected)
    smooth, sharpen = (fixed_laplacian(ones.new_tensor([sign]), ends) for sign in (1.0, -1.0))
    torch.testing.assert_close(dense(smooth, 1), root @ (degree.diag() - a) @ root)
    torch.testing.assert_close(dense(sharpen, 1), root @ (degree.diag() + a) @ root)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_bundle_maps_are_orthogonal_and_householder_products(d):
    numbers = torch.randn(7, d * (d - 1) // 2, dtype=torch.float64)
    found = orthogonal(numbers.T, d).movedim(-1, 0)
    torch.testing.assert_close(found.mT @ found, torch.eye(d).double().expand(7, d, d))
    row, column = torch.triu_indices(d, d, offset=1)
    vectors = torch.eye(d).double().repeat(7, 1, 1)
    vectors[:, column, row] = numbers
    tau = 2 / vectors.square().sum(-2)
    torch.testing.assert_close(found, torch.linalg.householder_product(vectors, tau))


@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 1e4])
def test_the_inverse_root_is_accurate_and_its_gradient_finite(scale):
    part = torch.randn(20, 3, 3, dtype=torch.float64)
    matrices = torch.eye(3).double() + scale * part.mT @ part
    matrices.requires_grad_()
    found = inverse_root(matrices)
    torch.testing.assert_close(found @ matrices @ found, torch.eye(3).double().expand(20, 3, 3))
    (found * part).sum().backward()
    assert matrices.grad.isfinite().all()


def test_inverse_root_gradient_is_correct_for_equal_eigenvalues():
    equal = torch.diag_embed(torch.tensor([[2.0, 2, 2], [5, 2, 2], [4, 4, 3], [7, 3, 2]]).double())

    def symmetric(part):
        return inverse_root(equal + part + part.mT)

    part = 0.1 * torch.rand(3, 3, dtype=torch.float64)
    for start in (torch.zeros(3, 3, dtype=torch.float64) + 0.05 * torch.eye(3), part):
        assert torch.autograd.gradcheck(symmetric, (start.requires_grad_(),))


def test_in_one_dimension_diagonal_and_general_maps_are_the_same(graph):
    options = {"stalk_dim": 1, "sharpen": True, "smooth": True}
    diag, general = (
        MODELS[f"sheaf-{kind}"].build(3, 8, 2, **options).double().eval()
        for kind in ("diag", "general")
    )
    general.load_state_dict(diag.state_dict())
    torch.testing.assert_close(diag(graph.x, graph.edge_index), general(graph.x, graph.edge_index))
    with pytest.raises(InputError, match="stalk_dim must be a whole number of at least 2, got 1"):
        MODELS["sheaf-bundle"].build(3, 8, 2, stalk_dim=1)


@pytest.mark.parametrize("shared", [False, True])
def test_the_model_with_general_maps_equals_its_dense_formula(graph, ends, shared):
    model = MODELS["sheaf-general"].build(
        3, 4, 2, stalk_dim=2, sharpen=True, smooth=True, second_linear=True, shared_learner=shared
    )
    model.double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    u, v = ends.pattern.rows.numbers(), ends.pattern.rows.column.long()
    first, _, _, second, _ = model.encoder
    x = second(elu(graph.x @ first.weight + first.bias)).view(12, 4, 4)
    plus, minus = (fixed_laplacian(torch.tensor([s]).double(), ends) for s in (-1.0, 1.0))
    for layer in model.layers:
        seen = x.sum(1) if shared else x.flatten(1)
        numbers = torch.cat([seen[u], seen[v]], 1) @ layer.maps.learner.linear.weight.T
        sheaf = by_edges(numbers.tanh().view(-1, 2, 2), ends)
        y = torch.einsum("ab,nbf,fg->nag", layer.left, x, layer.right)
        moved = torch.cat(
            [
                (sheaf @ y[:, :2].reshape(24, 4)).view(12, 2, 4),
                (dense(plus, 1) @ y[:, 2]).unsqueeze(1),
                (dense(minus, 1) @ y[:, 3]).unsqueeze(1),
            ],
            1,
        )
        x = (1 + layer.epsilon.tanh()) * x - elu(moved)
    torch.testing.assert_close(model(graph.x, graph.edge_index), model.decoder(x.flatten(1)))


@pytest.mark.parametrize("kind", KINDS)
def test_loops_and_directions_do_not_matter_but_weights_do(graph, kind):
    model = MODELS[f"sheaf-{kind}"].build(3, 8, 2, sharpen=True).double().eval()
    edges = graph.edge_index
    expected = model(graph.x, edges)
    looped, _ = add_self_loops(edges, num_nodes=12)
    torch.testing.assert_close(model(graph.x, looped), expected)
    torch.testing.assert_close(model(graph.x, edges[:, edges[0] < edges[1]]), expected)
    assert not torch.allclose(
        model(graph.x, edges, graph.x.new_full((edges.size(1),), 4.0)), expected
    )


def test_edge_weights_scale_the_maps_by_their_square_root(graph):
    edges = graph.edge_index
    weight = graph.x.new_full((edges.size(1),), 4.0)
    heavy, plain = ends_of(edges, weight, graph.x), ends_of(edges, None, graph.x)
    maps = torch.randn(3, 3, edges.size(1), dtype=torch.float64)
    torch.testing.assert_close(
        dense(general_laplacian(maps, heavy)), dense(general_laplacian(2 * maps, plain))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_map_learners_have_a_separate_weight_decay(graph, kind):
    model = MODELS[f"sheaf-{kind}"].build(3, 8, 2, num_layers=3, sheaf_decay=0.25)
    others, learners = model.parameter_groups(0.5)
    assert (others["weight_decay"], learners["weight_decay"]) == (0.5, 0.25)
    assert len(learners["params"]) == 3
    assert len(learners["params"]) + len(others["params"]) == len(list(model.parameters()))
    same = MODELS[f"sheaf-{kind}"].build(3, 8, 2)
    assert [group["weight_decay"] for group in same.parameter_groups(0.5)] == [0.5, 0.5]
    with pytest.raises(InputError, match="sheaf_decay must be a number, zero or above, got -1"):
        MODELS[f"sheaf-{kind}"].build(3, 8, 2, sheaf_decay=-1)
    fit(same.double(), graph, TrainConfig(epochs=1))
