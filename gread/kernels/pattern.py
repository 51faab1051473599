"""Sparsity patterns by row and by column, computed once and cached."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gread.kernels.cuda_graph import values_can_be_read

T = TypeVar("T")

MOST_LIGHT = 128
"""Number of entries above which a row is heavy: several warps of a GPU then share it. If rows have
few entries, the limit is lower (at least half), because a long row then determines the time."""
FEW = MOST_LIGHT // 8
"""Mean number of entries per row below which rows count as having few."""
BY_LENGTH = "rows by length"
"""Cache key of `rows_by_length`, stored with the starts of the rows."""
PIECE = 32
"""Largest number of entries of a part of a row, for kernels with a result for each entry. Rows with
more entries are called long: kernels with few programs give them several warps."""
NEARBY = 2**15
"""Number of consecutive rows that are ordered by length together. A larger number would scatter the
neighbours that nearby rows share."""


class Rows(NamedTuple):
    """Positions of the entries of a sparse matrix in row order."""

    start: Tensor
    """Row i has the entries ``start[i]`` to ``start[i + 1] - 1``; int64 [N + 1]."""
    column: Tensor
    """Column of every entry, int32 [E]."""

    def numbers(self) -> Tensor:
        """Row of every entry, int64 [E]."""
        counts = self.start.diff()
        index = torch.arange(counts.numel(), device=counts.device)
        return index.repeat_interleave(counts, output_size=self.column.numel())


@dataclass(frozen=True, eq=False)
class Pattern:
    """Sparsity pattern of a matrix in row order.

    Attributes:
        rows: Column of every entry, in row order.
        num_columns: Number of columns.
    """

    rows: Rows
    num_columns: int

    @staticmethod
    def from_entries(row: Tensor, column: Tensor, shape: tuple[int, int]) -> tuple[Pattern, Tensor]:
        """Build a pattern from entries in any order; also return their order, [E].

        On a GPU the rows and columns are ordered by length here, if values can be read: a launch
        must not wait for them.
        """
        order = (row * shape[1] + column).argsort(stable=True)
        pattern = Pattern(Rows(_starts(row, shape[0]), column[order].int()), shape[1])
        if column.is_cuda and column.numel() and values_can_be_read():
            for start in (pattern.rows.start, pattern.columns.start):
                remember(start, BY_LENGTH, partial(rows_by_length, start))
        return pattern, order

    @cached_property
    def columns(self) -> Rows:
        """Row of every entry, in column order: the rows of the transpose."""
        starts = _starts(self.rows.column, self.num_columns)
        return Rows(starts, self.rows.numbers()[self.order].int())

    @cached_property
    def order(self) -> Tensor:
        """Permutation of the entries to column order, [E]."""
        return self.rows.column.argsort(stable=True)

    @cached_property
    def orders(self) -> tuple[Tensor, Tensor]:
        """``order`` and its inverse."""
        back = torch.empty_like(self.order)
        back[self.order] = torch.arange(back.numel(), device=back.device)
        return self.order, back

    @cached_property
    def symmetric(self) -> bool:
        """Whether the pattern is symmetric."""
        if self.rows.start.numel() - 1 != self.num_columns:
            return False
        return all(map(torch.equal, self.rows, self.columns))


def _starts(index: Tensor, size: int) -> Tensor:
    """Start of each value in the sorted ``index``, [size + 1]."""
    counts = torch.zeros(size + 1, dtype=torch.int64, device=index.device)
    one = counts.new_ones(1).expand(index.size(0))
    return counts.index_add(0, index + 1, one).cumsum(0)


class RowOrder(NamedTuple):
    """Order in which a GPU processes rows, so that adjacent rows end at the same time."""

    heavy: int
    """Number of heavy rows, see `MOST_LIGHT`, which come first."""
    long: int
    """Number of rows before the first one with at most `PIECE` entries. With up to `NEARBY` rows,
    these are all the longer rows."""
    places: Tensor
    """Index, start and length of each row in this order, [N, 3], int32 or int64."""
    pieces: Tensor
    """The same for parts of all rows, with at most `PIECE` entries each."""


def rows_by_length(start: Tensor) -> RowOrder:
    """Order rows: heavy rows, longest first; then each block of `NEARBY` rows, longest first."""
    counts = start.diff()
    row = torch.arange(counts.numel(), device=start.device)
    heavy = counts > MOST_LIGHT * (counts.double().mean() / FEW).clamp(0.5, 1)
    places = _by_length(row, start[:-1], counts, torch.where(heavy, 0, 1 + row // NEARBY))
    parts = -(-counts // PIECE)
    cut = row.repeat_interleave(parts)
    before = PIECE * (
        torch.arange(cut.numel(), device=start.device) - (parts.cumsum(0) - parts)[cut]
    )
    rest = (counts[cut] - before).clamp(max=PIECE)
    pieces = _by_length(cut, start[cut] + before, rest, cut // NEARBY)
    long = (places[:, 2] > PIECE).int().cumprod(0).sum()
    return RowOrder(int(heavy.sum()), int(long), places, pieces)


def _by_length(row: Tensor, start: Tensor, count: Tensor, group: Tensor) -> Tensor:
    """Sort rows or parts of rows, [n, 3], by group and then longest first."""
    most = count.max() if count.numel() else 0
    order = (group * (most + 1) + most - count).argsort(stable=True)
    found = torch.stack([row, start, count], 1)[order]
    small = not start.numel() or int((start + count).max()) < 2**31
    return found.int() if small else found


_kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def remember(tensor: Tensor, key: Hashable, make: Callable[[], T], *, when: bool = True) -> T:
    """Cache ``make()`` with a tensor until the tensor is written to.

    The value is released with the tensor. ``make`` must not keep a reference to the tensor. If
    ``when`` is False, nothing is cached.
    """
    if not when or torch.compiler.is_compiling() or tensor.requires_grad or tensor.is_inference():
        return make()
    version, values = _kept.get(tensor, (None, {}))
    if version != tensor._version:
        values: dict[Hashable, Any] = {}  # type: ignore[no-redef]
        _kept[tensor] = tensor._version, values
    if key not in values:
        values[key] = make()
    found: T = values[key]
    return found


def recall(tensor: Tensor, key: Hashable) -> Any:
    """Return what `remember` has cached with a tensor, or None."""
    version, values = _kept.get(tensor, (None, {}))
    return values.get(key) if version == tensor._version else None
