"""The ``gread`` command: every command parses, calls one public function and prints."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gread.base.errors import InputError
from gread.base.memory import OutOfMemory, enough_memory
from gread.base.versions import __version__
from gread.cli.bench import bench, doctor
from gread.cli.console import err, out
from gread.cli.datasets import datasets, list_
from gread.cli.explore import explore
from gread.cli.fit import diagnose, export, fit, predict
from gread.cli.options import described
from gread.cli.reproduce import demo, report, reproduce
from gread.cli.runs import compare, runs
from gread.cli.search import search
from gread.cli.train import shard, train

FUNCTIONS: tuple[Callable[..., None], ...] = (
    *(
        demo,
        datasets,
        diagnose,
        fit,
        predict,
        export,
        train,
        shard,
        search,
        reproduce,
        report,
        explore,
    ),
    *(compare, bench, list_, doctor),
)
COMMANDS = {function.__name__.rstrip("_"): function for function in FUNCTIONS}


class LazyCommand(TyperCommand):
    """A command whose options are built when it is used.

    Help texts contain names of registries. Importing these takes longer than listing the commands.
    """

    def __init__(self, name: str, function: Callable[..., None]):
        super().__init__(name, help=inspect.getdoc(function))
        self.function = function

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """See `click.Command`."""
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(described(self.function))
        return typer.main.get_command(alone).make_context(*arguments, **options)


class LazyGroup(TyperGroup):
    """The lazy commands, followed by the groups that typer adds."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        lazy = {name: LazyCommand(name, function) for name, function in COMMANDS.items()}
        self.commands = {**lazy, **self.commands}


app = typer.Typer(
    cls=LazyGroup,
    help="Graph neural reaction-diffusion networks: train, compare, reproduce.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(runs, name="runs")


def main() -> None:
    """Run the command. Invalid input prints a one-line error and exits with code 2."""
    try:
        with warnings.catch_warnings(), enough_memory("a smaller graph or a smaller model"):
            warnings.showwarning = _warn
            # PyTorch then retries in another way; out of memory there is reported below.
            warnings.filterwarnings("ignore", "mkldnn_matmul failed")
            app()
    except (InputError, ArithmeticError, OSError, OutOfMemory) as error:
        sentence = " ".join(
            f"gread: {error}".split()
        )  # names in the message may contain line breaks
        err.print(sentence, style="red", soft_wrap=True)
        sys.exit(2)


def _warn(message: Warning | str, *others: object, **options: object) -> None:
    """Print a warning without its source location."""
    err.print(f"gread: {message}", style="yellow", soft_wrap=True)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"gread {__version__}")
        raise typer.Exit


def _import(modules: list[str] | None) -> None:
    """Import a user's modules, so that every command finds their registrations."""
    for module in modules or []:
        wrong = f"--import must name a module that Python finds, got {module!r}"
        if not all(part.isidentifier() for part in module.split(".")):
            raise InputError(wrong)
        sys.path.insert(0, os.getcwd())
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise InputError(f"{wrong} ({error})") from error


@app.callback()
def before_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
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
    """Train, compare and reproduce graph neural reaction-diffusion networks."""
