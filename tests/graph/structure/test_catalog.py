"""Structures are computed once, cached, and passed to the models that declare them."""

import pytest
import torch

import gread
from gread.graph.structure.catalog import STRUCTURES, add_structure
from gread.graph.structure.origin import Origin


@pytest.fixture
def counted(monkeypatch):
    """Structure that counts its computations."""
    calls = []

    def degrees(data, origin):
        calls.append(origin)
        return {"degrees": data.edge_index[1].bincount(minlength=data.num_nodes)}

    monkeypatch.setitem(STRUCTURES._entries, "degrees", degrees)
    return calls


def test_add_structure_does_not_modify_the_input_graph(counted, graph):
    made = add_structure(graph, "degrees")
    assert "degrees" not in graph
    assert made.data.degrees.sum() == graph.num_edges
    assert made.entries == 12
    assert made.seconds >= 0


def test_structure_is_cached_in_the_data_root(counted, graph, tmp_path):
    origin = Origin("some", tmp_path, "f00")
    first = add_structure(graph, "degrees", origin)
    second = add_structure(graph, "degrees", origin)
    assert len(counted) == 1
    assert torch.equal(first.data.degrees, second.data.degrees)
    assert first.seconds == second.seconds
    add_structure(graph, "degrees", Origin("some", tmp_path, "other"))
    assert len(counted) == 2


def test_structure_is_recomputed_for_corrupt_cache_or_invalid_root(counted, graph, tmp_path):
    add_structure(graph, "degrees", Origin("some", tmp_path, "f00"))
    (kept,) = (tmp_path / "processed").iterdir()
    kept.write_bytes(b"no tensors")
    add_structure(graph, "degrees", Origin("some", tmp_path, "f00"))
    assert len(counted) == 2
    file = tmp_path / "file"
    file.touch()
    assert add_structure(graph, "degrees", Origin("some", file, "f00")).data.degrees.numel() == 12


def test_positions_equal_personalized_pagerank(graph):
    """Compared with the inverse, with columns normalized to sum 1."""
    found = add_structure(graph, "positions").data
    a = torch.eye(12, dtype=torch.float64)
    a[graph.edge_index[1], graph.edge_index[0]] = 1
    root = a.sum(1).rsqrt()
    exact = torch.linalg.inv(torch.eye(12) - 0.95 * (root.unsqueeze(1) * a * root))
    expected = exact / exact.sum(0)
    p = torch.zeros(12, 12, dtype=torch.float64)
    p[tuple(found.position_index)] = found.position_weight.double()
    torch.testing.assert_close(p, expected, atol=1e-6, rtol=1e-5)
    alone = found.position_index[:, (found.position_index == 11).any(0)]
    assert alone.tolist() == [[11], [11]]  # node 11 has no neighbours


def test_positions_keep_64_normalized_entries_per_column():
    data = gread.load("csbm", num_nodes=200)
    found = add_structure(data, "positions").data
    columns = found.position_index[1].bincount()
    assert columns.tolist() == [64] * 200
    sums = torch.zeros(200).index_add(0, found.position_index[1], found.position_weight)
    torch.testing.assert_close(sums, torch.ones(200))
