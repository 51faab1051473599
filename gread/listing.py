"""Tables of what is registered, for the command line and the documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gread.models import MODELS
from gread.ode import SOLVERS, Tableau
from gread.reactions import REACTIONS
from gread.registry import Registry

Row = dict[str, Any]
LISTINGS: Registry[Callable[[], list[Row]]] = Registry("list")


@LISTINGS.register("reactions")
def reactions() -> list[Row]:
    """The reaction terms r(H): the first lines of their docstrings."""
    rows = []
    for name, reaction in REACTIONS.items():
        equation, _, rest = (inspect.getdoc(reaction) or "").partition("\n")
        about = " ".join(rest.split()).partition(". ")[0]
        rows.append({"name": name, "equation": equation.rstrip("."), "about": about.rstrip(".")})
    return rows


@LISTINGS.register("solvers")
def solvers() -> list[Row]:
    """The solvers, their order, and what a step costs."""
    return [
        {
            "name": name,
            "title": solver.title,
            "order": solver.order,
            "evaluations a step": solver.stages if isinstance(solver, Tableau) else "adaptive",
        }
        for name, solver in SOLVERS.items()
    ]


@LISTINGS.register("models")
def models() -> list[Row]:
    """The models, and the hyperparameters each takes with their defaults."""
    return [
        {
            "name": name,
            "title": entry.title,
            "group": entry.group,
            "reference": entry.reference,
            "hyperparameters": entry.hyperparameters,
        }
        for name, entry in MODELS.items()
    ]
