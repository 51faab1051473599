"""Tables as values, written as Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gread.report.claims import Claim, noted

MARKDOWN = {None: "{}", 1: "**{}**", 2: "*{}*", 3: "<u>{}</u>"}
LATEX = {None: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}", 3: r"\textit{{{}}}"}

SAFE = {
    **{letter: f"\\{letter}" for letter in "%&_#"},
    **{"±": r"$\pm$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$", "≠": r"$\neq$"},
    **{"∗": r"$^\ast$", "†": r"$^\dagger$", "α": r"$\alpha$", "β": r"$\beta$", "τ": r"$\tau$"},
}
"""LaTeX replacements of special characters."""


@dataclass(frozen=True)
class Cell:
    """A text, and its place among the best three of its column, if it has one."""

    text: str
    place: int | None = None


@dataclass(frozen=True)
class TextTable:
    """A printed table.

    Attributes:
        title: Title of the table.
        columns: Column headings.
        rows: Rows with one cell per column.
        note: Remarks for the reader.
        claims: Claims of the paper about the table.

    Example:
        >>> table = TextTable.of("Title", ("model", "x"), [("a", Cell("1.0", 1)), ("b", "0.5")])
        >>> print(table.csv())
        model,x
        a,1.0
        b,0.5
        <BLANKLINE>
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    claims: tuple[Claim, ...] = ()

    @staticmethod
    def of(
        title: str,
        columns: Iterable[str],
        rows: Iterable[Iterable[str | Cell]],
        note: str = "",
        claims: Iterable[Claim] = (),
    ) -> TextTable:
        """Build a table from rows; a cell without a place may be a plain string."""
        cells = (tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
        return TextTable(title, tuple(columns), tuple(cells), note, tuple(claims))

    def markdown(self) -> str:
        """Markdown with the best three bold, italic and underlined."""
        lines = [_line(self.columns), _line(["---", *["---:"] * (len(self.columns) - 1)])]
        for row in self.rows:
            lines.append(_line(MARKDOWN[cell.place].format(cell.text) for cell in row))
        return f"# {self.title}\n\n" + "\n".join(lines) + f"\n\n{noted(self.note, self.claims)}\n"

    def csv(self) -> str:
        """CSV of the texts, without places."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([cell.text for cell in row] for row in self.rows)
        return out.getvalue()

    def latex(self) -> str:
        """LaTeX ``tabular`` with the best three bold, underlined and italic."""
        body = [" & ".join(map(_escape, self.columns)) + r" \\ \midrule"]
        for row in self.rows:
            marked = (LATEX[cell.place].format(_escape(cell.text)) for cell in row)
            body.append(" & ".join(marked) + r" \\")
        return "\n".join(
            [
                f"% {self.title}. {noted(self.note, self.claims)}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}} \toprule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )


def places(values: Sequence[float | None]) -> list[int | None]:
    """1, 2 and 3 for the three highest distinct values, None for the rest; ties share a place."""
    shown = [None if value is None else round(value, 2) for value in values]
    best = sorted({value for value in shown if value is not None}, reverse=True)[:3]
    return [best.index(value) + 1 if value in best else None for value in shown]


def better(values: Sequence[float | None]) -> list[int | None]:
    """1 for the highest value and its ties, None for the rest; only None if a value is missing."""
    return [1 if place == 1 and None not in values else None for place in places(values)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape(text: str) -> str:
    return "".join(SAFE.get(letter, letter) for letter in text)
