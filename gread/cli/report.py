"""``gread report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gread.cli.console import err
from gread.cli.options import STORE, Store


def report(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the page goes.")] = Path(
        "report.html"
    ),
    store: Store = STORE,
) -> None:
    """Write all tables and figures from stored runs as one page, which opens without a network."""
    from gread.experiments.report import write_report

    write_report(out, store=store)
    err.print(f"Wrote {out}", highlight=False, soft_wrap=True)
