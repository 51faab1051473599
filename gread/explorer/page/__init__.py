"""The explorer's page, as one text: what is served, and what is written to a file.

The page computes for itself. Reactions and solvers are handed to it as numbers from the registries,
so that there is one place that says what they are, and one that a user registers is in its menu.
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
"""Below ``gread/``, in the order in which they need each other."""


def page(
    leaderboard: Mapping[str, Any],
    *,
    portraits: Sequence[Mapping[str, Any]] = (),
    runs: Sequence[Mapping[str, Any]] = (),
    served: bool = False,
) -> str:
    """The page.

    Args:
        leaderboard: Of `gread.explorer.leaderboard`.
        portraits: Trained models, of `gread.explorer.portrait`.
        runs: Stored runs that the server can train again.
        served: Whether there is a server to ask for them.

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
    """Tables of the solvers with fixed steps."""
    return [
        {"name": name, "title": solver.title, "a": solver.a, "b": solver.b}
        for name, solver in SOLVERS.items()
        if isinstance(solver, Tableau)
    ]
