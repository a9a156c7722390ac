"""Which words name an image."""

from __future__ import annotations

import re
from typing import Final

REFERENCE: Final = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?P<tag>:[A-Za-z0-9_][\w.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)


def is_reference(name: str) -> bool:
    """An image, and no server's name, path of a configuration or override: it has a tag, a digest or a registry."""
    found = REFERENCE.fullmatch(name)
    if found is None or name.endswith((".yaml", ".yml")):
        return False
    host = found["host"] or ""
    return bool(found["tag"] or found["digest"] or ":" in host or host == "localhost/" or "." in host.strip("./"))
