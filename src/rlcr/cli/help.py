"""What `--help` shows, mended for every command in one place."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer
from rich.markup import escape


@cache
def with_plain_help(app: typer.Typer) -> Any:
    """The command of an app, whose help gives no type to flags and shows brackets as they were written."""
    command: Any = typer.main.get_command(app)
    _mend(command, command.context_class(command, **command.context_settings))
    return command


def _mend(command: Any, context: Any) -> None:
    # Typer takes brackets in help for the markup of rich, which is not used here: `v1[#name]` lost its end.
    command.help = command.help and escape(command.help)
    for parameter in command.get_params(context):
        if getattr(parameter, "help", None):
            parameter.help = escape(parameter.help)
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""  # a flag takes no value, so there is no <bool> to give
    for name, inner in getattr(command, "commands", {}).items():
        _mend(inner, inner.context_class(inner, info_name=name, parent=context))
