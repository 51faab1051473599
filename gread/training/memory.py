"""Memory of a training step, and the number of parts that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.base.memory import GB, free_memory
from gread.graph.partition import cuthill_mckee, neighbours, ranges
from gread.training.config import HALO

MOST = 1024
"""Largest number of parts."""

LARGEST = 4.0
"""Largest number of nodes in all parts with their halos, relative to the number in the graph."""


@dataclass(frozen=True)
class Division:
    """Number of parts of a graph, with the reason.

    Attributes:
        parts: Number of parts; 1 if a training step on the whole graph fits into memory.
        halo: Hops around each part.
        needed: Estimated bytes of a step on the whole graph.
        free: Free bytes.
    """

    parts: int
    halo: int
    needed: float
    free: float

    def __str__(self) -> str:
        return (
            f"training on the whole graph takes about {self.needed / GB:.1f} GB and "
            f"{self.free / GB:.1f} GB are free, so the graph is partitioned into {self.parts} "
            f"parts with a halo of {self.halo} hops (parts=1 trains on the whole graph)"
        )


def parts_that_fit(model: nn.Module, data: Data, free: float | None = None) -> Division:
    """Find the smallest number of parts that fits into memory, with a halo of up to `HALO` hops.

    The number is a power of two. A larger halo takes precedence over fewer parts.

    Args:
        model: Model on the device of the training.
        data: Graph with ``x`` and ``edge_index``.
        free: Free bytes; by default those of the device.
    """
    device = next(model.parameters()).device
    free = free_memory(str(device)) if free is None else free
    a_node, an_edge = _costs(model, data, device)
    n, e = data.num_nodes, data.edge_index.size(1)
    needed = a_node * n + an_edge * e
    if needed <= free:
        return Division(1, HALO, needed, free)
    near = neighbours(data.edge_index.cpu().numpy(), n)
    order, degrees = cuthill_mckee(near), np.diff(near.indptr)
    for halo in range(HALO, -1, -1):
        parts = 2
        while parts <= min(MOST, n):
            nodes = [inside for _, inside in ranges(near, order, parts, halo)]
            if sum(map(len, nodes)) > LARGEST * n:
                break  # more parts have larger halos
            if max(a_node * len(k) + an_edge * degrees[k].sum() for k in nodes) <= free:
                return Division(parts, halo, needed, free)
            parts *= 2
    raise InputError(
        f"the graph must fit into memory in at most {MOST} parts, got one whose training needs "
        f"about {needed / GB:.1f} GB, and {free / GB:.1f} GB are free: choose a smaller model"
    )


PROBE = 1000
"""Nodes of the graphs that costs are measured on."""


def _costs(model: nn.Module, data: Data, device: torch.device) -> tuple[float, float]:
    """Bytes of a training step per node and per edge.

    Both are measured on two small graphs. Memory that autograd holds counts four times, because
    gradients and temporary tensors may be as large. Each edge is stored by row and by column.
    """
    x = data.x[:PROBE].to(device)
    n = x.size(0)
    random = torch.Generator().manual_seed(0)
    held = []
    for degree in (2, 10):
        edges = torch.randint(n, (2, degree * n), generator=random).to(device)
        held.append(bytes_held(model, x, edges) / n)
    an_edge = max(held[1] - held[0], 0.0) / 8
    a_node = max(held[0] - 2 * an_edge, 0.0)
    return 4 * a_node + 3 * x.element_size() * x.size(1), 4 * an_edge + 64


def bytes_held(
    model: nn.Module, x: Tensor, edge_index: Tensor, extra: Mapping[str, Tensor] | None = None
) -> int:
    """Bytes that autograd keeps after a forward pass, without small storages.

    The state of the model is restored, because a forward pass in training mode updates running
    statistics.
    """
    given = [*model.parameters(), x, edge_index]
    known = {tensor.untyped_storage().data_ptr() for tensor in given}
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.numel() >= x.size(0) and storage.data_ptr() not in known:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    before, training = [buffer.clone() for buffer in model.buffers()], model.training
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        # Saved tensors live as long as the logits.
        logits = model.train()(x, edge_index, **(extra or {}))
    total = sum(held.values())
    del logits
    for buffer, kept in zip(model.buffers(), before, strict=True):
        buffer.copy_(kept)
    model.train(training)
    return total
