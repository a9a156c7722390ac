"""`gym info NAME`: what a server is, where it lives, which instances its config starts, and how to start it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from gym.cli import console
from gym.cli.catalog_page import example_rows, row_fields
from gym.cli.file_view import code, readme, row_code
from gym.cli.named_images import find_entry
from gym.cli.options import AsJson
from gym.cli.replica_table import KINDS
from gym.cli.summary import example_of, relative
from gym.config import CatalogEntry, own_fields, redact
from gym.config.catalog import own_facts
from gym.config.field_checks import FACTS
from gym.config.late_references import SERVICES
from gym.config.model import SidecarSpec
from gym.config.nodes import plain
from gym.config.packed import packed_at
from gym.config.read_sidecars import services_of
from gym.config.strict import VERIFIERS, declares_strict


def command(
    name: Annotated[str, typer.Argument(metavar="NAME|IMAGE", help="As `gym list` shows it, or packed.")],
    as_json: AsJson = False,
) -> int:
    """Show what a server is and how to start it, its README, config, row fields and an example row."""
    entry = find_entry(name)
    if as_json:
        fields = [one._asdict() for one in row_fields(example_of(entry.directory))]
        facts = redact({key: plain(node) for key, node in own_facts(entry).items()})
        document = {**entry.model_dump(mode="json"), "strict": _strict(entry), "container": facts, "row_fields": fields}
        console.show_json(document)
        return 0
    facts = [(Text(label, style="bold"), value) for label, value in _facts(entry).items() if value]
    console.show(console.make_table(("", ""), facts))
    for title, part in _parts(entry):
        console.show()
        console.show(Text(title, style="bold underline"))
        console.show(part)
    return 0


def _parts(entry: CatalogEntry) -> Iterator[tuple[str, RenderableType]]:
    """Rendered on a terminal; in a file as they are written."""
    terminal = console.out().is_terminal
    about, example = entry.directory / "README.md", example_of(entry.directory)
    if about.is_file():
        text = about.read_text("utf-8", errors="replace").rstrip()
        yield relative(about), readme(text) if terminal else text
    if entry.config is not None:
        text = entry.config.read_text("utf-8", errors="replace").rstrip()
        yield relative(entry.config), code(text, "yaml") if terminal else text
    if fields := row_fields(example):
        table = console.make_table(("FIELD", "TYPE", "EXAMPLE"), fields, lines=terminal)
        yield f"row fields, as {relative(example)} has them", table
    for row in example_rows(example)[:1]:
        yield "the first of them", row_code(row) if terminal else json.dumps(row, indent=2, ensure_ascii=False)


def _facts(entry: CatalogEntry) -> dict[str, str]:
    directory = entry.directory
    about, example = directory / "README.md", example_of(directory)
    return {
        "name": entry.name,
        "type": KINDS[entry.type],
        "about": entry.description or "",
        "domain": entry.domain or "",
        "kind": entry.kind,
        "strict": _strict(entry),
        "licence": entry.licence or "",
        "also": ", ".join(entry.aliases),
        **_image_facts(directory),
        "folder": relative(directory),
        "config": relative(entry.config) if entry.config else "",
        "readme": relative(about) if about.is_file() else "",
        "examples": relative(example) if example.is_file() else "",
        "start": _start(entry),
        **_container(entry),
    }


def _image_facts(directory: Path) -> dict[str, str]:
    packed = packed_at(directory)
    if packed is None:
        return {}
    return {"image": packed.reference, "digest": packed.digest, "packed by": f"compose-gym {packed.gym}"}


def _container(entry: CatalogEntry) -> dict[str, str]:
    """The keys that say how its replicas run: those that its configuration has, and those that it may have."""
    given = {key: plain(node) for key, node in own_facts(entry).items()}
    services = {f"service {one.name}": _service(one) for one in services_of(entry)}
    plain_facts = [f"{key}: {json.dumps(redact({key: value})[key])}" for key, value in given.items() if key != SERVICES]
    others = [key for key in sorted(FACTS) if key not in given]
    return {"runs with": ", ".join(plain_facts), **services, "may have": f"{', '.join(others)} (docs/instances.md)"}


def _service(spec: SidecarSpec) -> str:
    ways = (("image", spec.image), ("built from", relative(Path(spec.build)) if spec.build else ""))
    commands = (*ways, ("command", " ".join(spec.command)), ("port", str(spec.port)), ("memory", spec.memory))
    return ", ".join(f"{name} {value}" for name, value in commands if value)


def _strict(entry: CatalogEntry) -> str:
    if entry.type != VERIFIERS:
        return ""
    if not declares_strict(entry.directory):
        return "no such mode"
    return (
        "on, by its own configuration" if own_fields(entry).get("strict") is True else f"gym up {entry.name} --strict"
    )


def _start(entry: CatalogEntry) -> str:
    if packed := packed_at(entry.directory):
        return f"gym up {packed.reference}"
    if entry.type == "responses_api_models":
        return f"gym up NAMES --model {entry.name}"
    return f"gym up {entry.name}" if entry.config else ""
