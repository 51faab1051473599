"""Where a graph comes from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Origin(NamedTuple):
    """Where a graph comes from.

    Attributes:
        dataset: Its name.
        root: The data root.
        fingerprint: Of its tensors.
    """

    dataset: str
    root: Path
    fingerprint: str
