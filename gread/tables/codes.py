"""Detection of integers that are codes of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW = 20  # values of a column whose order must be evident before it is read as a quantity
LEAST = 5  # rows of each value on average, where there are more values
UNEVEN = 5.0  # variance over mean of the rows of each value, from which on they are uneven
REORDERINGS = 1000


def are_codes(values: NDArray[Any]) -> bool:
    """Whether numbers are codes of categories rather than quantities.

    They are whole, three or more, and not mostly zero (counts). Up to 20 different values, each
    with √n rows or more on average, are codes unless their order is evident. More values are codes
    if no order is evident, each has 5 rows on average, and some have many more rows than others, as
    the codes of places and schools have.

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
        return False  # one feature tells two values apart
    if len(found) <= FEW:
        return len(found) ** 2 <= len(values) and not order_is_evident(rows)
    uneven = rows.var() / rows.mean() > UNEVEN
    return LEAST * len(found) <= len(values) and bool(uneven) and not order_is_evident(rows)


def order_is_evident(rows: NDArray[np.int64]) -> bool:
    """Whether rows of each value, by the order of the values, change less than by chance.

    The histogram of a quantity is smooth: Σ |rows[i + 1] − rows[i]| is smaller than in 99 % of the
    reorderings of its values. Fewer than seven values have too few reorderings to tell.
    """
    if len(rows) < 7:
        return False
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(rows, (REORDERINGS, 1)), axis=1)
    change = np.abs(np.diff(orders, axis=1)).sum(axis=1)
    return bool((change <= np.abs(np.diff(rows)).sum()).mean() <= 0.01)
