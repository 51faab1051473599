"""Graphs from tables: nodes by their ids, edges as pairs of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress, repeat
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
from gread.tables.labels import Times, read_times
from gread.tables.table import ROW, Table, check_shape

if TYPE_CHECKING:
    from typing_extensions import Unpack

IDS = ("id", "node", "node_id", ROW)
ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
"""Default names of the column of ids, and of the columns of an edge's two ends."""


@dataclass(frozen=True)
class Relations:
    """The edges of a graph with their types; a pair of nodes may have edges of several types.

    Attributes:
        names: The types as text, the one with the most edges first.
        index: [2, E], each edge of each type once in each direction; once in a directed graph.
        kind: [E], index of an edge's type in ``names``.
        weight: [E], if the edges have weights.
    """

    names: tuple[str, ...]
    index: Tensor
    kind: Tensor
    weight: Tensor | None

    def once(self, nodes: int, *, directed: bool) -> Relations:
        """Merge repeated edges by the mean of their weights; add reverses unless ``directed``.

        Each type uses its own copy of the nodes, so that edges of different types stay separate.
        """
        copies = max(1, len(self.names))
        found, weight = _once(
            self.index + nodes * self.kind, self.weight, nodes * copies, directed=directed
        )
        return Relations(self.names, found % nodes, found[0] // nodes, weight)

    def directed(self, nodes: int) -> bool:
        """Whether some edge lacks its reverse of the same type."""
        return self.once(nodes, directed=False).index.size(1) > self.index.size(1)

    def joined(self, other: Relations) -> Relations:
        """Append edges with the same type names; if only one side has weights, the other gets 1."""
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = torch.cat([_weight_of(one) for one in (self, other)])
        index, kind = (
            torch.cat(pair, dim=-1) for pair in ((self.index, other.index), (self.kind, other.kind))
        )
        return Relations(other.names, index, kind, weight)

    def parts(self) -> list[Tensor]:
        """Edges of each type, [2, E]."""
        return [self.index[:, self.kind == place] for place in range(len(self.names))]

    def renamed(self, names: Sequence[str]) -> Relations:
        """Renumber the types by their position in ``names``, which must contain all of them."""
        place = {name: number for number, name in enumerate(names)}
        for name in self.names:
            if name not in place:
                raise InputError(
                    f"edges must have types of the training graph ({_some(list(names))}), got "
                    f"{name!r}"
                )
        places = torch.tensor([place[name] for name in self.names], dtype=torch.int64)
        return Relations(tuple(names), self.index, places[self.kind], self.weight)

    def merged(self, most: int) -> Relations:
        """Merge the rarest types into the last one, so that at most ``most`` remain."""
        if len(self.names) <= most:
            return self
        names = (*self.names[: most - 1], "others")
        return Relations(names, self.index, self.kind.clamp(max=most - 1), self.weight)

    def about(self, most: int) -> str:
        """Sentence about the types; if there are more than ``most``, the rarest are merged."""
        sizes = self.kind.bincount(minlength=len(self.names)).tolist()
        shown = [f"{name} {size:,}" for name, size in zip(self.names, sizes, strict=True)][:most]
        if not self.names:
            return ""
        if len(self.names) == 1:
            return f"All edges have the type {self.names[0]}: types are not used."
        if len(self.names) <= most:
            return f"Edges have {len(self.names)} types: {', '.join(shown)}."
        return (
            f"Edges have {len(self.names)} types: {', '.join(shown[:-1])}; the others count as one."
        )


def _weight_of(edges: Relations) -> Tensor:
    return torch.ones(len(edges.kind)) if edges.weight is None else edges.weight


def _once(
    pairs: Tensor, weight: Tensor | None, nodes: int, *, directed: bool
) -> tuple[Tensor, Tensor | None]:
    """Merge repeated edges by the mean of their weights; add reverses unless ``directed``."""
    options: dict[str, Any] = {"num_nodes": nodes, "reduce": "mean"}
    pairs, weight = coalesce(pairs, weight, **options)
    return (pairs, weight) if directed else to_undirected(pairs, weight, **options)


@dataclass(frozen=True)
class EdgeRows:
    """Edges as given, with their times.

    Attributes:
        pairs: Node indices, [2, E].
        weights, types: [E], if edges have some.
        times: Times of the edges, [E].
    """

    pairs: NDArray[np.int64]
    weights: NDArray[np.float32] | None
    types: Sequence[str] | None
    times: Times


@dataclass(frozen=True)
class TableGraph:
    """A graph whose nodes have ids and columns.

    Attributes:
        edge_index: [2, E], each edge once in each direction; once in a directed graph.
        edge_weight: [E], if the edges have weights.
        loops: Number of self loops that were removed.
        repeated: Number of repeated edges that were merged; a reverse edge is not a repetition.
        unused: Columns of the edges that are not used.
        relations: The edges with their types, if they have some; ``edge_index`` has the edges of
            all types.
        rows: The edges as given, if they have times.
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
    relations: Relations | None = None
    rows: EdgeRows | None = None

    def before(self, time: float) -> TableGraph:
        """The graph of the edges before ``time``; all edges if they have no times."""
        if self.rows is None:
            return self
        rows, keep = self.rows, self.rows.times.values < time
        return cleaned(
            self.name,
            self.ids,
            self.columns,
            rows.pairs[:, keep],
            None if rows.weights is None else rows.weights[keep],
            self.directed,
            self.unused,
            None if rows.types is None else list(compress(rows.types, keep)),
        )

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
        weight: Column of edge weights; in NetworkX, the edge attribute.
        edge_type: Column of edge types; in NetworkX, the edge attribute; in a PyG ``Data``, the
            tensor.
        time_column: Column of times; edge times are used if the edge table has this column.
    """

    id: str | None
    source: str | None
    target: str | None
    weight: str | None
    edge_type: str | None
    time_column: str | None
    directed: bool


Files: TypeAlias = "str | Path | Sequence[str | Path]"
"""One file, or several files with the columns of the same rows."""


def read_nodes(nodes: Files) -> Table:
    r"""Read a node table from one file, or from several with the same nodes in the same order.

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
        nodes: A table with one row per node (CSV, TSV, Parquet, JSON lines, NPZ, libsvm), or
            several as in `read_nodes`; or a GraphML or GML file, which needs no ``edges``.
        edges: A table with one row per edge.
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
    weight, edge_type = columns.pop("weight", None), columns.pop("edge_type", None)
    directed = columns.pop("directed", False)
    columns.pop("time_column", None)  # applies to nodes only
    if any(given is not None for given in (edges, *columns.values())):
        raise InputError(
            f"edges, id, source and target must be omitted with {nodes}, which contains "
            "nodes and edges"
        )
    return from_networkx(_parsed(Path(nodes)), Path(nodes).name, weight, directed, edge_type)


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
    edge_type: str | None = None,
    time_column: str | None = None,
    directed: bool = False,
) -> TableGraph:
    """Join a table of nodes and a table of edges; arguments as in `Columns`.

    Repeated edges are merged by the mean of their weights; self loops are removed.
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
    types = None if edge_type is None else read_types(edges, edge_type)
    used = (*ends, weight, edge_type, time_column)
    unused = [name for name in edges.columns if name not in used]
    graph = cleaned(nodes.name, ids, columns, pairs, weights, directed, unused, types)
    if time_column is None or time_column not in edges.columns:
        return graph
    times = read_times(edges, time_column)
    if times.missing.any():
        row = int(times.missing.argmax()) + 1
        raise InputError(
            f"time column {time_column!r} of {edges.name} must hold the time of every edge, got "
            f"none in row {row}"
        )
    return replace(graph, rows=EdgeRows(pairs, weights, types, times))


def cleaned(
    name: str,
    ids: list[Any],
    columns: Mapping[str, Column],
    pairs: NDArray[np.int64],
    weights: NDArray[np.float32] | None,
    directed: bool,
    unused: Sequence[str] = (),
    types: Sequence[str] | None = None,
) -> TableGraph:
    """Build a graph from pairs [2, E] without self loops and repetitions."""
    n, edge_index = len(ids), torch.from_numpy(np.ascontiguousarray(pairs))
    keep = edge_index[0] != edge_index[1]
    loops, edge_index = int((~keep).sum()), edge_index[:, keep]
    edge_weight = None if weights is None else torch.from_numpy(weights)[keep]
    relations, kept = None, _once(edge_index, None, n, directed=True)[0]
    if types is not None:
        relations = _related(types, edge_index, edge_weight, keep)
        kept = relations.once(n, directed=True).index
        relations = relations.once(n, directed=directed)
    repeated = edge_index.size(1) - kept.size(1)
    edge_index, edge_weight = _once(edge_index, edge_weight, n, directed=directed)
    return TableGraph(
        name,
        ids,
        columns,
        edge_index,
        edge_weight,
        directed,
        loops,
        repeated,
        tuple(unused),
        relations,
    )


def _related(
    types: Sequence[str], edge_index: Tensor, edge_weight: Tensor | None, keep: Tensor
) -> Relations:
    """Relations of the kept edges; ``types`` covers all edges, and ``keep`` masks the kept ones."""
    known = np.array(types, dtype=object)[keep.numpy()]
    names = [name for name, _ in Counter(known.tolist()).most_common()]
    place = {name: number for number, name in enumerate(names)}
    kind = torch.tensor([place[name] for name in known], dtype=torch.int64)
    return Relations(tuple(names), edge_index, kind, edge_weight)


def read_types(edges: Table, name: str) -> list[str]:
    """The types in a column of edges, as text."""
    found = edges[name].dense()
    where = f"column {name!r} of {edges.name}"
    if found.missing.any():
        row = int(found.missing.argmax()) + 1
        raise InputError(f"{where} must hold the type of every edge, got none in row {row}")
    whole = found.kind != "number" or bool((found.values == np.rint(found.values)).all())
    if found.kind in ("vector", "mixed") or not whole:
        raise InputError(
            f"{where} must hold types of edges, as text or whole numbers, got {WORDS[found.kind]}"
        )
    return found.texts()


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
    """Read the ids in a column; all must be present and of one type."""
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
        values = values.astype(np.int64)  # integers that the table stores as floats
    return values.tolist()


def _places(
    edges: Table, end: str, nodes: Table, id: str, place: Mapping[Any, int]
) -> NDArray[np.int64]:
    """Node indices of one end of the edges."""
    names = _ids(edges, end)
    kinds = edges[end].kind, nodes[id].kind
    if kinds == ("whole", "text"):  # ids in a text file that happen to be numbers
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
    with np.errstate(over="ignore"):  # values beyond float32 become infinite
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
    """The first element begins, so the prologue with its declarations has ended."""


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
"""Extensions of files that hold nodes and edges; NetworkX reads them."""


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
    except Exception as error:  # a third-party parser may raise any exception
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path} cannot be read as a graph ({reason})") from error


