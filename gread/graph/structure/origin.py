"""Source of a graph, which locates its cached structures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Origin(NamedTuple):
    """Source of a graph: its dataset, the data root and a fingerprint of its tensors."""

    dataset: str
    root: Path
    fingerprint: str
