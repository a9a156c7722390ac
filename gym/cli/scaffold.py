"""Templates to folders: what `gym new` writes. A name that would not work is refused, with one that would."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

from gym.errors import UserError

PLACEHOLDER = "__name__"
SUFFIX = ".j2"
COMMON, ABOUT = "_common", "about.txt"
TEMPLATES = {"agent": "agents", "resources": "adapter"}  # kind -> folder of templates/
RESERVED = ("policy_model", "router", "console", "sandbox")  # what every stack has under that name
LONGEST_NAME = 100  # folders, files and class names are made of it
VALID_NAME = re.compile(r"[a-z][a-z0-9_]*")


class ServerTemplate(NamedTuple):
    """What `gym new KIND --template NAME` is made of; several folders where templates have files in common."""

    kind: str
    name: str
    about: str
    folders: tuple[Path, ...]


def list_templates(templates: Path) -> list[ServerTemplate]:
    """Agents that are a library, and environments of the shapes that libraries have."""
    found = []
    for kind, place in TEMPLATES.items():
        for path in sorted((templates / place).glob(f"*/{ABOUT}")):
            common = (templates / COMMON, path.parent.with_name(COMMON))
            folders = (*(one for one in common if one.is_dir()), path.parent)
            found.append(ServerTemplate(kind, path.parent.name, path.read_text("utf-8").strip(), folders))
    return found


def plain_template(kind: str, templates: Path) -> ServerTemplate:
    """Without `--template`. A model has no stack of its own to be tried in."""
    folders = (templates / kind,) if kind == "model" else (templates / COMMON, templates / kind)
    return ServerTemplate(kind, kind, "", folders)


def render_template(template: ServerTemplate, name: str, path: str) -> dict[Path, str]:
    """All its files for a server of that name, which will lie at `path`."""
    values = {
        "name": name,
        "class_name": class_name(name),
        "title": name.replace("_", " ").capitalize(),
        "path": path,
        "library": template.about,
        "model": "oracle" if template.kind == "resources" else "scripted",
    }
    return {name: text for folder in template.folders for name, text in render_tree(folder, values).items()}


def find_template(name: str, kind: str, known: Sequence[ServerTemplate]) -> ServerTemplate:
    mine = [one for one in known if one.kind == kind]
    for one in mine:
        if _plain(one.name) == _plain(name):
            return one
    if not mine:
        raise UserError(f"There is only one template for a server of the kind {kind}.", "Leave --template out.")
    there_are = ", ".join(one.name for one in mine)
    hint = f"There are: {there_are}. Leave --template out for the plain one."
    raise UserError(f"There is no template '{name}' for a server of the kind {kind}.", hint)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def check_name(name: str) -> None:
    """A server's name is a folder, a config key and part of a class name."""
    if not VALID_NAME.fullmatch(name):
        raise UserError(
            f"'{name}' cannot be a server's name: use a-z, 0-9 and _, beginning with a letter.",
            f"The nearest one that can: {nearest_name(name)}",
        )
    if len(name) > LONGEST_NAME:
        what = f"A name of {len(name)} letters is too long: at most {LONGEST_NAME}."
        raise UserError(what, f"For example: {nearest_name(name)}")
    if name in RESERVED:
        raise UserError(f"'{name}' is what a stack's own {name.partition('_')[0]} is called.", f"Try: {name}_server")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names:
        raise UserError(f"'{name}' means something to Python itself.", f"Try: {name}_server")


def nearest_name(name: str) -> str:
    """`My Server!` -> my_server, `été` -> ete, `2048` -> server_2048, `class` -> class_server."""
    letters = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", letters)
    plain = re.sub(r"[^a-z0-9]+", "_", words.casefold()).strip("_")
    if not plain[:1].isalpha():
        plain = f"server_{plain}".rstrip("_")
    plain = plain[:LONGEST_NAME].rstrip("_")
    taken = keyword.iskeyword(plain) or plain in sys.stdlib_module_names or plain in RESERVED
    return f"{plain}_server" if taken else plain


def class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def render_tree(template: Path, values: Mapping[str, str]) -> dict[Path, str]:
    """Every file of a template folder: where it goes, and its text."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    files = {}
    for source in sorted(path for path in template.rglob("*") if path.is_file() and not _is_left_out(path)):
        target = Path(str(source.relative_to(template)).replace(PLACEHOLDER, values["name"]))
        text = source.read_text("utf-8")
        if target.suffix == SUFFIX:
            target, text = target.with_suffix(""), environment.from_string(text).render(values)
        files[target] = text
    return files


def _is_left_out(path: Path) -> bool:
    return "__pycache__" in path.parts or path.name == ABOUT


def write_tree(folder: Path, files: Mapping[Path, str]) -> None:
    """All files below a folder that must not be there yet."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UserError(
            f"{folder} is already there; nothing was changed.", "Choose another name, or move that away first."
        ) from None
    except OSError as error:
        what = f"{folder} cannot be made: {error.strerror}."
        raise UserError(what, "Name a folder that you may write to: --to DIR.") from None
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except BaseException as error:
        shutil.rmtree(folder)  # half a server is worse than none
        if isinstance(error, OSError):
            error.filename = error.filename or str(folder)  # a full disk does not say where it is full
        raise
