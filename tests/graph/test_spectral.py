"""Properties of spectral positions."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_dense_adj, to_undirected

import gread
from gread.graph.structure import spectral
from gread.graph.structure.spectral import KEPT, SMALL, spectral_positions


@pytest.fixture(params=[True, False], ids=["directed", "undirected"])
def directed(request):
    return request.param


@pytest.fixture
def edges(directed):
    drawn = torch.randint(60, (2, 240), generator=torch.Generator().manual_seed(0))
    return drawn if directed else to_undirected(drawn, num_nodes=60)


def test_positions_are_equivariant_to_node_permutation(edges, directed):
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    place = order.argsort()
    found = spectral_positions(place[edges], 60, directed=directed)
    torch.testing.assert_close(
        found, spectral_positions(edges, 60, directed=directed)[order], rtol=1e-4, atol=1e-4
    )


def test_positions_are_invariant_to_edge_order_and_duplicates(edges, directed):
    more = torch.cat([edges, edges[:, :50]], dim=1)
    more = more[:, torch.randperm(more.size(1))]
    found = spectral_positions(more, 60, directed=directed)
    torch.testing.assert_close(found, spectral_positions(edges, 60, directed=directed))


def test_coordinates_are_eigenvectors_of_the_normalized_adjacency():
    edges = to_undirected(torch.randint(60, (2, 240), generator=torch.Generator().manual_seed(0)))
    found = spectral_positions(edges, 60)[:, 1:].double() / 60**0.5
    dense = to_dense_adj(edges, max_num_nodes=60)[0].double().clamp(max=1)
    root = dense.sum(1).clamp(min=1).rsqrt()
    matrix = root[:, None] * dense * root
    values = (found * (matrix @ found)).sum(0)
    torch.testing.assert_close(matrix @ found, values * found, atol=1e-6, rtol=0)
    assert torch.equal(values.abs().argsort(descending=True, stable=True), torch.arange(KEPT))
    torch.testing.assert_close(
        values.abs(), torch.linalg.eigvalsh(matrix).abs().sort(descending=True).values[:KEPT]
    )


def test_reversed_edges_exchange_sources_and_targets():
    drawn = torch.randint(60, (2, 240), generator=torch.Generator().manual_seed(0))
    found, back = (spectral_positions(e, 60, directed=True) for e in (drawn, drawn.flip(0)))
    half = (found.size(1) - 2) // 2
    degrees, targets, sources = found.split([2, half, half], dim=1)
    swapped = torch.cat([degrees.flip(1), sources, targets], dim=1)
    torch.testing.assert_close(back, swapped, atol=1e-4, rtol=1e-4)


def test_lanczos_coordinates_equal_those_of_the_full_decomposition(monkeypatch):
    """With four classes, the four leading eigenvalues are well separated from the others."""
    data = gread.csbm(2 * SMALL, 4, homophily=0.8, degree=30, num_splits=1)
    found = spectral_positions(data.edge_index, 2 * SMALL)
    monkeypatch.setattr(spectral, "SMALL", 2 * SMALL)
    whole = spectral_positions(data.edge_index, 2 * SMALL)
    torch.testing.assert_close(found[:, :5], whole[:, :5], atol=1e-3, rtol=0)
    assert found.shape == whole.shape == (2 * SMALL, 1 + KEPT)


def test_one_coordinate_separates_two_groups():
    data = gread.csbm(2 * SMALL, 2, homophily=0.9, degree=20, num_splits=1)
    second = spectral_positions(data.edge_index, 2 * SMALL)[:, 2]
    right = ((second > 0) == (data.y == 1)).float().mean()
    assert max(right, 1 - right) > 0.95


@pytest.mark.parametrize("nodes", [1, 3, SMALL + 1])
def test_graph_without_edges_has_only_degree_columns(nodes, directed):
    none = torch.zeros(2, 0, dtype=torch.int64)
    found = spectral_positions(none, nodes, directed=directed)
    assert found.shape == (nodes, 2 if directed else 1)
    assert not found.any()


def test_coordinates_are_bounded():
    """The leading eigenvectors of a star are localized at its centre."""
    star = torch.stack([torch.zeros(999, dtype=torch.int64), torch.arange(1, 1000)])
    found = spectral_positions(to_undirected(star), 1002)
    assert np.abs(found.numpy()).max() <= spectral.LARGEST
    assert found.isfinite().all()
