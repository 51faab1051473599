"""Claims of the paper, compared with our results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether our results agree.

    Attributes:
        says: Statement of the paper, as a clause after "that".
        here: Our finding, as a clause.
        holds: Whether our results agree.

    Example:
        >>> print(Claim("A is the best", "B is", holds=False))
        The paper says that A is the best. Our results disagree: B is.
    """

    says: str
    here: str
    holds: bool

    def __str__(self) -> str:
        verdict = "Our results agree" if self.holds else "Our results disagree"
        return f"The paper says that {self.says}. {verdict}: {self.here}."


def noted(note: str, claims: Iterable[Claim]) -> str:
    """A note with a sentence for every claim."""
    return " ".join([note, *map(str, claims)]).strip()


def listed(names: Iterable[str]) -> str:
    """Join names with commas and "and".

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
        ('a, b and c', 'a', 'none')
    """
    *most, last = list(names) or ["none"]
    return f"{', '.join(most)} and {last}" if most else last
