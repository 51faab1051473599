"""The explorer with stored runs and a saved model: served to a browser, or as one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gread.base.files import write_text
from gread.explorer.leaderboard import leaderboard
from gread.explorer.page import page
from gread.explorer.server import Runs, serve
from gread.explorer.trained import portrait_of_folder
from gread.runs.archive import known_results

PORT = 8642


def explore(
    *,
    store: str | Path,
    model: str | Path | None = None,
    port: int = PORT,
    on_start: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve the explorer on this machine until Ctrl-C.

    Args:
        store: Folder of the results; results shipped with the package are used too, see
            `gread.runs.known_results`.
        model: A model folder to show.
        port: Port to listen on; 0 selects a free one.
        on_start: Called with the URL once the server is listening.

    Example:
        >>> from gread.explorer import explore
        >>> explore(store="runs/store", on_start=print)  # doctest: +SKIP
        http://127.0.0.1:8642/
    """
    results = known_results(store).values()
    runs = Runs(results)
    board, portraits = leaderboard(results), _portraits(model)
    made = page(board, portraits=portraits, runs=runs.listed(), served=True)
    serve(made, runs, port, on_start)


def export(path: str | Path, *, store: str | Path, model: str | Path | None = None) -> None:
    """Write the explorer to one file, which needs no server and no network.

    Args:
        path: Path of the page.
        store: As in `explore`.
        model: As in `explore`.

    Example:
        >>> import tempfile
        >>> from gread.explorer import export
        >>> folder = tempfile.mkdtemp()
        >>> export(f"{folder}/page.html", store=folder)
    """
    board = leaderboard(known_results(store).values())
    write_text(path, page(board, portraits=_portraits(model)))


def _portraits(model: str | Path | None) -> list[dict[str, Any]]:
    return [] if model is None else [portrait_of_folder(Path(model))]
