"""Invalid values for parsers."""

import json
from typing import Any

from hypothesis import strategies as st

WORDS = st.sampled_from(
    [
        *("", " ", "a", "b", "id", "0", "1", "-1", "007", "1e999", "nan", "inf", "NA", "null"),
        *("true", "²", "é", "🂡", "x,y", "--", "%", "%s", "{}", '"', "'", "\\", "__class__"),
        *("=1+1", "[/b]", "[red]", ":cat:", "$x^$", "\\frac", "</script>", "../../x", "9" * 30),
        *("a\nb", "a\tb", "\x1b[2J", "\u202e", "\ud800", "\udcff"),
    ]
)
TEXTS = st.one_of(WORDS, st.text(max_size=6))
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e30, 1e39, 1e-45, -0.0]),
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)

BYTES = st.one_of(
    st.binary(max_size=80),
    st.text(alphabet='id,;"\n\t 01ab[]{}<>:=/!-.', max_size=80).map(str.encode),
)
"""Arbitrary bytes."""

DAMAGE = st.tuples(
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4),
    st.one_of(st.none(), st.none(), st.integers(0, 2**20)),
)
"""Changed bytes of a file, and the length of a truncation."""

CHANGES = st.lists(
    st.tuples(st.integers(0, 2**20), st.one_of(JSON, st.just("DELETE"))), min_size=1, max_size=2
)
"""Replaced values of a JSON document."""


def damaged(content: bytes, damage: tuple[list[tuple[int, int]], int | None]) -> bytes:
    """A file with some bytes changed."""
    found = bytearray(content)
    changes, end = damage
    for place, byte in changes:
        found[place % len(found)] = byte
    return bytes(found if end is None else found[: end % len(found)])


def changed(document: Any, changes: list[tuple[int, Any]]) -> Any:
    """A document with some values replaced or removed."""
    found = json.loads(json.dumps(document))
    for place, value in changes:
        spots = list(_spots(found))
        if not spots:
            return value
        holder, key = spots[place % len(spots)]
        if value == "DELETE":
            del holder[key]
        else:
            holder[key] = value
    return found


def _spots(document: Any) -> Any:
    """Positions of all values: container and key."""
    keys: Any = ()
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = range(len(document))
    for key in keys:
        yield document, key
        yield from _spots(document[key])
