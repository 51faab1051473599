"""Graphs from files, DataFrames, matrices, NetworkX and PyG."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gread.base.errors import InputError
from gread.data.splits import MASKS
from gread.tables.column import Column, column, sparse_vectors, thinned
from gread.tables.formats import read_table
from gread.tables.graph import (
    ENDS,
    IDS,
    Columns,
    Relations,
    TableGraph,
    cleaned,
    from_networkx,
    join,
    read_graph,
    read_nodes,
    read_types,
)
from gread.tables.table import ROW, Table

if TYPE_CHECKING:
    from typing_extensions import Unpack


def as_graph(graph: Any, edges: Any = None, **columns: Unpack[Columns]) -> TableGraph:
    """Convert nodes and edges of any supported kind to a graph.

    Args:
        graph: A PyG ``Data`` or a NetworkX graph, which have edges; or the nodes: a file, a list of
            files with the same rows, a pandas DataFrame, or features as an array, tensor or sparse
            matrix [N, F].
        edges: A file, a DataFrame, a sparse matrix [N, N] whose entry i, j is the edge from i to j,
            or node numbers [2, E]. Numbers refer to rows of the nodes.
        columns: See `gread.tables.graph.Columns`; the index of a DataFrame replaces missing ids.
    """
    if isinstance(graph, TableGraph):
        return graph
    id, weight, edge_type = columns.get("id"), columns.get("weight"), columns.get("edge_type")
    directed = columns.get("directed", False)
    if isinstance(graph, Data) or _is_a("networkx", "Graph", graph):
        if edges is not None:
            raise InputError("edges must be omitted with a graph that contains them")
        if isinstance(graph, Data):
            return _from_data(graph, directed, edge_type)
        return from_networkx(graph, "the graph", weight, directed, edge_type)
    if _are_files(graph) and (edges is None or _is_file(edges)):
        return read_graph(graph, edges, **columns)
    nodes = _node_table(graph, id)
    if _is_file(edges) or _is_frame(edges):
        return join(nodes, _edge_table(edges), **columns)
    _check_untyped(edge_type, edges)
    pairs, weights = _pairs(edges, len(nodes))
    alone = join(nodes, _no_edges(), id=id)
    return cleaned(nodes.name, alone.ids, alone.columns, pairs, weights, directed)


def relations_of(data: Data) -> Relations | None:
    """Typed edges that `with_relations` has stored in a graph; None if there are none."""
    if data.get("relation_index") is None:
        return None
    names = tuple(map(str, range(data.num_relations)))
    return Relations(names, data.relation_index, data.relation_type, data.get("relation_weight"))


def with_relations(data: Data, relations: Relations) -> Data:
    """Store typed edges in a graph, in addition to its edges, if there are several types."""
    if len(relations.names) > 1:
        data.relation_index, data.relation_type = relations.index, relations.kind
        data.num_relations = len(relations.names)
        if relations.weight is not None:
            data.relation_weight = relations.weight
    return data


@dataclass(frozen=True)
class Addition:
    """Nodes and edges to add to a graph.

    Attributes:
        table: Columns of the added nodes.
        ids: Ids of the added nodes.
        edges: Added edges, as a graph with the old nodes followed by the added ones.
    """

    table: Table
    ids: list[Any]
    edges: TableGraph


def as_addition(
    ids: Sequence[Any], nodes: Any, edges: Any = None, **columns: Unpack[Columns]
) -> Addition:
    """Convert nodes and edges to add to a graph.

    Args:
        ids: Ids of the nodes of the graph.
        nodes: Nodes to add, as in `as_graph`, without edges; rows of an array are numbered after
            the nodes of the graph.
        edges: Edges between old or added nodes, as in `as_graph`; by default none.
        columns: As in `as_graph`.
    """
    if isinstance(nodes, Addition):
        return nodes
    if nodes is None or isinstance(nodes, Data | TableGraph) or _is_a("networkx", "Graph", nodes):
        raise InputError(
            "nodes to add must be a file, a DataFrame or features [n, F], and edges a separate "
            f"argument, got {type(nodes).__name__}"
        )
    id = columns.get("id")
    table = _node_table(nodes, id)
    alone = join(table, _no_edges(), id=id)
    known, new = list(ids), alone.ids
    if id is None and not any(name in table.columns for name in IDS if name != ROW):
        new = [len(known) + number for number in new]
    if {type(known[0]), type(new[0])} == {int, str}:  # ids of one are text, of the other numbers
        known, new = list(map(str, known)), list(map(str, new))
    everyone = Table(f"the training graph and {alone.name}", {IDS[0]: column([*known, *new])})
    if edges is not None and not _is_file(edges) and not _is_frame(edges):
        _check_untyped(columns.get("edge_type"), edges)
        whole = join(everyone, _no_edges(), id=IDS[0])
        options = *_pairs(edges, len(everyone)), columns.get("directed", False)
        found = cleaned(whole.name, whole.ids, {}, *options)
    elif edges is None:
        found = join(everyone, _no_edges(), id=IDS[0])
    else:
        columns["id"] = IDS[0]
        found = join(everyone, _edge_table(edges), **columns)
    return Addition(alone.table(), new, found)


def _check_untyped(edge_type: str | None, edges: Any) -> None:
    """Require edges with columns if a column of types is named."""
    if edge_type is not None and edges is not None:
        raise InputError(
            f"edges must be a file or a DataFrame with the column {edge_type!r} of their types, "
            f"got {type(edges).__name__}"
        )


def _is_frame(value: Any) -> bool:
    return _is_a("pandas", "DataFrame", value)


def _no_edges() -> Table:
    return Table("edges", {end: column([]) for end in ENDS[0]})


def _edge_table(edges: Any) -> Table:
    return read_table(edges) if _is_file(edges) else _from_frame("edges", edges)


def _is_file(value: Any) -> bool:
    return isinstance(value, str | Path)


def _are_files(value: Any) -> bool:
    several = isinstance(value, list | tuple) and value and all(map(_is_file, value))
    return bool(_is_file(value) or several)


def _node_table(nodes: Any, id: str | None) -> Table:
    return read_nodes(nodes) if _are_files(nodes) else _nodes(nodes, id)


def column_of(values: Any) -> Column:
    """Convert a list, an array, a tensor or a pandas series to a column."""
    if _is_a("pandas", "Series", values):
        return _from_series(values)
    values = _to_numpy(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        missing = np.isnan(values)
        return column(np.where(missing, 0, values), missing)
    if isinstance(values, np.ndarray | Sequence) and not isinstance(values, str):
        return column([None if value != value else value for value in list(values)])
    raise InputError(f"a column must be a list, an array or a series, got {type(values).__name__}")


def _nodes(nodes: Any, id: str | None) -> Table:
    """A table of the nodes, with a column of ids."""
    if _is_frame(nodes):
        table = _from_frame("nodes", nodes)
        if id is not None or any(name in table.columns for name in IDS):
            return table
        return Table("nodes", {IDS[0]: column(nodes.index.tolist()), **table.columns})
    if scipy.sparse.issparse(nodes):
        rows = column(np.arange(nodes.shape[0]))
        return Table("nodes", {ROW: rows, "x": sparse_vectors(nodes)})
    nodes = _to_numpy(nodes)
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 2:
        raise InputError(
            "a graph must be a PyG Data, a NetworkX graph, a pandas DataFrame, a file, or features "
            f"[N, F], got {type(nodes).__name__}"
        )
    return Table("nodes", {ROW: column(np.arange(len(nodes))), "x": column(nodes)})


def _pairs(edges: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Pairs [2, E] of node numbers, and weights unless all are 1."""
    if edges is None:
        raise InputError(
            "edges must be given with these nodes: a file, a DataFrame, a sparse matrix, or node "
            "numbers [2, E]"
        )
    if scipy.sparse.issparse(edges):
        if edges.shape != (n, n):
            raise InputError(f"edges must be a matrix {[n, n]}, got {list(edges.shape)}")
        entries = edges.tocoo()
        pairs = np.stack([entries.row, entries.col]).astype(np.int64)
        weights = entries.data.astype(np.float32)
        _check_weights(weights)
        return pairs, None if (weights == 1).all() else weights
    found = np.asarray(_to_numpy(edges))
    if found.ndim != 2 or len(found) != 2 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"edges must be node numbers [2, E], got {list(found.shape)}")
    if found.size and not 0 <= found.min() <= found.max() < n:
        wrong = found.min() if found.min() < 0 else found.max()
        raise InputError(f"edges must name nodes 0 to {n - 1}, got node {wrong}")
    return found.astype(np.int64), None


