"""Checks of numeric arguments.

Each error states the argument, what is accepted and what was received.
"""

from __future__ import annotations

import math

from gread.base.errors import InputError


def check_number(name: str, value: float) -> None:
    """Require a finite number."""
    if not _is_number(value):
        raise InputError(f"{name} must be a finite number, got {value!r}")


def check_positive(name: str, value: float) -> None:
    """Require a positive number."""
    if not (_is_number(value) and value > 0):
        raise InputError(f"{name} must be a positive number, got {value!r}")


def check_not_negative(name: str, value: float) -> None:
    """Require a non-negative number."""
    if not (_is_number(value) and value >= 0):
        raise InputError(f"{name} must be a number, zero or above, got {value!r}")


def check_fraction(name: str, value: float) -> None:
    """Require a number in [0, 1]."""
    if not (_is_number(value) and 0 <= value <= 1):
        raise InputError(f"{name} must be a number in [0, 1], got {value!r}")


def check_rate(name: str, value: float) -> None:
    """Require a dropout rate in [0, 1)."""
    if not (_is_number(value) and 0 <= value < 1):
        raise InputError(f"{name} must be a number in [0, 1), got {value!r}")


def check_flag(name: str, value: bool) -> None:
    """Require true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {value!r}")


def check_count(name: str, value: int, minimum: int = 1) -> None:
    """Require an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")


def check_sizes(
    in_channels: int, hidden_channels: int, out_channels: int, input_dropout: float, dropout: float
) -> None:
    """Require three positive widths and two dropout rates, the arguments of every model."""
    check_count("in_channels", in_channels)
    check_count("hidden_channels", hidden_channels)
    check_count("out_channels", out_channels)
    check_rate("input_dropout", input_dropout)
    check_rate("dropout", dropout)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
