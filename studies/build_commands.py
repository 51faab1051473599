"""Documentation page of the command line."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from gread.cli import app


def commands() -> str:
    """Page with every command, its arguments and options."""
    parts = [
        "# Command line",
        "Every command has `--help`, and most have `--json`. Invalid input prints a one-line error "
        "and exits with code 2. `gread --import MODULE COMMAND` first imports your module, for "
        "example one that registers a reaction.",
    ]
    found = list(contexts())
    parts.append("| command | purpose |\n| --- | --- |\n" + "\n".join(map(summary, found)))
    for context in found:
        parts += [f"## {context.command_path}", context.command.help or ""]
        usage = " ".join(context.command.collect_usage_pieces(context))
        parts.append(f"```text\n{context.command_path} {usage}\n```")
        rows = [option(parameter, context) for parameter in context.command.get_params(context)]
        lines = ["| option | default | meaning |", "| --- | --- | --- |"]
        parts.append("\n".join(lines + [row for row in rows if row]))
    return "\n\n".join(parts) + "\n"


def summary(context: typer.Context) -> str:
    """Table row of a command with the first line of its help."""
    path, first = context.command_path, (context.command.help or "").partition("\n")[0]
    return f"| [`{path}`](#{path.replace(' ', '-')}) | {first} |"


def contexts(group: typer.Context | None = None) -> Iterator[typer.Context]:
    """Contexts of all commands of ``gread`` or of a group, including nested groups."""
    group = group or typer.Context(get_command(app), info_name="gread")
    for name in group.command.list_commands(group):
        command = group.command.get_command(group, name)
        context = command.make_context(name, [], parent=group, resilient_parsing=True)
        yield context
        if hasattr(context.command, "list_commands"):
            yield from contexts(context)


def option(parameter: Any, context: typer.Context) -> str:
    """Table row of a parameter; empty for ``--help``."""
    if parameter.name == "help":
        return ""
    named = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        named = f"`{parameter.metavar or parameter.name.upper()}`"
    default = parameter.get_default(context)
    shown = "required" if parameter.required else ""
    if default not in (None, "", False, ()):
        shown = f"`{default}`"
    return f"| {named} | {shown} | {getattr(parameter, 'help', '') or ''} |".replace("\n", " ")
