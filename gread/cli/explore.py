"""``gread explore``."""

from __future__ import annotations

import signal
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gread.cli.console import note
from gread.cli.options import STORE, Store


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
    ] = 8642,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open no browser, print the address alone.")
    ] = False,
) -> None:
    """Play with reaction-diffusion on graphs in the browser; see stored runs and a saved model."""
    from gread.explorer.explore import explore as serve, export as write

    if export is not None:
        write(export, store=store, model=model)
        note(f"Wrote {export}")
        return

    def started(url: str) -> None:
        note(f"The explorer is at {url}  (Ctrl-C ends it)")
        if not no_browser:
            webbrowser.open(url)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serve(store=store, model=model, port=port, on_start=started)
    note("The explorer has ended.")
