"""docs/reference/commands.md: every command with its arguments and options, as the parser has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from gym.cli.app import Everything, make_app
from gym.cli.main import COMMANDS, GROUPS
from reference_pages.fields import cell, first_paragraph

HEAD = """# Reference: commands

Written by `scripts/reference` from the commands themselves; a test checks that it is current. `gym COMMAND --help` says
the same.

Every command takes `--stack NAME` (or the variable `GYM_STACK`), also before its name, and `--help`. Exit codes: 0 fine,
1 a known error, 2 wrong usage, 3 a bug, 130 Ctrl-C. Results go to standard output, everything else to standard error.
"""
EVERYWHERE = ("stack", "help", "version", "install_completion", "show_completion")


def page() -> str:
    root: Any = typer.main.get_command(make_app(COMMANDS, GROUPS, Everything()))
    context = typer.Context(root, info_name="gym")
    parts = [HEAD]
    for panel in dict.fromkeys(panel for panel, _ in COMMANDS.values()):
        names = [name for name, (where, _) in COMMANDS.items() if where == panel]
        parts.append(f"## {panel}\n")
        parts += [text for name in names for text in _command(root.commands[name], context, f"gym {name}")]
    return "\n".join(parts)


def _command(command: Any, outer: Any, name: str) -> Iterator[str]:
    context = typer.Context(command, info_name=name.rpartition(" ")[2], parent=outer)
    if inner := getattr(command, "commands", None):
        yield f"### `{name}`\n\n{first_paragraph(command.help)}\n"
        for word, one in inner.items():
            yield from _command(one, context, f"{name} {word}")
        return
    usage = " ".join([name, *(piece for one in command.params for piece in _usage(one, context))])
    yield f"### `{name}`\n\n{_help(command.help)}\n\n```text\n{usage}\n```\n"
    rows = [_row(one, context) for one in command.get_params(context) if one.name not in EVERYWHERE]
    if rows:
        yield "\n".join(["| | default | |", "|---|---|---|", *rows]) + "\n"


def _help(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").strip().split("\n\n"))


def _usage(param: Any, context: Any) -> Iterator[str]:
    """What must be typed, and that there is more."""
    if param.param_type_name == "argument":
        metavar = param.metavar or str(param.name).upper()
        many = f"{metavar}…" if param.nargs == -1 else metavar
        yield many if param.required else f"[{many}]"
    elif param.required:
        yield f"{param.opts[0]} {param.metavar or ''}".strip()


def _row(param: Any, context: Any) -> str:
    if param.param_type_name == "argument":
        name = f"`{param.metavar or str(param.name).upper()}`"
    else:
        flags = ", ".join([*param.opts, *param.secondary_opts])
        name = f"`{flags} {param.metavar}`" if param.metavar and not param.is_flag else f"`{flags}`"
    return f"| {cell(name)} | {cell(_default(param))} | {cell(getattr(param, 'help', '') or '')} |"


def _default(param: Any) -> str:
    value = param.default
    if param.required:
        return "needed"
    if callable(value) or value is None or value is False or value == "" or value == []:
        return ""
    return "" if value is True and not param.secondary_opts else f"`{str(value).lower() if value is True else value}`"
