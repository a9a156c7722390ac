"""One JSON line for whatever was done or refused: who, for which rollout, how long, and how it ended."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, TextIO

import orjson

LONGEST = 300  # characters of a command or a reason


class Audit:
    def __init__(self, path: str = "", stream: TextIO | None = None) -> None:
        self._own = Path(path).open("a", encoding="utf-8") if path else None  # noqa: SIM115 (closed by `close`)
        self._stream = self._own or stream or sys.stdout

    def note(self, event: str, **facts: Any) -> None:
        line = {"time": round(time.time(), 3), "event": event}
        line.update((key, shorten(value)) for key, value in facts.items() if value not in ("", None))
        self._stream.write(orjson.dumps(line, default=str).decode() + "\n")
        self._stream.flush()

    def close(self) -> None:
        if self._own is not None:
            self._own.close()


def shorten(value: Any) -> Any:
    if isinstance(value, tuple | list):
        value = " ".join(str(one) for one in value)
    if isinstance(value, float):
        return round(value, 4)
    return value if not isinstance(value, str) or len(value) <= LONGEST else f"{value[:LONGEST]}…"
