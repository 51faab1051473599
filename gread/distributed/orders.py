"""Node orders; consecutive ranges are the shards, with few edges between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.graph.partition import cuthill_mckee

if TYPE_CHECKING:  # importing SciPy takes a third of a second
    from scipy.sparse import csr_matrix

Numbers: TypeAlias = NDArray[np.int64]
Neighbours: TypeAlias = "Callable[[], csr_matrix]"  # a function, because not every order needs them
Ranges: TypeAlias = tuple[Numbers | None, Numbers]
"""Nodes in their new order (None: unchanged), and the size of every shard."""

ORDERS: Registry[Callable[[Neighbours, int, int], Ranges]] = Registry("partition")
"""Functions of the neighbours, N and the number of shards."""


@ORDERS.register("cuthill-mckee")
def by_cuthill_mckee(near: Neighbours, nodes: int, shards: int) -> Ranges:
    """Equal ranges of the reverse Cuthill-McKee order, as in `gread.graph.partition`."""
    return cuthill_mckee(near()), equal(nodes, shards)


@ORDERS.register("metis")
def by_metis(near: Neighbours, nodes: int, shards: int) -> Ranges:
    """METIS partition with few edges between shards (extra ``gread[metis]``)."""
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
    """Sizes of ranges that differ by at most one.

    Example:
        >>> equal(10, 4).tolist()
        [3, 3, 2, 2]
    """
    return np.full(shards, nodes // shards) + (np.arange(shards) < nodes % shards)
