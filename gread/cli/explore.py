"""``gread explore``."""

from __future__ import annotations

import signal
import webbrowser
from pathlib import Path

from gread.cli.console import note
from gread.cli.options import STORE


def explore(
    store: Path = STORE,
    model: Path | None = None,
    export: Path | None = None,
    port: int = 8642,
    no_browser: bool = False,
) -> None:
    """Explore reaction-diffusion, stored runs and a trained model in the browser."""
    from gread.explorer.explore import explore as serve, export as write

    if export is not None:
        write(export, store=store, model=model)
        note(f"Wrote {export}")
        return

    def started(url: str) -> None:
        note(f"The explorer is at {url}  (Ctrl-C stops it)")
        if not no_browser:
            webbrowser.open(url)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serve(store=store, model=model, port=port, on_start=started)
    note("The explorer has stopped.")
