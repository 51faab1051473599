"""Losses by name: each is the sum over nodes of w_i ℓ(output_i, target_i)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy as nll_of_logits,
    mse_loss,
)

from gread.base.errors import InputError
from gread.base.registry import Registry
from gread.kernels.backend import fast
from gread.kernels.operators import log_loss

Targets: TypeAlias = Literal["classes", "labels", "numbers"]
"""Kinds of targets: one of several classes, any of several labels, or numbers."""


class Loss(NamedTuple):
    """A loss, with its expected targets and outputs.

    Attributes:
        sum: Function of outputs [..., n, k], targets [n] or [n, k], and weights [..., n], or None
            if all weights are 1; it returns Σ w_i ℓ_i, [...].
        outputs: Function from a number of classes, or of labels, to the number k of outputs.
        classes: Function from k outputs to the number of classes that they distinguish; None if
            targets are not classes.
        metric: Default metric.
        targets: Kind of targets.
    """

    sum: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    outputs: Callable[[int], int]
    classes: Callable[[int], int] | None
    metric: str = "accuracy"
    targets: Targets = "classes"

    def scores(self, outputs: Tensor) -> Tensor:
        """Scores for every class, [..., n, classes]; outputs for labels and numbers.

        A single output for two classes is the log-odds of class 1.
        """
        width = outputs.size(-1)
        if self.classes is None or self.classes(width) == width:
            return outputs
        return torch.cat([torch.zeros_like(outputs), outputs], -1)

    def fault_of(self, y: Tensor, outputs: int) -> str:
        """Reason why a model with these outputs cannot learn the targets; empty if it can."""
        if self.classes is None:
            width = y.size(1) if y.dim() == 2 else 1
            valid = ((y == 0) | (y == 1)) if self.targets == "labels" else y.isfinite()
            if width == outputs and valid.all():
                return ""
            values = "values 0 or 1" if self.targets == "labels" else "finite numbers"
            wanted = f"y must be {outputs} {values} per node, one for each output of the model"
            return f"{wanted}, got shape {list(y.shape)}"
        classes = self.classes(outputs)
        wrong = y[(y < 0) | (y >= classes)]
        if not wrong.numel():
            return ""
        wanted = f"y must name classes 0 to {classes - 1}, as many as the model has outputs"
        return f"{wanted}, got class {wrong[0]}"


IN_ONE_PASS = ("cuda",)
"""Types of devices on which one kernel computes the cross entropy with its gradient. It processes
all nodes, because selecting some of them takes longer."""


def in_one_pass(outputs: Tensor, weight: Tensor) -> bool:
    """Return whether one kernel computes the cross entropy, or an evaluation."""
    if outputs.device.type not in IN_ONE_PASS or not fast():
        return False
    return outputs.dtype == weight.dtype and outputs.dtype in (torch.float32, torch.float64)


def cross_entropy(outputs: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """ℓ = −log softmax(output)[y], the paper's Eq. (15) with its sign."""
    if weight is not None and in_one_pass(outputs, weight):
        return log_loss(outputs, y, weight)
    if weight is None:
        return nll_of_logits(outputs, y, reduction="sum")
    rows = outputs.flatten(0, -2)
    classes = y.clamp(0, outputs.size(-1) - 1)  # an unknown class has no weight
    each = nll_of_logits(rows, classes.repeat(len(rows) // len(y)), reduction="none")
    return (weight * each.view(outputs.shape[:-1])).sum(-1)


def binary(outputs: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """ℓ = −log σ(±output), for one output: the log-odds of class 1."""
    if outputs.size(-1) != 1:
        raise InputError(f"the loss binary needs a model with one output, got {outputs.size(-1)}")
    log_odds = outputs.squeeze(-1)
    target = y.to(log_odds.dtype).expand_as(log_odds)
    return binary_cross_entropy_with_logits(log_odds, target, weight, reduction="none").sum(-1)


def squared_error(outputs: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """ℓ = |output − y|² / k, for targets that are numbers."""
    target = y.to(outputs.dtype).view(len(y), -1).expand_as(outputs)
    each = mse_loss(outputs, target, reduction="none").mean(-1)
    return (each if weight is None else weight * each).sum(-1)


def multi_label(outputs: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """ℓ = −Σ_j [y_j log σ(output_j) + (1 − y_j) log(1 − σ(output_j))] / k, for k labels."""
    target = y.to(outputs.dtype).view(len(y), -1).expand_as(outputs)
    each = binary_cross_entropy_with_logits(outputs, target, reduction="none").mean(-1)
    return (each if weight is None else weight * each).sum(-1)


LOSSES: Registry[Loss] = Registry(
    "loss",
    {
        "cross-entropy": Loss(cross_entropy, lambda classes: classes, lambda outputs: outputs),
        "binary": Loss(binary, lambda classes: 1, lambda outputs: 2),
        "squared-error": Loss(squared_error, lambda classes: 1, None, "r2", "numbers"),
        "multi-label": Loss(multi_label, lambda labels: labels, None, "roc-auc", "labels"),
    },
)
