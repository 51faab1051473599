"""Checks of graphs from users. Inner functions do not check again."""

from __future__ import annotations

import torch
from torch import Tensor

from gread.base.errors import InputError
from gread.graph.operator import EdgeSource
from gread.kernels.cuda_graph import values_can_be_read
from gread.kernels.pattern import remember


def check_features(name: str, x: Tensor, channels: int) -> None:
    """Require a finite floating-point tensor [N, channels], strided or CSR."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise InputError(f"{name} must be a floating-point tensor, got {_describe(x)}")
    if x.dim() != 2 or x.size(1) != channels:
        raise InputError(f"{name} must have the shape [N, {channels}], got {list(x.shape)}")
    sparse = x.layout is torch.sparse_csr
    if values_can_be_read() and not remember(
        x, "finite", lambda: bool((x.values() if sparse else x).detach().isfinite().all())
    ):
        x = x.to_dense() if sparse else x
        bad = (~x.isfinite()).any(dim=1).nonzero()[0].item()
        raise InputError(f"{name} must be finite, got NaN or infinity in row {bad}")


HEAVIEST = 1e31
"""Largest edge weight; sums of larger ones could overflow float32."""


def check_edges(edge_index: Tensor | EdgeSource, edge_weight: Tensor | None, x: Tensor) -> None:
    """Require valid node indices [2, E] and weights [E] for the nodes of ``x``.

    Weights have the type of ``x`` and are zero, or between the smallest normal number and 1e31, so
    sums of weights and their inverses are finite. A shard is checked when it is read and has its
    own weights.

    Tracing raises an error, because kernels in C read memory that tensors of a tracer do not have.
    The check is here because every model calls this function.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        raise InputError(
            "torch.jit.trace and torch.onnx.export(dynamo=False) cannot trace models of gread: use "
            "torch.export.export"
        )
    if not isinstance(edge_index, Tensor) and isinstance(edge_index, EdgeSource):
        if edge_weight is not None:
            raise InputError("edge_weight must be None for a shard, which has weights of its own")
        return
    num_nodes = x.size(-2)
    if not isinstance(edge_index, Tensor) or edge_index.dtype != torch.int64:
        raise InputError(f"edge_index must be an int64 tensor, got {_describe(edge_index)}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index must have the shape [2, E], got {list(edge_index.shape)}")
    if edge_weight is not None:
        if not isinstance(edge_weight, Tensor):
            raise InputError(f"edge_weight must be a tensor, got {_describe(edge_weight)}")
        if edge_weight.shape != edge_index.shape[1:]:
            expected, got = list(edge_index.shape[1:]), list(edge_weight.shape)
            raise InputError(f"edge_weight must have the shape {expected}, got {got}")
        mixed = torch.is_autocast_enabled(x.device.type) and edge_weight.is_floating_point()
        if edge_weight.dtype != x.dtype and not mixed:
            types = f"{x.dtype}, got {edge_weight.dtype}"
            raise InputError(f"edge_weight must be of the type of the features, {types}")
    if edge_index.size(1) == 0 or not values_can_be_read():
        return
    low, high = remember(edge_index, "bounds", lambda: tuple(map(int, edge_index.aminmax())))
    if low < 0 or high >= num_nodes:
        wrong = low if low < 0 else high
        raise InputError(f"edge_index must name nodes 0 to {num_nodes - 1}, got node {wrong}")
    if edge_weight is None:
        return
    least = torch.finfo(edge_weight.dtype).tiny
    usable = (edge_weight == 0) | ((edge_weight >= least) & (edge_weight <= HEAVIEST))
    if not usable.all():
        first = edge_weight.detach()[~usable][0].item()
        accepted = f"finite and not negative: 0, or {least:.2g} to {HEAVIEST:g}"
        raise InputError(f"edge_weight must be {accepted}, got {first:g}")


def _describe(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
