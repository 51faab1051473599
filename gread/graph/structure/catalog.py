"""Registry of structures, with a cache.

A structure is a function from a graph to tensors, keyed by the argument names of the model.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch_geometric.data import Data

from gread.base.lazy import Reference
from gread.base.registry import Registry
from gread.base.tensors import write_tensors
from gread.graph.structure.origin import Origin
from gread.graph.structure.positions import page_rank

Structure: TypeAlias = Callable[[Data, Origin | None], Mapping[str, Tensor]]

# These import SciPy, which most models do not need.
MULTIGRAPH = Reference("gread.graph.structure.multigraph:multigraph")
TWO_HOP = Reference("gread.graph.structure.two_hop:two_steps_away")

STRUCTURES: Registry[Structure] = Registry(
    "structure",
    {
        "multigraph": lambda data, _: MULTIGRAPH(data),
        "positions": lambda data, _: page_rank(data.edge_index, int(data.num_nodes)),
        "relations": Reference("gread.graph.structure.relations:relations"),
        "two-hop": lambda data, _: {"two_hop": TWO_HOP(data.edge_index, int(data.num_nodes))},
    },
)


class Prepared(NamedTuple):
    """A graph with a structure.

    Attributes:
        data: The graph and the tensors of the structure.
        seconds: Time of the original computation.
        entries: Number of values.
    """

    data: Data
    seconds: float
    entries: int


def add_structure(data: Data, name: str, origin: Origin | None = None) -> Prepared:
    """Add the tensors of a structure to a graph.

    Args:
        data: The graph, which is not changed.
        name: A name of `STRUCTURES`.
        origin: Source of the graph; the structure is cached in its data root.
    """
    make = STRUCTURES[name]
    place = None
    if origin is not None:
        place = origin.root / "processed" / f"{name}-{origin.fingerprint}.safetensors"
        kept = _read(place)
        if kept is not None and _names_nodes(kept[0], int(data.num_nodes or 0)):
            return _with(data, *kept)
    start = time.perf_counter()
    tensors = make(data, origin)
    seconds = time.perf_counter() - start
    if place is not None:
        with suppress(OSError):  # a read-only root or a full disk
            # The write is atomic; a concurrent writer replaces the file by the same content.
            write_tensors(place, tensors, {"seconds": str(seconds)})
    return _with(data, tensors, seconds)


def _with(data: Data, tensors: Mapping[str, Tensor], seconds: float) -> Prepared:
    found = copy.copy(data)
    for name, tensor in tensors.items():
        found[name] = tensor
    return Prepared(found, seconds, sum(tensor.numel() for tensor in tensors.values()))


def _read(place: Path) -> tuple[dict[str, Tensor], float] | None:
    try:
        with safe_open(place, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, float((file.metadata() or {})["seconds"])
    except (OSError, SafetensorError, KeyError, ValueError):
        return None


def _names_nodes(tensors: Mapping[str, Tensor], num_nodes: int) -> bool:
    """Whether all pairs refer to existing nodes, which kernels do not check."""
    pairs = [t for t in tensors.values() if t.dim() == 2 and t.size(0) == 2 and t.numel()]
    return all(int(pair.min()) >= 0 and int(pair.max()) < num_nodes for pair in pairs)
