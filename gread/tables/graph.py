"""Graphs from tables: nodes by their ids, edges as pairs of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict
from xml.parsers import expat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from gread.base.errors import InputError
from gread.base.memory import check_fits
from gread.tables.column import WORDS, Column, column
from gread.tables.formats import check_file, read_table
from gread.tables.table import ROW, Table, check_shape

if TYPE_CHECKING:
    from typing_extensions import Unpack

IDS = ("id", "node", "node_id", ROW)
ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
"""Default names of the column of ids, and of the columns of an edge's two ends."""


@dataclass(frozen=True)
class TableGraph:
    """A graph whose nodes have ids and columns.

    Attributes:
        edge_index: [2, E], each edge once in each direction; of a directed graph, once.
        edge_weight: [E], if the edges have weights.
        loops: How many edges from a node to itself were left out.
        repeated: How many edges were named before, those in the other direction not counted.
        unused: Columns of the edges that are not used, such as types.
    """

    name: str
    ids: list[Any]
    columns: Mapping[str, Column]
    edge_index: Tensor
    edge_weight: Tensor | None
    directed: bool
    loops: int
    repeated: int
    unused: tuple[str, ...] = ()

    @property
    def num_nodes(self) -> int:
        """Number N of nodes."""
        return len(self.ids)

    @property
    def num_edges(self) -> int:
        """Number of edges; an undirected edge counts once."""
        return self.edge_index.size(1) // (1 if self.directed else 2)

    def table(self) -> Table:
        """The table of nodes."""
        return Table(self.name, self.columns)


class Columns(TypedDict, total=False):
    """Keyword arguments that name the columns of a graph.

    Attributes:
        id: Column of the node ids; by default one of `IDS`.
        source, target: Columns of the ids of an edge's ends; by default as in `ENDS`, or the only
            two columns.
        weight: Column, or attribute in NetworkX, of the edges' weights.
    """

    id: str | None
    source: str | None
    target: str | None
    weight: str | None
    directed: bool


Files: TypeAlias = "str | Path | Sequence[str | Path]"
"""A file, or several whose columns are put side by side."""


def read_nodes(nodes: Files) -> Table:
    r"""Read one file, or several whose rows belong to the same nodes.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.csv").write_text("id,kind\nn1,x\nn2,y\n")
        >>> _ = (folder / "b.svm").write_text("0 3:1\n0 1:2\n")
        >>> list(read_nodes([folder / "a.csv", folder / "b.svm"]).columns)
        ['id', 'kind', 'label', 'x']
    """
    tables = [read_table(nodes)] if isinstance(nodes, str | Path) else list(map(read_table, nodes))
    if len(tables) == 1:
        return tables[0]
    name = " and ".join(table.name for table in tables)
    if len({len(table) for table in tables}) > 1:
        sizes = ", ".join(f"{table.name} {len(table):,}" for table in tables)
        raise InputError(f"files of nodes must have as many rows as each other, got {sizes}")
    columns: dict[str, Column] = {}
    numbered = all(ROW in table.columns for table in tables)
    for table in tables:
        for key, found in table.columns.items():
            if key in columns and key != ROW:
                raise InputError(f"a column must be in one of {name}, got {key!r} in several")
            if key != ROW or numbered:
                columns[key] = found
    return Table(name, columns)


def read_graph(
    nodes: Files, edges: str | Path | None = None, **columns: Unpack[Columns]
) -> TableGraph:
    """Read a graph from two files, or from one with nodes and edges.

    Args:
        nodes: A table with a row a node (CSV, TSV, Parquet, JSON lines, NPZ, libsvm), or several as
            in `read_nodes`; or a GraphML or GML file, which needs no ``edges``.
        edges: A table with a row an edge.
        columns: As in `Columns`.
    """
    if not isinstance(nodes, str | Path) and len(nodes) == 1:
        nodes = nodes[0]
    if not isinstance(nodes, str | Path) or Path(nodes).suffix.lower() not in GRAPHS:
        if edges is None:
            raise InputError(
                f"edges must be given with {_path(nodes)}: a file of nodes is not a graph "
                f"({', '.join(GRAPHS)} hold both)"
            )
        return join(read_nodes(nodes), read_table(edges), **columns)
    weight, directed = columns.pop("weight", None), columns.pop("directed", False)
    if any(given is not None for given in (edges, *columns.values())):
        raise InputError(
            f"edges, id, source and target must be omitted with {nodes}, which contains its nodes "
            "and edges itself"
        )
    return from_networkx(_parsed(Path(nodes)), Path(nodes).name, weight, directed)


