"""Scalings of features: what happens to the values that are not zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gread.base.registry import Registry
from gread.graph.partition import sparse_tensor


@dataclass(frozen=True)
class Scaling:
    """A way to scale.

    Attributes:
        about: In a few words, for a reader.
        of: From rows and values of entries that are not zero, and the number of rows, to their new
            values; None where it depends on what a column looks like in training.
    """

    about: str
    of: Callable[[Tensor, Tensor, int], Tensor] | None = None


def _share_of_row(rows: Tensor, values: Tensor, count: int) -> Tensor:
    totals = values.new_zeros(count).index_add_(0, rows, values.abs())
    return values / totals[rows].clamp_min(torch.finfo(values.dtype).tiny)


SCALINGS: Registry[Scaling] = Registry(
    "scaling",
    {
        "auto": Scaling("by what they look like"),
        "none": Scaling("as they are", lambda rows, values, count: values),
        "standard": Scaling("divided by the deviation"),
        "binary": Scaling("1 where not zero", lambda rows, values, count: (values != 0).to(values)),
        "row": Scaling("divided by the total of the row", _share_of_row),
        "log": Scaling(
            "log2(1 + n)", lambda rows, values, count: values.sign() * (1 + values.abs()).log2()
        ),
    },
)
"""By name, for counts in a user's table (`gread.tables.features`) and for features as a whole.

Counts are numbers of which most are zero and none is below it. Other numbers of a table get mean 0
and deviation 1, but with ``"none"`` they stay as they are too. ``"auto"`` is ``"log"`` for whole
numbers, which leaves indicators as they are; others are divided by the mean of those that are not
zero.
"""


def rescaled(x: Tensor, name: str) -> Tensor:
    """Features [N, F], dense or CSR, of which all are scaled; zeros stay zeros.

    Example:
        >>> rescaled(torch.tensor([[1.0, 0.0, 3.0]]), "row").tolist()
        [[0.25, 0.0, 0.75]]
    """
    change = SCALINGS[name].of
    assert change is not None
    if x.layout is torch.sparse_csr:
        rows = torch.repeat_interleave(x.crow_indices().diff())
        values = change(rows, x.values(), x.size(0))
        return sparse_tensor(x.crow_indices(), x.col_indices(), values, x.shape)
    # Without `nonzero`, whose number of values `torch.export` does not know beforehand.
    rows = torch.arange(x.size(0), device=x.device).repeat_interleave(x.size(1))
    return change(rows, x.flatten(), x.size(0)).view_as(x)
