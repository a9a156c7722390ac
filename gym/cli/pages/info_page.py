"""What `gym info NAME` prints: what a server is, where it lives and how to start it. No parser is loaded for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from gym.cli import console
from gym.cli.named_images import find_entry
from gym.cli.relative_paths import relative
from gym.config import CatalogEntry, own_fields, redact
from gym.config.catalog import own_facts
from gym.config.example_rows import example_of, example_rows, row_fields, shorten
from gym.config.instance_keys import FACTS
from gym.config.late_references import SERVICES
from gym.config.nodes import plain
from gym.config.packed import packed_at
from gym.config.strict import VERIFIERS, declares_strict
from gym.wire.server_types import KINDS

if TYPE_CHECKING:
    from gym.config.model import SidecarSpec


def show(name: str, *, as_json: bool = False) -> int:
    entry = find_entry(name)
    if as_json:
        fields = [one._asdict() for one in row_fields(example_of(entry.directory))]
        facts = redact({key: plain(node) for key, node in own_facts(entry).items()})
        document = {**asdict(entry), "strict": _strict(entry), "container": facts, "row_fields": fields}
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
    for path in (about, entry.config):
        if path is not None and path.is_file():
            text = path.read_text("utf-8", errors="replace").rstrip()
            yield relative(path), _typeset(text, path.suffix) if terminal else text
    if fields := row_fields(example):
        table = console.make_table(("FIELD", "TYPE", "EXAMPLE"), fields, lines=terminal)
        yield f"row fields, as {relative(example)} has them", table
    for row in example_rows(example)[:1]:
        shown = shorten(row) if terminal else row
        text = json.dumps(shown, indent=2, ensure_ascii=False)
        yield "the first of them", _typeset(text, ".json") if terminal else text


def _typeset(text: str, suffix: str) -> RenderableType:
    from gym.cli.file_view import code, readme  # noqa: PLC0415  (Markdown and colours are for terminals alone)

    return readme(text) if suffix == ".md" else code(text, suffix.removeprefix("."))


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
    services = _services(entry) if SERVICES in given else {}
    plain_facts = [f"{key}: {json.dumps(redact({key: value})[key])}" for key, value in given.items() if key != SERVICES]
    others = [key for key in sorted(FACTS) if key not in given]
    return {"runs with": ", ".join(plain_facts), **services, "may have": f"{', '.join(others)} (docs/instances.md)"}


def _services(entry: CatalogEntry) -> dict[str, str]:
    from gym.config.read_sidecars import services_of  # noqa: PLC0415  (few servers have any)

    return {f"service {one.name}": _service(one) for one in services_of(entry)}


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