def _path(nodes: Files) -> str:
    """Names of files in a sentence."""
    return str(nodes) if isinstance(nodes, str | Path) else " and ".join(map(str, nodes))


def join(
    nodes: Table,
    edges: Table,
    *,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
) -> TableGraph:
    """Join a table of nodes and a table of edges; arguments as in `Columns`.

    Repeated edges count once, with the mean of their weights; loops are left out.
    """
    id = _id_column(nodes, id)
    ids = _ids(nodes, id)
    if not len(ids):
        raise InputError(f"{nodes.name} must have a node, got no rows")
    place = {name: number for number, name in enumerate(ids)}
    if len(place) < len(ids):
        twice = [name for number, name in enumerate(ids) if place[name] != number]
        raise InputError(
            f"node ids must be unique, got {len(twice)} repeated in {nodes.name}: {_some(twice)}"
        )
    ends = _end_columns(edges, source, target)
    pairs = np.stack([_places(edges, end, nodes, id, place) for end in ends])
    weights = None if weight is None else _weights(edges, weight)
    columns = {name: values for name, values in nodes.columns.items() if name != id}
    unused = [name for name in edges.columns if name not in (*ends, weight)]
    return cleaned(nodes.name, ids, columns, pairs, weights, directed, unused)


def cleaned(
    name: str,
    ids: list[Any],
    columns: Mapping[str, Column],
    pairs: NDArray[np.int64],
    weights: NDArray[np.float32] | None,
    directed: bool,
    unused: Sequence[str] = (),
) -> TableGraph:
    """Build a graph from pairs [2, E] without self loops and repetitions."""
    edge_index = torch.from_numpy(np.ascontiguousarray(pairs))
    keep = edge_index[0] != edge_index[1]
    kept = int(keep.sum())
    edge_weight = None if weights is None else torch.from_numpy(weights)[keep]
    options: dict[str, Any] = {"num_nodes": len(ids), "reduce": "mean"}
    edge_index, edge_weight = coalesce(edge_index[:, keep], edge_weight, **options)
    repeated = kept - edge_index.size(1)
    if not directed:
        edge_index, edge_weight = to_undirected(edge_index, edge_weight, **options)
    loops = len(keep) - kept
    return TableGraph(
        name, ids, columns, edge_index, edge_weight, directed, loops, repeated, tuple(unused)
    )


def _id_column(nodes: Table, id: str | None) -> str:
    if id is not None:
        nodes[id]  # a misspelt name fails here
        return id
    for name in IDS:
        if name in nodes.columns:
            return name
    raise InputError(
        f"id must name the column of the node ids in {nodes.name}, which has none of "
        f"{', '.join(IDS[:-1])} but: {', '.join(list(nodes.columns)[:20]) or 'no columns'}"
    )


def _end_columns(edges: Table, source: str | None, target: str | None) -> tuple[str, str]:
    pairs = [*ENDS, *([tuple(edges.columns)] if len(edges.columns) == 2 else [])]
    known = next((pair for pair in pairs if set(pair) <= set(edges.columns)), None)
    for name in (source, target):
        if name is not None:
            edges[name]  # a misspelt name fails here
    if known is None and (source is None or target is None):
        raise InputError(
            f"source and target must name the columns of the edges' ends in {edges.name}, which "
            f"has: {', '.join(list(edges.columns)[:20]) or 'no columns'}"
        )
    default = known or ("", "")
    return source or default[0], target or default[1]


def _ids(table: Table, name: str) -> list[Any]:
    """The ids in a column, which must all be there and of one type."""
    found = table[name]
    if found.missing.any():
        row = int(found.missing.argmax()) + 1
        raise InputError(f"column {name!r} of {table.name} must hold ids, got none in row {row}")
    if found.kind == "mixed":
        types = sorted({type(value).__name__ for value in found.values})
        raise InputError(
            f"ids must be of one type, got {' and '.join(types)} in column {name!r} of {table.name}"
        )
    if found.kind == "vector" or found.unusable().any():
        raise InputError(
            f"column {name!r} of {table.name} must hold ids, got "
            f"{'lists' if found.kind == 'vector' else 'NaN or infinity'}"
        )
    values = found.values
    if found.kind == "number" and (values == np.rint(values)).all() and (abs(values) < 2**53).all():
        values = values.astype(np.int64)  # whole numbers, as tables with a gap keep them
    return values.tolist()


