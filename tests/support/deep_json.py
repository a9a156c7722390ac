"""Values that are nested deeper than JSON is written."""

from __future__ import annotations

from typing import Any


def nested(depth: int, inner: Any = 1) -> Any:
    for level in range(depth):
        inner = {"a": inner} if level % 2 else [inner]
    return inner
