"""Pairs of nodes exactly two steps apart."""

from __future__ import annotations

import numpy
import scipy.sparse
import torch
from torch import Tensor


def two_steps_away(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Pairs (source, target) joined by a path of two steps but by no edge, [2, E₂].

    All matrices are sparse: Squirrel has 8.4 million such pairs, a third of all.
    """
    loops = torch.arange(num_nodes).expand(2, -1)
    source, target = torch.cat([edge_index.cpu(), loops], dim=1).numpy()
    one = numpy.ones(len(source), dtype=bool)
    near = scipy.sparse.coo_array((one, (target, source)), shape=(num_nodes,) * 2).tocsr()
    far = (near @ near) > near
    row, column = far.nonzero()
    return torch.from_numpy(numpy.stack([column, row]).astype(numpy.int64)).to(edge_index.device)
