"""Detection of integers that are codes of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 20  # distinct values above which codes must have uneven frequencies
LEAST = 5  # rows per value on average that codes with more values must have
UNEVEN = 5.0  # variance over mean of the rows per value, above which they are uneven
REORDERINGS = 1000


def are_codes(values: NDArray[Any]) -> bool:
    """Whether numbers are codes of categories rather than quantities.

    Codes are whole numbers with three or more distinct values, not mostly zero (counts). Up to 20
    values, each with √n rows or more on average, are codes unless their order is evident. More
    values are codes if no order is evident, each has 5 rows or more on average, and some have many
    more rows than others, as with codes of places and schools.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> are_codes(rng.choice([3, 17, 21, 40], size=200))
        True
        >>> are_codes(rng.integers(1900, 2000, size=200)), are_codes(rng.poisson(5, size=2000))
        (False, False)
    """
    if not len(values) or (values != np.rint(values)).any() or (values == 0).mean() > 0.5:
        return False
    found, rows = np.unique(values, return_counts=True)
    if len(found) < 3:
        return False  # one feature distinguishes two values
    if len(found) <= FEW:
        return len(found) ** 2 <= len(values) and not order_is_evident(rows)
    uneven = rows.var() / rows.mean() > UNEVEN
    return LEAST * len(found) <= len(values) and bool(uneven) and not order_is_evident(rows)


def order_is_evident(rows: NDArray[np.int64]) -> bool:
    """Whether the number of rows per value changes less along the values than by chance.

    The histogram of a quantity is smooth: Σ |rows[i + 1] − rows[i]| is smaller than in 99 % of the
    reorderings of its values. Fewer than seven values have too few reorderings for the test.
    """
    if len(rows) < 7:
        return False
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(rows, (REORDERINGS, 1)), axis=1)
    change = np.abs(np.diff(orders, axis=1)).sum(axis=1)
    return bool((change <= np.abs(np.diff(rows)).sum()).mean() <= 0.01)
