"""The operator and edges of a shard of the whole graph equal those of the graph."""

from dataclasses import replace

import pytest
import torch

import gread
from gread.base.errors import InputError
from gread.distributed.shards import read_shard, shard
from gread.graph.adjacency import OriginalAdjacency, SoftAdjacency, edges_of
from gread.graph.checks import check_edges
from gread.graph.operator import Adjacency, EdgeSource, Operator


@pytest.fixture(scope="module")
def data():
    """Graph with self loops, one of them duplicated."""
    found = gread.csbm(40, 2, homophily=0.5, degree=4, num_features=3, seed=0)
    loops = torch.tensor([[3, 3, 5], [3, 3, 5]])
    found.edge_index = torch.cat([found.edge_index, loops], 1)
    return found


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """Shard that contains the whole graph in the original order."""
    folder = tmp_path_factory.mktemp("operator") / "one"
    shard(data, folder, 1, "given")
    return read_shard(folder)


def members(protocol):
    return [n for n in vars(protocol) if n == "__matmul__" or not n.startswith("_")]


@pytest.mark.parametrize("trained", [False, True])
def test_only_fixed_weights_are_cached_in_column_order(data, trained):
    """Fixed weights are transposed once, for all backward passes."""
    adj = Adjacency.from_edges(data.edge_index, torch.rand(data.num_edges), data.num_nodes)
    adj = replace(adj, weight=adj.weight.requires_grad_(trained))
    (adj @ data.x.clone().requires_grad_()).sum().backward()
    assert ("transposed_weight" in vars(adj)) is not trained


@pytest.mark.parametrize("self_loops", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", [OriginalAdjacency, SoftAdjacency])
def test_shard_of_the_whole_graph_gives_the_same_operator(data, whole, kind, self_loops):
    arguments = (3,) if kind is SoftAdjacency else ()
    adjacency = kind(*arguments, self_loops=self_loops)
    found, expected = adjacency(data.x, whole), adjacency(data.x, data.edge_index)
    assert all(hasattr(one, name) for one in (found, expected) for name in members(Operator))
    assert found.num_nodes == expected.num_nodes == 40
    assert found.symmetric == expected.symmetric
    torch.testing.assert_close(found @ data.x, expected @ data.x)
    torch.testing.assert_close(found.laplacian(data.x), expected.laplacian(data.x))
    assert torch.equal(found.total(data.x), data.x)


def test_shard_of_the_whole_graph_has_the_same_edges(data, whole):
    found, expected = (edges_of(one, None, data.x, 1.0) for one in (whole, data.edge_index))
    assert all(map(torch.equal, found.pattern.rows, expected.pattern.rows))
    assert torch.equal(found.weight, expected.weight)
    assert found.num_nodes == expected.num_nodes


def test_check_edges_accepts_shards_and_rejects_other_types(data, whole):
    assert isinstance(whole, EdgeSource)
    check_edges(whole, None, data.x)
    with pytest.raises(InputError, match="edge_weight must be None for a shard"):
        check_edges(whole, torch.ones(3), data.x)
    for wrong in ([[0], [1]], None, data):
        with pytest.raises(InputError, match="edge_index must be an int64 tensor, got"):
            check_edges(wrong, None, data.x)
