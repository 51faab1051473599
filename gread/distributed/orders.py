"""Orders of the nodes, cut into ranges: one for each shard, with few edges between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.graph.partition import cuthill_mckee

Numbers: TypeAlias = NDArray[np.int64]
Neighbours: TypeAlias = Callable[[], csr_matrix]  # a function, since not every order needs them
Ranges: TypeAlias = tuple[Numbers | None, Numbers]
"""The nodes in their new order (None: as they are), and the size of every shard."""

ORDERS: Registry[Callable[[Neighbours, int, int], Ranges]] = Registry("partition")
"""From the neighbours, N and the number of shards."""


@ORDERS.register("cuthill-mckee")
def by_cuthill_mckee(near: Neighbours, nodes: int, shards: int) -> Ranges:
    """Equal ranges of the order of reverse Cuthill and McKee, as in `gread.graph.partition`."""
    return cuthill_mckee(near()), equal(nodes, shards)


@ORDERS.register("metis")
def by_metis(near: Neighbours, nodes: int, shards: int) -> Ranges:
    """Partition of METIS with few edges between shards (extra ``gread[metis]``)."""
    try:
        import pymetis
    except ImportError as error:
        raise InputError(
            "partition metis needs pymetis: pip install 'gread[metis]', or choose cuthill-mckee"
        ) from error
    matrix = near()
    _, member = pymetis.part_graph(shards, pymetis.CSRAdjacency(matrix.indptr, matrix.indices))
    sizes = np.bincount(member, minlength=shards).astype(np.int64)
    return np.argsort(member, kind="stable").astype(np.int64), sizes


@ORDERS.register("given")
def as_given(near: Neighbours, nodes: int, shards: int) -> Ranges:
    """Equal ranges of the given numbering; needs no memory."""
    return None, equal(nodes, shards)


def equal(nodes: int, shards: int) -> Numbers:
    """Sizes of ranges that differ by one at most.

    Example:
        >>> equal(10, 4).tolist()
        [3, 3, 2, 2]
    """
    return np.full(shards, nodes // shards) + (np.arange(shards) < nodes % shards)
