"""References that only a runtime can follow: `${service:redis}` of an instance, `${port}` and `${folder}` of a sidecar.

They stay in the text through the whole configuration. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gym.config.plain_trees import change_texts, texts_of

SERVICES: Final = "services"
OWN: Final = ("port", "folder")  # what a sidecar may ask for itself
PARTS: Final = ("host", "port")
_SERVICE: Final = re.compile(r"\$\{service:\s*(?P<name>[^${}.\s]+)(?:\.(?P<part>[^${}\s]*))?\s*\}")
_OWN: Final = re.compile(r"\$\{(port|folder)\}")


def is_of_sidecar(inner: str, path: tuple[str | int, ...]) -> bool:
    """Whether what stands between the braces, at this place of the configuration, is such a reference."""
    text = inner.strip()
    beside_or_inside = SERVICES in (*path[1:2], *path[3:4])  # the type, or the fields, of an instance
    return text.startswith("service:") or (text in OWN and beside_or_inside)


def find_services(tree: Any) -> Iterator[tuple[str, str]]:
    """Each `${service:NAME}` of a tree: the name, and the part of its address that is asked for ("": both)."""
    for _, text in texts_of(tree):
        for found in _SERVICE.finditer(text):
            yield found["name"], found["part"] or ""


def fill_services(tree: Any, addresses: Mapping[str, tuple[str, int]]) -> Any:
    """The tree with host and port of each service that has an address: `${service:redis}` -> `127.0.0.1:6379`."""

    def fill(found: re.Match[str]) -> str:
        if found["name"] not in addresses:
            return found[0]
        host, port = addresses[found["name"]]
        return {"host": host, "port": str(port)}.get(found["part"] or "", f"{host}:{port}")

    return change_texts(tree, lambda text: _SERVICE.sub(fill, text))


def fill_own(tree: Any, port: int, folder: str) -> Any:
    """What a sidecar says of itself, with its port and its folder."""
    values = {"port": str(port), "folder": folder}
    return change_texts(tree, lambda text: _OWN.sub(lambda found: values[found[1]], text))
