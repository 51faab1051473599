"""Predictions as a file: a row a node, with how sure they are."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from gread.base.errors import InputError
from gread.base.files import whole_file
from gread.estimator.classifier import GraphClassifier

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With what a formula may begin."""


def write_predictions(
    classifier: GraphClassifier, file: str | Path, X: Any = None, edges: Any = None
) -> int:
    """Writes the columns ``id``, ``prediction``, ``confidence`` and ``p_CLASS`` of every class.

    Ids and classes are a stranger's text, and a spreadsheet computes what begins with =, +, - or @:
    such text is written with an apostrophe before it, which tells a spreadsheet that it is text.

    Args:
        classifier: Fitted.
        file: CSV; it appears when it is whole.
        X: A graph, all nodes of which are predicted; by default those nodes of the training graph
            that have no class.
        edges: Its edges, where X has none.

    Returns:
        The number of nodes.
    """
    with whole_file(file) as part:
        if X is None:
            found = classifier.predict_proba()
            chosen = (classifier.data_.y < 0).numpy()
            if not chosen.any():
                raise InputError(
                    "the training graph must have nodes without a class, got none: name a new "
                    "graph, for instance the same files"
                )
            ids = [name for name, wanted in zip(classifier.ids_, chosen, strict=True) if wanted]
            found = found[chosen]
        else:
            graph = classifier.graph(X, edges)
            ids, found = graph.ids, classifier.predict_proba(graph)
        best = found.argmax(axis=1)
        classes = classifier.classes_.tolist()
        with part.open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            writer.writerow(["id", "prediction", "confidence", *(f"p_{name}" for name in classes)])
            named = [_text(name) for name in classes]
            for name, place, row in zip(ids, best.tolist(), np.round(found, 6), strict=True):
                writer.writerow([_text(name), named[place], row[place], *row.tolist()])
    return len(ids)


def _text(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers stay as they are."""
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
