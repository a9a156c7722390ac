"""The files that say where replicas are: the discovery document and the router's. Each is replaced whole."""

from __future__ import annotations

from pathlib import Path

from gym.files import SHARED, read_document, write_atomically
from gym.wire.discovery import Discovery


def write_routes(discovery: Path, routes: Path, found: Discovery, router_text: str) -> bool:
    """True when one of them changed. Cut off between the two files, the next call writes the second."""
    wrote = write_atomically(discovery, found.model_dump_json(), mode=SHARED)
    return write_atomically(routes, router_text, mode=SHARED) or wrote


def read_discovery(path: Path) -> Discovery | None:
    return read_document(Discovery, path)
