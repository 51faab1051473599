"""Write docs/catalogue.md from the registries (``make docs``)."""

from pathlib import Path

from gread.experiments.catalogue import LISTINGS


def table(rows: list[dict]) -> str:
    """Rows as Markdown; hyperparameters as ``name=default``."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(cell(row[column]) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"`{name}={default!r}`" for name, default in value.items())
    return str(value)


def catalogue() -> str:
    parts = ["# Catalogue", "Written by `make docs` from what is registered; do not edit."]
    for kind, rows in LISTINGS.items():
        parts += [f"## {kind.capitalize()}", rows.__doc__.strip(), table(rows())]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "catalogue.md"
    page.write_text(catalogue(), encoding="utf-8")
