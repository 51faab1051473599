"""The product of a sparse matrix with a dense one, and its gradients.

An operator of its own rather than a composition of PyTorch's: the backward keeps the two factors
instead of a message for every edge, and torch.compile takes it as it is (Inductor of torch 2.13
reorders chains of ``index_add`` and gives wrong numbers).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("gread::spmm", mutates_args=())
def spmm(source: Tensor, target: Tensor, weight: Tensor, h: Tensor) -> Tensor:
    """out[i] = Σ over the edges e with target[e] = i of weight[e] · h[source[e]].

    Args:
        source: Column of every entry of the matrix, [E].
        target: Row of every entry, [E].
        weight: The entries, [E].
        h: The dense matrix, [N, d].

    Returns:
        [N, d].
    """
    messages = weight.unsqueeze(-1) * h.index_select(0, source)
    return torch.zeros_like(h).index_add_(0, target, messages)


@spmm.register_fake
def _(source: Tensor, target: Tensor, weight: Tensor, h: Tensor) -> Tensor:
    return torch.empty_like(h)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
    """∂h is the product with the transposed matrix, ∂weight a dot product for every edge."""
    source, target, weight, h = ctx.saved_tensors
    grad_weight = grad_h = None
    if ctx.needs_input_grad[2]:
        grad_weight = (grad.index_select(0, target) * h.index_select(0, source)).sum(-1)
    if ctx.needs_input_grad[3]:
        grad_h = spmm(target, source, weight, grad)
    return None, None, grad_weight, grad_h


spmm.register_autograd(_gradients, setup_context=_save)
