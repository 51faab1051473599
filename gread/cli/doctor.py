"""``gread doctor``."""

from __future__ import annotations

import dataclasses

from rich.table import Table as RichTable

from gread.cli.console import out, print_json
from gread.cli.options import Json


def doctor(as_json: Json = False) -> None:
    """Say what this machine has, what it lacks, and what that costs."""
    from gread.bench.doctor import examine

    findings = examine()
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
        return
    table = RichTable("", "found", "advice")
    for finding in findings:
        table.add_row(finding.subject, finding.found or "missing", finding.advice)
    out.print(table)
