"""`gym new`: a server that passes its own tests at once, and a README that says what to write next."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from gym import labels
from gym.cli import console
from gym.cli.relative_paths import relative
from gym.cli.scaffold import (
    ServerTemplate,
    check_name,
    find_template,
    list_templates,
    plain_template,
    render_template,
    write_tree,
)
from gym.cli.scaffold_imports import for_checkout
from gym.config import list_servers, search_roots
from gym.errors import UserError
from gym.files import asset_dir

Kind = Literal["resources", "agent", "model"]
FOLDERS: dict[Kind, str] = {"resources": "resources", "agent": "agents", "model": "models"}


def command(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="resources, agent or model.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name: a-z, 0-9 and _.")] = None,
    template: Annotated[str | None, typer.Option(metavar="TEMPLATE", help="A library or a shape.")] = None,
    list_all: Annotated[bool, typer.Option("--list-templates", help="Show what --template takes.")] = False,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="The folder that it is made in.")] = None,
) -> int:
    """Make a new server from a template, in ./servers when there is such a folder, else in ./NAME."""
    templates = asset_dir("templates")
    known = list_templates(templates)
    if list_all:
        return _show_templates([one for one in known if one.kind == kind])
    if name is None:
        raise UserError("The server needs a name.", f"For example: gym new {kind} my_{kind}")
    chosen = plain_template(kind, templates) if template is None else find_template(template, kind, known)
    check_name(name)
    taken = [one for one in list_servers(search_roots(Path.cwd(), os.environ)) if name in (one.name, *one.aliases)]
    if taken:
        raise UserError(f"There is a server '{name}' already: {taken[0].directory}.", "Choose another name.")
    folder = (_parent(kind) if to is None else to.absolute()) / name
    files = render_template(chosen, name, relative(folder))
    write_tree(folder, for_checkout(files) if _in_checkout(folder) else files)
    console.show(Text.assemble(("made     ", "bold"), relative(folder)))
    found = _finding(name, folder.parent)
    console.show(Text.assemble(("test it  ", "bold"), f"{found}gym test {name}"))
    console.show(Text.assemble(("run it   ", "bold"), f"{found}{_run_line(kind, name)}"))
    console.show(Text.assemble(("next     ", "bold"), f"read {relative(folder / 'README.md')}"))
    return 0


def _show_templates(known: list[ServerTemplate]) -> int:
    width = max((len(one.name) for one in known), default=0) + 2
    for one in known:
        console.show(Text.assemble((f"{one.name:<{width}}", "bold"), one.about))
    return 0


def _parent(kind: Kind) -> Path:
    servers = Path.cwd() / "servers"
    return servers / FOLDERS[kind] if servers.is_dir() else Path.cwd()


def _finding(name: str, parent: Path) -> str:
    """What goes before a command that is typed here, so that it finds a server which lies elsewhere."""
    if any(one.name == name for one in list_servers(search_roots(Path.cwd(), os.environ))):
        return ""
    before = f'{os.pathsep}"${labels.ENV_PATH}"' if os.environ.get(labels.ENV_PATH) else ""
    return f"{labels.ENV_PATH}={shlex.quote(relative(parent))}{before} "


def _in_checkout(folder: Path) -> bool:
    """Of this package, where its linter looks at servers too."""
    return any((one / "gym" / "cli" / "scaffold.py").is_file() for one in folder.parents)


def _run_line(kind: Kind, name: str) -> str:
    if kind == "model":
        return f"gym up simple_weather --model {name}"
    return f"gym up {name} --model {'oracle' if kind == 'resources' else 'scripted'}"
