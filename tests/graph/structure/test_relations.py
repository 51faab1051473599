import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, to_undirected

import gread
from gread.graph.structure.hops import adjacency_matrix, hops_from
from gread.graph.structure.origin import Origin
from gread.graph.structure.relations import LOOP, computed_relations, embed, relations

GRID = to_undirected(
    torch.tensor(
        [(4 * i + j, 4 * i + j + 1) for i in range(6) for j in range(3)]
        + [(4 * i + j, 4 * i + j + 4) for i in range(5) for j in range(4)]
    ).T
)
"""Grid of six rows of four nodes."""


def test_hops_are_shortest_paths(graph):
    adj = adjacency_matrix(graph.edge_index, 12)
    hops = hops_from(adj, np.arange(12))
    power, expected = np.eye(12), np.where(np.eye(12) > 0, 0, -1)
    for step in range(1, 12):
        power = power @ adj.toarray()
        expected = np.where((expected < 0) & (power > 0), step, expected)
    assert np.array_equal(hops, expected)
    assert (hops[11, :11] == -1).all()  # it has no neighbours
    near = hops_from(adj, np.array([3]), limit=1)[0]
    assert np.array_equal(near >= 0, expected[3].clip(-1, 2) % 3 < 2)


def test_embedding_of_a_grid_recovers_rows_and_columns():
    points = embed(adjacency_matrix(GRID, 24))
    row, column = np.divmod(np.arange(24), 4)
    assert abs(np.corrcoef(points[:, 0], row)[0, 1]) > 0.95
    assert abs(np.corrcoef(points[:, 1], column)[0, 1]) > 0.85


def test_embedding_with_all_nodes_as_landmarks_equals_classical_scaling():
    """Inner products of classical scaling of the distances in the graph."""
    adj = adjacency_matrix(GRID, 24)
    squares = hops_from(adj, np.arange(24)).astype(float) ** 2
    centring = np.eye(24) - 1 / 24
    values, vectors = np.linalg.eigh(-centring @ squares @ centring / 2)
    expected = vectors[:, -2:] * values[-2:] ** 0.5
    points = embed(adj)
    products, others = points @ points.T, expected @ expected.T
    np.testing.assert_allclose(products * others.max() / products.max(), others, atol=1e-3)


def test_every_pair_has_one_relation_opposite_to_its_reverse(graph):
    index, kind = computed_relations(graph.edge_index, 12)
    assert torch.equal(index.unique(dim=1), index.unique(dim=1, sorted=True))
    assert index.unique(dim=1).size(1) == index.size(1)
    assert is_undirected(index)
    assert (kind == LOOP).sum() == 12
    assert torch.equal((index[0] == index[1]).nonzero(), (kind == LOOP).nonzero())
    known = {tuple(pair): k for pair, k in zip(index.T.tolist(), kind.tolist(), strict=True)}
    points = embed(adjacency_matrix(graph.edge_index, 12))
    for (u, v), k in known.items():
        if (points[u] != points[v]).all():
            assert known[v, u] % 4 == 3 - k % 4
            assert known[v, u] // 4 == k // 4
    edges = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    assert edges <= known.keys()
    assert 0 < sum(4 <= k < LOOP for k in known.values()) <= len(edges)


def test_leaves_of_a_star_graph_are_not_paired():
    leaves = torch.arange(1, 3000)
    star = to_undirected(torch.stack([torch.zeros_like(leaves), leaves]))
    index, _ = computed_relations(star, 3000)
    assert index.size(1) <= 2 * star.size(1) + 3000


def write(root, lines):
    folder = root / "geom_gcn_relations"
    folder.mkdir(exist_ok=True)
    text = "\n".join(["node1,node2\tspace\trelation_type", *lines])
    (folder / "outf_nodes_space_relation_texas_poincare.txt").write_text(text + "\n")


def test_relation_file_of_the_authors_is_read(tmp_path):
    path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]), num_nodes=3)
    edges = ["0,1\tgraph\t3", "1,0\tgraph\t0", "1,2\tgraph\t2", "2,1\tgraph\t1"]
    write(tmp_path, [*edges, "0,2\tlatent_space\t3", "1,2\tlatent_space\t2"])
    found = relations(path, Origin("texas", tmp_path, ""))
    known = dict(
        zip(
            map(tuple, found["relation_index"].T.tolist()),
            found["relation_type"].tolist(),
            strict=True,
        )
    )
    loops = {(node, node): LOOP for node in range(3)}
    assert known == {(0, 1): 3, (1, 0): 0, (1, 2): 6, (2, 1): 1, (0, 2): 7} | loops


def test_relation_file_of_another_graph_is_ignored(tmp_path):
    path = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    own = relations(path, None)
    for lines in (["0,2\tgraph\t3", "2,0\tgraph\t0"], ["0,7\tgraph\t3", "7,0\tgraph\t0"], []):
        write(tmp_path, lines)
        found = relations(path, Origin("texas", tmp_path, ""))
        assert all(torch.equal(own[name], found[name]) for name in own)


@pytest.mark.parametrize(
    ("dataset", "pairs"), [("texas", 1089 + 183), ("cora", 19495 + 2708), ("chameleon", None)]
)
def test_relation_files_match_the_real_graphs(real_root, dataset, pairs):
    data = gread.load(dataset, root=real_root)
    if not (real_root / "geom_gcn_relations").is_dir():
        pytest.skip("the relation files are missing")
    found = relations(data, Origin(dataset, real_root, ""))
    assert found["relation_type"].numel() == pairs or pairs is None
    assert found["relation_type"].max() == LOOP