def _check_weights(weights: NDArray[np.float32] | None) -> None:
    """Require finite weights that are not negative."""
    if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("edges must have finite weights, zero or above, got one that is not")


def _from_data(data: Data, directed: bool, edge_type: str | None) -> TableGraph:
    if data.edge_index is None:
        raise InputError("data must have edge_index, got none")
    n = int(data.num_nodes)
    pairs, _ = _pairs(data.edge_index, n)
    weights = None if data.edge_weight is None else _to_numpy(data.edge_weight.float())
    if weights is not None and weights.shape != pairs.shape[1:]:
        raise InputError(
            f"edge_weight must have a weight for each of {pairs.shape[1]} edges, got "
            f"{list(weights.shape)}"
        )
    _check_weights(weights)
    columns = {} if data.x is None else {"x": column(_to_numpy(data.x))}
    types = None
    if edge_type is not None:
        given = data.get(edge_type)
        if not isinstance(given, Tensor) or given.shape != data.edge_index.shape[1:]:
            raise InputError(
                f"edge_type must name a tensor of data with a type for each edge, got {edge_type!r}"
            )
        types = read_types(Table("data", {edge_type: column(given.cpu().numpy())}), edge_type)
    names = [name for name in ("edge_attr", "edge_type") if data.get(name) is not None]
    unused = [name for name in names if name != edge_type]
    return cleaned("data", list(range(n)), columns, pairs, weights, directed, unused, types)


