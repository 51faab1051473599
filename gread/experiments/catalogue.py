"""Tables of the registered names, for the command line and the documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from gread.base.registry import Registry
from gread.data.catalog import DATASETS
from gread.dynamics.reactions import REACTIONS
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.models.catalog import MODELS

Row: TypeAlias = dict[str, Any]
LISTINGS: Registry[Callable[[], list[Row]]] = Registry("list")


def catalogue(kind: str) -> list[Row]:
    """List the reactions, solvers, models or datasets that are registered.

    Args:
        kind: A name of `LISTINGS`.

    Returns:
        A row for each name; all rows have the same keys, and the first is ``"name"``.

    Example:
        >>> from gread.experiments import catalogue
        >>> [row["name"] for row in catalogue("reactions")]
        ['bs', 'f', 'ac', 'z', 'st', 'fb', 'fb*']
    """
    return LISTINGS[kind]()


@LISTINGS.register("reactions")
def reactions() -> list[Row]:
    """The reaction terms r(H): equation and first sentence from their docstrings."""
    rows = []
    for name, reaction in REACTIONS.items():
        equation, _, rest = (inspect.getdoc(reaction) or "").partition("\n")
        about = " ".join(rest.split()).partition(". ")[0]
        rows.append({"name": name, "equation": equation.rstrip("."), "about": about.rstrip(".")})
    return rows


@LISTINGS.register("solvers")
def solvers() -> list[Row]:
    """The solvers, their order, and their evaluations per step."""
    return [
        {
            "name": name,
            "title": solver.title,
            "order": solver.order,
            "evaluations per step": solver.stages if isinstance(solver, Tableau) else "adaptive",
        }
        for name, solver in SOLVERS.items()
    ]


@LISTINGS.register("models")
def models() -> list[Row]:
    """The models, and their hyperparameters with defaults."""
    return [
        {
            "name": name,
            "title": entry.title,
            "group": entry.group,
            "reference": entry.reference,
            "year": entry.year or "",
            "continuous": "yes" if entry.continuous else "no",
            "reaction": "yes" if entry.reaction else "no",
            "hyperparameters": entry.hyperparameters,
        }
        for name, entry in MODELS.items()
    ]


@LISTINGS.register("datasets")
def datasets() -> list[Row]:
    """The datasets; ``gread datasets`` shows their statistics."""
    return [
        {"name": name, "title": entry.title, "citation": entry.citation, "licence": entry.licence}
        for name, entry in DATASETS.items()
    ]
