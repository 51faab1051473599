"""Self-contained HTML page that opens from a file and makes no requests.

The page contains charts and tables as JSON, and the scripts and styles in this folder that draw
them. Data is only parsed as JSON and shown as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape
from importlib import resources
from typing import Any

from gread.report.charts import Chart
from gread.report.tables import TextTable

SHARED_STYLES = ("report/page/theme.css",)
SHARED_SCRIPTS = tuple(
    f"report/page/{name}.js" for name in ("dom", "theme", "scales", "panels", "charts", "tables")
)
"""Scripts of all pages, below ``gread/``, in order of dependency."""


@dataclass(frozen=True)
class Section:
    """An artefact on the page.

    Attributes:
        name: Name of the artefact, and of its anchor on the page.
        shown: The table or chart.
        stored: Number of stored runs.
        needed: Number of all runs of the artefact.
        scale: Scale of the artefact.
        command: Command that computes the missing runs of the paper's protocol.
    """

    name: str
    shown: TextTable | Chart
    stored: int
    needed: int
    scale: str
    command: str

    @property
    def empty(self) -> bool:
        """Whether the artefact has runs and none is stored."""
        return self.needed > 0 and self.stored == 0


def page(sections: Iterable[Section], *, title: str, about: str) -> str:
    """HTML of the page.

    Args:
        sections: Sections in the order of the page.
        title: Title of the page.
        about: Text below the title: content, version and date.

    Example:
        >>> text = page([], title="<Report>", about="nothing in it")
        >>> "&lt;Report&gt;" in text, "<link" in text, "src=" in text
        (True, False, False)
    """
    return bind(
        title=title,
        styles=(*SHARED_STYLES, "report/page/page.css"),
        scripts=(*SHARED_SCRIPTS, "report/page/page.js"),
        data={"title": title, "about": about, "sections": [_plain(part) for part in sections]},
    )


def bind(
    *, title: str, styles: Iterable[str], scripts: Iterable[str], data: Any, served: bool = False
) -> str:
    """Fill the HTML template with styles, scripts and data, as one file.

    Args:
        title: Title of the page.
        styles: CSS files below ``gread/``.
        scripts: JavaScript files below ``gread/``, which share one scope.
        data: Data of the scripts, embedded as JSON.
        served: Whether the page may request data from its server, and nothing else.
    """
    parts = {
        "connect": "'self'" if served else "'none'",
        # Otherwise a browser requests an icon from the server.
        "icon": '<link rel="icon" href="data:,">' if served else "",
        "title": escape(title, quote=False),
        "style": "\n".join(map(_read, styles)),
        "script": "\n".join(map(_read, scripts)),
        # A script element ends at its first end tag, so every "<" is escaped.
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("report/page/page.html"))


def _read(name: str) -> str:
    return resources.files("gread").joinpath(*name.split("/")).read_text("utf-8")


def _plain(section: Section) -> dict[str, Any]:
    if isinstance(section.shown, Chart):
        kind, shown = "chart", json.loads(section.shown.to_json())
    else:
        kind, shown = "table", asdict(section.shown)
    first = {"name": section.name, "kind": kind}
    return {**first, **vars(section), "shown": shown, "empty": section.empty}