def masks_of_data(data: Data, which: int) -> NDArray[np.int64]:
    """Set of each node from the masks of a ``Data``: 0 to 2, or −1 for none."""
    parts = torch.full((int(data.num_nodes),), -1)
    for part, name in enumerate(MASKS):
        mask = data[name].bool()
        mask = mask.unsqueeze(1) if mask.dim() == 1 else mask
        if type(which) is not int or not 0 <= which < mask.size(1):
            raise InputError(
                f"split must be a whole number from 0 to {mask.size(1) - 1}, got {which!r}"
            )
        parts[mask[:, which]] = part
    return parts.numpy()


def _to_numpy(values: Any) -> Any:
    """An array from a tensor; other values are returned as they are."""
    if not isinstance(values, Tensor):
        return values
    if values.layout is not torch.strided:
        raise InputError("a tensor must be dense, got a sparse one: use .to_dense() or SciPy")
    values = values.detach().cpu()
    return (values.float() if values.dtype is torch.bfloat16 else values).numpy()


def _is_a(package: str, name: str, value: Any) -> bool:
    """Whether an object belongs to a class of an optional package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(value, getattr(module, name))


def _from_frame(name: str, frame: Any) -> Table:
    names = list(map(str, frame.columns))
    if len(set(names)) < len(names):
        twice = next(key for key in names if names.count(key) > 1)
        raise InputError(f"the columns of {name} must have different names, got {twice!r} twice")
    columns = ((str(key), _from_series(frame[key])) for key in frame.columns)
    return Table(name, thinned(columns, frame.size))


def _from_series(series: Any) -> Column:
    """Convert a pandas series; NaN is a missing value."""
    missing = series.isna().to_numpy()
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        values = series.to_numpy()
        return column(np.where(missing, 0, values) if missing.any() else values, missing)
    pairs = zip(series.tolist(), missing, strict=True)
    found = column([None if gone else value for value, gone in pairs])
    return replace(found, categorical=str(series.dtype) == "category")
