"""The reaction terms r(H) of Eq. (10), each a function of the state at one instant.

A new one is a function under ``@REACTIONS.register("name")``, or an ``nn.Module`` class with
parameters, which is built with the number of channels. Lists, tests and documentation follow
the registry; ``gread.GREAD(..., reaction=...)`` takes a name, a function or a module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from torch import Tensor, nn

from gread.adjacency import Adjacency
from gread.inputs import InputError
from gread.registry import Registry


class State(NamedTuple):
    """What a reaction sees."""

    h: Tensor
    """H(t), [N, d]."""
    h0: Tensor
    """H(0), [N, d]."""
    lh: Tensor
    """L̃ H(t), [N, d], which the diffusion has computed already."""
    adj: Adjacency
    """Ã, for further products ``adj @ ...``."""


Reaction: TypeAlias = Callable[[State], Tensor]
REACTIONS: Registry[Reaction | type[nn.Module]] = Registry("reaction")


@REACTIONS.register("bs")
def blurring_sharpening(s: State) -> Tensor:
    """r(H) = (Ã − Ã²) H = Ã L̃ H.

    Blurring-sharpening (BS). Paper: Eq. (10), derived in Eqs. (11) to (14). The second form costs
    one product; Ã² is never formed.
    """
    return s.adj @ s.lh


@REACTIONS.register("f")
def fisher(s: State) -> Tensor:
    """r(H) = H ⊙ (1 − H).

    Fisher (F), the spread of a population. Paper: Eq. (10).
    """
    return s.h * (1 - s.h)


@REACTIONS.register("ac")
def allen_cahn(s: State) -> Tensor:
    """r(H) = H ⊙ (1 − H²), powers by element.

    Allen-Cahn (AC), the separation of phases. Paper: Eq. (10).
    """
    return s.h * (1 - s.h.square())


@REACTIONS.register("z")
def zeldovich(s: State) -> Tensor:
    """r(H) = H ⊙ (H − H²), powers by element.

    Zeldovich (Z), combustion. Paper: Eq. (10).
    """
    return s.h * (s.h - s.h.square())


@REACTIONS.register("st")
def source_term(s: State) -> Tensor:
    """r(H) = H(0).

    Source term (ST). Paper: Eq. (10).
    """
    return s.h0


@REACTIONS.register("fb")
def filter_bank(s: State) -> Tensor:
    """r(H) = L̃ H.

    Filter bank (FB), a high-pass beside the low-pass. Paper: Eq. (10).
    """
    return s.lh


@REACTIONS.register("fb*")
def filter_bank_star(s: State) -> Tensor:
    """r(H) = L̃ H + H.

    Filter bank with the identity channel (FB*). Paper: Eq. (10).
    """
    return s.lh + s.h


def build_reaction(reaction: str | Reaction | type[nn.Module], channels: int) -> Reaction:
    """The function behind a name, a class of modules, or a reaction passed as it is."""
    found = REACTIONS[reaction] if isinstance(reaction, str) else reaction
    if isinstance(found, type):
        return found(channels)
    if not callable(found):
        raise InputError(f"reaction must be a name or a function of the state, got {found!r}")
    return found
