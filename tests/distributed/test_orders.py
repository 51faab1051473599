"""Every partition assigns each node to one shard."""

import sys

import numpy as np
import pytest

from gread.base.errors import InputError
from gread.distributed.orders import ORDERS
from gread.graph.partition import neighbours


def mesh(width=30):
    """Mesh whose nodes are numbered at random."""
    number = np.random.default_rng(0).permutation(width * width).reshape(width, width)
    pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
    return np.stack([np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1)])


def cut_edges(edges, order, sizes):
    """Number of edges between shards."""
    place = np.empty(sum(sizes), dtype=np.int64)
    place[np.arange(len(place)) if order is None else order] = np.arange(len(place))
    owner = np.repeat(np.arange(len(sizes)), sizes)[place]
    return int((owner[edges[0]] != owner[edges[1]]).sum())


@pytest.mark.parametrize("name", ORDERS)
def test_every_node_is_in_one_shard(name):
    edges = mesh()
    if name == "metis":
        pytest.importorskip("pymetis")
    order, sizes = ORDERS[name](lambda: neighbours(edges, 900), 900, 4)
    assert sizes.sum() == 900
    assert sizes.min() > 200
    if order is not None:
        assert np.array_equal(np.sort(order), np.arange(900))


@pytest.mark.parametrize("name", ["cuthill-mckee", "metis"])
def test_mesh_partitions_cut_few_edges(name):
    edges = mesh()
    if name == "metis":
        pytest.importorskip("pymetis")
    found = ORDERS[name](lambda: neighbours(edges, 900), 900, 4)
    assert cut_edges(edges, *found) < 3 * 60
    assert cut_edges(edges, *ORDERS["given"](None, 900, 4)) > 1000


def test_missing_pymetis_raises_an_input_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(InputError, match=r"pip install 'gread\[metis\]', or choose cuthill-mckee"):
        ORDERS["metis"](lambda: neighbours(mesh(), 900), 900, 2)
