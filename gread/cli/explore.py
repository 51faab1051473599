"""The command that opens the explorer in a browser, or writes it to a file."""

from __future__ import annotations

import signal
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gread.base.files import write_text
from gread.cli.console import err
from gread.cli.runs import STORE, Store
from gread.runs.archive import known_results

PORT = 8642


def explore(
    store: Store = STORE,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="DIR", help="A model folder of gread fit.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write the page to one file instead of serving it."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, help="Where to listen; 0 for any that is free."),
    ] = PORT,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open no browser, print the address alone.")
    ] = False,
) -> None:
    """Play with reaction-diffusion on graphs in the browser; see stored runs and a saved model."""
    from gread.explorer.leaderboard import leaderboard
    from gread.explorer.page import page
    from gread.explorer.server import Runs, serve
    from gread.explorer.trained import portrait_of_folder

    results = list(known_results(store).values())
    portraits = [] if model is None else [portrait_of_folder(model)]
    board = leaderboard(results)
    if export is not None:
        write_text(export, page(board, portraits=portraits))
        err.print(f"Wrote {export}", highlight=False, soft_wrap=True)
        return

    def started(url: str) -> None:
        err.print(f"The explorer is at {url}  (Ctrl-C ends it)", highlight=False, soft_wrap=True)
        if not no_browser:
            webbrowser.open(url)

    runs = Runs(results)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serve(page(board, portraits=portraits, runs=runs.listed(), served=True), runs, port, started)
    err.print("The explorer has ended.", highlight=False)
