"""Reaction terms r(H) of Eq. (10), each a function of the state at one time.

A new reaction is a function decorated with ``@REACTIONS.register("name")``, or an ``nn.Module``
class with parameters whose constructor takes the number of channels. Lists, tests and documentation
iterate over the registry. ``gread.GREAD(..., reaction=...)`` accepts a name, a function or a
module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from gread.base.errors import InputError
from gread.base.registry import Registry

if TYPE_CHECKING:  # names are listed without importing torch
    from torch import Tensor, nn

    from gread.graph.operator import Operator


class State(NamedTuple):
    """The argument of a reaction: the state at one time, and the operator.

    Example:
        >>> import gread
        >>> def decay(s: gread.State):
        ...     return s.h0 - s.h
        >>> gread.GREAD(4, 8, 2, reaction=decay).layer.terms is None
        True
    """

    h: Tensor
    """H(t), [N, d]."""
    h0: Tensor
    """H(0), [N, d]."""
    lh: Tensor
    """L̃ H(t), [N, d], already computed for the diffusion."""
    adj: Operator
    """Ã, for further products ``adj @ ...``."""


class Terms(NamedTuple):
    """Coefficients of a reaction: p₀ H(0) + p₁ H + p₂ H² + p₃ H³ + q L̃ H + s Ã L̃ H.

    All reactions of the paper have this form. With it, `gread.dynamics` integrates without calling
    the function.
    """

    source: float = 0.0
    """p₀, the coefficient of H(0)."""
    linear: float = 0.0
    """p₁, the coefficient of H."""
    square: float = 0.0
    """p₂, the coefficient of H²."""
    cube: float = 0.0
    """p₃, the coefficient of H³."""
    laplacian: float = 0.0
    """q, the coefficient of L̃ H."""
    blurred: float = 0.0
    """s, the coefficient of Ã L̃ H."""


Reaction: TypeAlias = "Callable[[State], Tensor]"
F = TypeVar("F", bound=Reaction)


def made_of(terms: Terms) -> Callable[[F], F]:
    """Decorator that declares the terms of a reaction."""

    def decorate(reaction: F) -> F:
        reaction.terms = terms  # type: ignore[attr-defined]
        return reaction

    return decorate


def terms_of(reaction: Reaction | None) -> Terms | None:
    """Terms of a reaction; None if it is not a polynomial of the known terms."""
    return Terms() if reaction is None else getattr(reaction, "terms", None)


REACTIONS: Registry[Reaction | type[nn.Module]] = Registry("reaction")
"""Reactions r(H) by name: functions of a `State`, or ``nn.Module`` classes."""


@REACTIONS.register("bs")
@made_of(Terms(blurred=1))
def blurring_sharpening(s: State) -> Tensor:
    """r(H) = (Ã − Ã²) H = Ã L̃ H.

    Blurring-sharpening (BS). Paper: Eq. (10), derived in Eqs. (11) to (14). The second form costs
    one product; Ã² is never formed.
    """
    return s.adj @ s.lh


@REACTIONS.register("f")
@made_of(Terms(linear=1, square=-1))
def fisher(s: State) -> Tensor:
    """r(H) = H ⊙ (1 − H).

    Fisher (F), the spread of a population. Paper: Eq. (10).
    """
    return s.h * (1 - s.h)


@REACTIONS.register("ac")
@made_of(Terms(linear=1, cube=-1))
def allen_cahn(s: State) -> Tensor:
    """r(H) = H ⊙ (1 − H²), with elementwise powers.

    Allen-Cahn (AC), the separation of phases. Paper: Eq. (10).
    """
    return s.h * (1 - s.h.square())


@REACTIONS.register("z")
@made_of(Terms(square=1, cube=-1))
def zeldovich(s: State) -> Tensor:
    """r(H) = H ⊙ (H − H²), with elementwise powers.

    Zeldovich (Z), combustion. Paper: Eq. (10).
    """
    return s.h * (s.h - s.h.square())


@REACTIONS.register("st")
@made_of(Terms(source=1))
def source_term(s: State) -> Tensor:
    """r(H) = H(0).

    Source term (ST). Paper: Eq. (10).
    """
    return s.h0


@REACTIONS.register("fb")
@made_of(Terms(laplacian=1))
def filter_bank(s: State) -> Tensor:
    """r(H) = L̃ H.

    Filter bank (FB): a high-pass filter next to the low-pass filter of diffusion. Paper: Eq. (10).
    """
    return s.lh


@REACTIONS.register("fb*")
@made_of(Terms(laplacian=1, linear=1))
def filter_bank_star(s: State) -> Tensor:
    """r(H) = L̃ H + H.

    Filter bank with the identity channel (FB*). Paper: Eq. (10).
    """
    return s.lh + s.h


def build_reaction(reaction: str | Reaction | type[nn.Module], channels: int) -> Reaction:
    """Build a reaction from a name, a function or a module."""
    found = REACTIONS[reaction] if isinstance(reaction, str) else reaction
    if isinstance(found, type):
        return found(channels)
    if not callable(found):
        raise InputError(f"reaction must be a name or a function of the state, got {found!r}")
    return found