def _places(
    edges: Table, end: str, nodes: Table, id: str, place: Mapping[Any, int]
) -> NDArray[np.int64]:
    """The numbers of the nodes that one end of the edges names."""
    names = _ids(edges, end)
    kinds = edges[end].kind, nodes[id].kind
    if kinds == ("whole", "text"):  # a file of text where these happen to be numbers
        names = list(map(str, names))
    elif kinds == ("text", "whole"):
        place = {str(name): number for name, number in place.items()}
    elif "text" in kinds and kinds[0] != kinds[1] and names:
        raise InputError(
            f"ids must be of one type, got {WORDS[kinds[1]]} in column {id!r} of {nodes.name} and "
            f"{WORDS[kinds[0]]} in column {end!r} of {edges.name}"
        )
    found = np.fromiter(map(place.get, names, repeat(-1)), np.int64, len(names))
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        some = dict.fromkeys(names[row] for row in unknown)
        raise InputError(
            f"every edge must join nodes of {nodes.name}, got {len(unknown)} edges in "
            f"{edges.name} whose {end!r} is none of them: {_some(list(some))}"
        )
    return found


def _weights(edges: Table, name: str) -> NDArray[np.float32]:
    found = edges[name]
    if found.kind not in ("whole", "number", "truth"):
        wrong = next((value for value in found.values if not _is_number(value)), "a list")
        raise InputError(
            f"column {name!r} of {edges.name} must hold numbers, got {WORDS[found.kind]}, such as "
            f"{wrong!r}"
        )
    values = found.values.astype(np.float64)
    with np.errstate(over="ignore"):  # what is beyond float32 is infinite there
        weights = values.astype(np.float32)
    bad = found.missing | ~np.isfinite(weights) | (values < 0)
    if bad.any():
        row = int(bad.argmax())
        what = "none" if found.missing[row] else f"{values[row]:g}"
        raise InputError(
            f"column {name!r} of {edges.name} must hold finite weights, zero or above, got {what} "
            f"in row {row + 1}"
        )
    return weights


def _some(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


class _Prologue(Exception):
    """The first element begins: what a document may declare lies before it."""


def _check_prologue(path: Path) -> None:
    """Require XML without declarations, since entities may expand to gigabytes or read files."""

    def refuse(*_: Any) -> None:
        raise InputError("it must not declare a document type, got one: remove <!DOCTYPE ...>")

    def end(*_: Any) -> None:
        raise _Prologue

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = end
    with path.open("rb") as file, suppress(_Prologue):
        parser.ParseFile(file)


GRAPHS = (".graphml", ".gml")
"""Endings of files that hold nodes and edges; NetworkX reads them."""


def _parsed(path: Path) -> Any:
    import networkx

    check_file(path)
    check_fits(path, 20)
    try:
        if path.suffix.lower() == ".gml":
            return networkx.read_gml(path, label="id")
        _check_prologue(path)
        return networkx.read_graphml(path)
    except OSError:
        raise
    except Exception as error:  # a parser of others fails in its own ways
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path} cannot be read as a graph ({reason})") from error


def from_networkx(graph: Any, name: str, weight: str | None, directed: bool) -> TableGraph:
    """Convert a NetworkX graph; attributes become columns."""
    ids = list(graph)
    if not ids:
        raise InputError(f"{name} must have a node, got none")
    place = {node: number for number, node in enumerate(ids)}
    edges = list(graph.edges(data=True))
    pairs = [[place[edge[end]] for edge in edges] for end in (0, 1)]
    weights = None if weight is None else _weights(_attributes(name, [e[2] for e in edges]), weight)
    unused = [name for name in dict.fromkeys(key for e in edges for key in e[2]) if name != weight]
    nodes = _attributes(name, [attributes for _, attributes in graph.nodes(data=True)])
    ends = np.array(pairs, dtype=np.int64)
    return cleaned(name, ids, nodes.columns, ends, weights, directed, list(map(str, unused)))


def _attributes(name: str, attributes: list[dict[Any, Any]]) -> Table:
    keys = dict.fromkeys(key for found in attributes for key in found)
    try:
        check_shape(len(attributes), len(keys), sum(map(len, attributes)))
    except InputError as error:
        raise InputError(f"{name} cannot be read as a graph: {error}") from error
    return Table(name, {str(k): column([found.get(k) for found in attributes]) for k in keys})
