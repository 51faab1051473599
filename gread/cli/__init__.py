"""The ``gread`` command: one function a command, no logic of its own."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Annotated

import typer

from gread.base.errors import InputError
from gread.base.memory import OutOfMemory, enough_memory
from gread.base.versions import __version__
from gread.cli import (
    bench as measure,
)
from gread.cli import (
    explore,
    report,
    reproduce,
    search,
    show,
)
from gread.cli import (
    fit as own,
)
from gread.cli import (
    runs as stored,
)
from gread.cli import (
    shard as blocks,
)
from gread.cli import (
    train as work,
)
from gread.cli.console import err, out

app = typer.Typer(
    help="Graph neural reaction-diffusion networks: train, compare, reproduce.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    show.demo,
    show.datasets,
    own.diagnose,
    own.fit,
    own.predict,
    work.train,
    blocks.shard,
    search.search,
    reproduce.reproduce,
    report.report,
    explore.explore,
    stored.compare,
    measure.bench,
):
    app.command()(command)
app.add_typer(stored.runs, name="runs")
app.command("list")(show.list_)
app.command()(show.doctor)


def main() -> None:
    """Runs the command; what a user got wrong is one sentence and exit code 2."""
    try:
        with warnings.catch_warnings(), enough_memory("a smaller graph or a smaller model"):
            warnings.showwarning = _warn
            # PyTorch tries another way, and where that has too little memory as well we say so.
            warnings.filterwarnings("ignore", "mkldnn_matmul failed")
            app()
    except (InputError, ArithmeticError, OSError, OutOfMemory) as error:
        sentence = " ".join(f"gread: {error}".split())  # names in it may have line breaks
        err.print(sentence, style="red", highlight=False, soft_wrap=True)
        sys.exit(2)


def _warn(message: Warning | str, *others: object, **options: object) -> None:
    """What a user should know, without where in the code it was said."""
    err.print(f"gread: {message}", style="yellow", highlight=False, soft_wrap=True)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"gread {__version__}", highlight=False)
        raise typer.Exit


def _import(modules: list[str] | None) -> None:
    """Imports a user's modules, so that what they register is known to every command."""
    for module in modules or []:
        if not all(part.isidentifier() for part in module.split(".")):
            raise InputError(f"--import must name a module that Python finds, got {module!r}")
        sys.path.insert(0, os.getcwd())
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise InputError(
                f"--import must name a module that Python finds, got {module!r} ({error})"
            ) from error


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            callback=_import,
            help="Import a Python module first, for instance one that registers a reaction.",
        ),
    ] = None,
) -> None:
    """Options before the command."""
