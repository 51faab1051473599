"""Scalings of the non-zero values of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gread.base.registry import Registry
from gread.graph.partition import sparse_tensor


@dataclass(frozen=True)
class Scaling:
    """A scaling of features.

    Attributes:
        about: Short description for reports.
        of: Function from row indices and values of the non-zeros, and the number of rows, to the
            scaled values. None if the scaling depends on the training rows of a column.
    """

    about: str
    of: Callable[[Tensor, Tensor, int], Tensor] | None = None


def _share_of_row(rows: Tensor, values: Tensor, count: int) -> Tensor:
    totals = values.new_zeros(count).index_add_(0, rows, values.abs())
    return values / totals[rows].clamp_min(torch.finfo(values.dtype).tiny)


SCALINGS: Registry[Scaling] = Registry(
    "scaling",
    {
        "auto": Scaling("chosen from the training rows"),
        "none": Scaling("unchanged", lambda rows, values, count: values),
        "standard": Scaling("divided by the deviation"),
        "binary": Scaling("1 where not zero", lambda rows, values, count: (values != 0).to(values)),
        "row": Scaling("divided by the total of the row", _share_of_row),
        "log": Scaling(
            "log2(1 + n)", lambda rows, values, count: values.sign() * (1 + values.abs()).log2()
        ),
    },
)
"""Scalings by name, for counts in a user's table (`gread.tables.features`) and for all features.

Counts are non-negative numbers that are mostly zero. With ``"none"`` all numbers are unchanged.
Otherwise, numbers that are not counts are standardized to mean 0 and deviation 1, unless their
column is sparse or mostly zero. ``"auto"`` is ``"log"`` for whole counts, which does not change
indicators; other counts are divided by the mean of their non-zeros.
"""


def rescaled(x: Tensor, name: str) -> Tensor:
    """Scale all features [N, F], dense or CSR; zeros stay zero.

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
    # Avoids `nonzero`, whose output size is unknown to `torch.export`.
    rows = torch.arange(x.size(0), device=x.device).repeat_interleave(x.size(1))
    return change(rows, x.flatten(), x.size(0)).view_as(x)
