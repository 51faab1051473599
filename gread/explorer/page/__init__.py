"""The page of the explorer, as one HTML text that is served or written to a file.

The page integrates the equation in JavaScript. It receives reactions and solvers as numbers from
the registries, so each is defined in one place, and its menus include those that a user registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gread.base.versions import __version__
from gread.dynamics.reactions import REACTIONS, Terms
from gread.dynamics.tableau import SOLVERS, Tableau
from gread.report.page import SHARED_SCRIPTS, SHARED_STYLES, bind

SCRIPTS = tuple(
    f"explorer/page/{name}.js"
    for name in (
        *("operator", "integrate", "stability", "graphs", "starts", "files", "simulation"),
        *("draw", "state", "controls", "scenes", "measures", "playground"),
        *("model", "leaderboard", "explorer"),
    )
)
"""Paths relative to ``gread/``, in the order in which the scripts depend on each other."""


def page(
    leaderboard: Mapping[str, Any],
    *,
    portraits: Sequence[Mapping[str, Any]] = (),
    runs: Sequence[Mapping[str, Any]] = (),
    served: bool = False,
) -> str:
    """Build the page.

    Args:
        leaderboard: Output of `gread.explorer.leaderboard`.
        portraits: Trained models, as returned by `gread.explorer.portrait`.
        runs: Stored runs that the server can train again.
        served: Whether a server trains these runs on request.

    Example:
        >>> text = page({"rows": [], "datasets": [], "note": ""})
        >>> "Blurring-sharpening" in text, "src=" in text
        (True, False)
    """
    return bind(
        title="GREAD explorer",
        styles=(*SHARED_STYLES, "explorer/page/explorer.css"),
        scripts=(*SHARED_SCRIPTS, *SCRIPTS),
        data={
            "version": __version__,
            "reactions": reactions(),
            "solvers": solvers(),
            "leaderboard": leaderboard,
            "portraits": list(portraits),
            "runs": list(runs),
            "served": served,
        },
        served=served,
    )


def reactions() -> list[dict[str, Any]]:
    """Reactions that are defined by numbers (`gread.dynamics.reactions.Terms`).

    Example:
        >>> [found["title"] for found in reactions()][:2]
        ['Blurring-sharpening (BS)', 'Fisher (F)']
    """
    found = []
    for name, reaction in REACTIONS.items():
        terms: Terms | None = getattr(reaction, "terms", None)
        if terms is not None:
            formula, _, about = (reaction.__doc__ or "").partition("\n")
            found.append(
                {
                    "name": name,
                    "title": about.strip().split(".")[0].split(",")[0] or name,
                    "formula": formula.removeprefix("r(H) = ").split(",")[0].rstrip("."),
                    "terms": {key: float(value) for key, value in terms._asdict().items()},
                }
            )
    return found


def solvers() -> list[dict[str, Any]]:
    """Runge-Kutta tables of the fixed-step solvers."""
    return [
        {"name": name, "title": solver.title, "a": solver.a, "b": solver.b}
        for name, solver in SOLVERS.items()
        if isinstance(solver, Tableau)
    ]