def from_networkx(
    graph: Any,
    name: str,
    weight: str | None = None,
    directed: bool = False,
    edge_type: str | None = None,
) -> TableGraph:
    """Convert a NetworkX graph; attributes become columns."""
    ids = list(graph)
    if not ids:
        raise InputError(f"{name} must have a node, got none")
    place = {node: number for number, node in enumerate(ids)}
    edges = list(graph.edges(data=True))
    pairs = [[place[edge[end]] for edge in edges] for end in (0, 1)]
    attributes = Table(f"the edges of {name}", {})
    if weight is not None or edge_type is not None:
        attributes = _attributes(attributes.name, [edge[2] for edge in edges])
    weights = None if weight is None else _weights(attributes, weight)
    types = None if edge_type is None else read_types(attributes, edge_type)
    keys = dict.fromkeys(key for edge in edges for key in edge[2])
    unused = [str(key) for key in keys if key not in (weight, edge_type)]
    nodes = _attributes(name, [attributes for _, attributes in graph.nodes(data=True)])
    ends = np.array(pairs, dtype=np.int64)
    return cleaned(name, ids, nodes.columns, ends, weights, directed, unused, types)


def _attributes(name: str, attributes: list[dict[Any, Any]]) -> Table:
    keys = dict.fromkeys(key for found in attributes for key in found)
    try:
        check_shape(len(attributes), len(keys), sum(map(len, attributes)))
    except InputError as error:
        raise InputError(f"{name} cannot be read as a graph: {error}") from error
    return Table(name, {str(k): column([found.get(k) for found in attributes]) for k in keys})
