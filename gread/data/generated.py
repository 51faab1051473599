"""Graphs without download: generated ones, digits, and syntax trees of Python."""

from __future__ import annotations

import ast
import platform
import re
import sysconfig
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from gread.base.checks import check_count
from gread.base.errors import InputError
from gread.data.cache import cached
from gread.data.files import PYTHON_AST, data_root, parsed
from gread.data.splits import MASKS, random_splits, with_random_splits
from gread.data.statistics import Statistics, measure
from gread.data.synthetic import preferential_attachment


def digits(neighbours: int = 5, *, num_splits: int = 10, seed: int = 0) -> Data:
    """The 1797 digits of scikit-learn, each joined to its nearest neighbours in pixel space."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    check_count("neighbours", neighbours)
    pixels, labels = load_digits(return_X_y=True)
    if neighbours >= len(pixels):
        raise InputError(f"neighbours must be below {len(pixels)}, the digits, got {neighbours}")
    near = kneighbors_graph(pixels, neighbours).tocoo()
    data = Data(
        x=torch.from_numpy(pixels).float() / 16,
        edge_index=to_undirected(torch.from_numpy(np.stack([near.row, near.col])).long()),
        y=torch.from_numpy(labels).long(),
    )
    return with_random_splits(data, num_splits, seed=seed)


def from_base(
    datasets: Mapping[str, Any],
    root: str | Path | None = None,
    *,
    base: str = "cora",
    homophily: float = 0.5,
    num_classes: int = 5,
    num_nodes: int | None = None,
    edges_per_node: int = 2,
    num_splits: int = 10,
    seed: int = 0,
) -> Data:
    """Generate a graph by `preferential_attachment` from the features of a named dataset."""
    entry = datasets[base]
    if entry is datasets["attachment"]:
        raise InputError("base must be another dataset than attachment")
    source = entry.make(root=root) if entry.stored else entry.make()
    if source.x is None or source.y is None:
        raise InputError(f"base must have features and labels, got {base}")
    return preferential_attachment(
        source,
        homophily,
        num_classes=num_classes,
        num_nodes=num_nodes,
        edges_per_node=edges_per_node,
        num_splits=num_splits,
        seed=seed,
    )


CLASSES: dict[str, tuple[type[ast.AST], ...]] = {
    "context": (ast.expr_context,),
    "operator": (ast.operator, ast.boolop, ast.unaryop, ast.cmpop),
    "name": (ast.Name,),
    "literal": (
        *(ast.Constant, ast.JoinedStr, ast.FormattedValue),
        *(ast.List, ast.Tuple, ast.Set, ast.Dict),
    ),
    "access": (ast.Attribute, ast.Subscript, ast.Slice, ast.Starred),
    "call": (ast.Call, ast.Await, ast.Yield, ast.YieldFrom),
    "definition": (ast.mod, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    "block": (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try),
    "statement": (ast.stmt,),
    "expression": (ast.expr,),
    "argument": (ast.AST,),
}
"""Coarse classes of syntax nodes; a node belongs to the first class that has its type."""

HASHED = 24
"""Number of features that hold the hashed words of a node's identifier."""


def python_ast(root: str | Path | None = None) -> Data:
    """The standard library of the running Python as a graph: half a million nodes, heterophilous.

    Nodes are the syntax nodes of the library's top-level modules. Edges join a node to its parent.
    Features are the node's position in the tree and the hashed words of its identifier. Classes are
    the node types of `CLASSES`. Splits assign whole modules to one set.
    """
    data = cached(data_root(root) / parsed(PYTHON_AST), _parse_library)
    data.python_version = platform.python_version()
    return data


def _parse_library() -> tuple[Data, Statistics]:
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    rows: list[tuple[tuple[int, ...], str, int, int]] = []
    module_of: list[int] = []
    for number, module in enumerate(modules):
        offset = len(rows)
        for place, identifier, label, parent in _syntax_nodes(ast.parse(module.read_bytes())):
            rows.append((place, identifier, label, parent + offset if parent >= 0 else -1))
            module_of.append(number)
    places, words, labels, parents = zip(*rows, strict=True)
    parent_of = np.array(parents)
    child = np.flatnonzero(parent_of >= 0)
    edges = torch.from_numpy(np.stack([child, parent_of[child]]))
    x = np.concatenate([np.log1p(np.array(places, dtype=np.float32)), _hashed(words)], axis=1)
    # Split modules, not nodes, so all nodes of a module are in one set.
    one_stratum = torch.zeros(len(modules), dtype=torch.int64)
    masks = (part[module_of] for part in random_splits(one_stratum))
    data = Data(
        x=torch.from_numpy(x),
        edge_index=to_undirected(edges, num_nodes=len(rows)),
        y=torch.tensor(labels),
        **dict(zip(MASKS, masks, strict=True)),
    )
    return data, measure(data)


def _syntax_nodes(tree: ast.AST) -> Iterator[tuple[tuple[int, ...], str, int, int]]:
    """Position in the tree, identifier, class and parent of every node, parents first."""
    labels: dict[type[ast.AST], int] = {}
    queue: list[tuple[ast.AST, int, int, int]] = [(tree, -1, 0, 0)]
    for number, (node, parent, depth, rank) in enumerate(queue):  # the queue grows during the loop
        children = list(ast.iter_child_nodes(node))
        queue.extend((child, number, depth + 1, i) for i, child in enumerate(children))
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        column = getattr(node, "col_offset", 0)
        width = getattr(node, "end_col_offset", 0) - column if first == last else 0
        place = (depth, rank, len(children), last - first, column, max(width, 0))
        if (kind := type(node)) not in labels:
            classes = enumerate(CLASSES.values())
            labels[kind] = next(i for i, types in classes if issubclass(kind, types))
        yield place, _identifier(node), labels[kind], parent


def _identifier(node: ast.AST) -> str:
    """The identifier of a syntax node, independent of its type."""
    for attribute in ("id", "attr", "name", "arg", "module"):
        value = getattr(node, attribute, None)
        if isinstance(value, str):
            return value
    return ""


def _hashed(identifiers: Sequence[str]) -> np.ndarray:
    """Counts of the hashed words of each identifier, [N, HASHED]."""
    counts = np.zeros((len(identifiers), HASHED), dtype=np.float32)
    for row, identifier in enumerate(identifiers):
        for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", identifier):
            counts[row, zlib.crc32(word.lower().encode()) % HASHED] += 1
    return counts
