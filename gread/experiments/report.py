"""All tables and figures from stored runs, on one page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from gread.base.files import write_text
from gread.base.versions import __version__
from gread.data.files import DataError
from gread.experiments.artefact import SCALES, show, with_all_runs
from gread.experiments.questions import ARTEFACTS
from gread.report.page import Section, page
from gread.report.tables import TextTable
from gread.runs.archive import known_results
from gread.runs.result import Result

ENOUGH = 0.1
"""Share of an artefact's runs below which quick scale is shown, if that has results."""


def write_report(path: str | Path, *, store: str | Path) -> None:
    """Write every table and figure as one HTML page, which needs no network.

    An artefact is shown at full scale. If fewer than a tenth of these runs are stored, it is shown
    at quick scale, if that has stored runs.

    Args:
        path: Path of the page.
        store: Folder of the results; results shipped with the package are used too, see
            `gread.runs.known_results`.

    Example:
        >>> from gread.experiments import write_report
        >>> write_report("report.html", store="runs/store")  # doctest: +SKIP
    """
    known = known_results(store)
    sections = [_section(name, known) for name in sorted(ARTEFACTS, key=_order)]
    about = (
        "Graph neural reaction-diffusion networks (ICML 2023), run again, with the paper’s numbers "
        f"next to ours. Written by gread {__version__} on {date.today():%d %B %Y}."
    )
    write_text(path, page(sections, title="GREAD: every table and figure", about=about))


def _section(name: str, known: Mapping[str, Result]) -> Section:
    artefact = ARTEFACTS[name]
    scale, plan = "full", SCALES["full"](artefact)
    found = plan.stored(known)
    if len(with_all_runs(plan, found)) < ENOUGH * len(plan.specs):  # too few for a figure
        quick = SCALES["quick"](artefact)
        if some := quick.stored(known):
            scale, plan, found = "quick", quick, some
    try:
        shown = show(artefact, plan, found)
    except DataError as error:  # the other artefacts are still shown
        title = name.replace("-", " ").capitalize()
        shown = TextTable(title, (), (), f"Its data is missing: {error}")
    return Section(name, shown, len(found), len(plan.specs), scale, f"gread reproduce {name}")


def _order(name: str) -> tuple[str, int]:
    """Sort key by kind and number; names without a number are last, in order of registration."""
    found = re.fullmatch(r"(\w+)-(\d+)", name)
    return (found[1], int(found[2])) if found else ("~", 0)
