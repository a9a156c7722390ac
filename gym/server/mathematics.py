"""Are two mathematical answers equal? Decided by math-verify in processes that are killed when it never ends.

The server that uses it has `math-verify` in its requirements.txt; the SDK itself does not need it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gym.server.workers import Workers

TAIL = 8_000  # characters: of a longer text the end is read, where an answer stands
LONGEST_SHOWN = 1_000


class Comparison(NamedTuple):
    """`extracted` is what was read out of the answer, as text; None: nothing was."""

    equal: bool
    extracted: str | None
    bad_gold: bool = False  # the expected answer itself could not be read


class Mathematics:
    """Start none of it; `close` it. Raises WorkerTimeout for what takes more CPU time than `seconds`."""

    def __init__(self, *, seconds: float = 10.0, count: int = 2) -> None:
        self._workers = Workers("symbolic", count=count, timeout=seconds, folder=Path(__file__).with_name("in_workers"))

    async def compare(self, expected: str, answer: str) -> Comparison:
        told = await self._workers.call("compare", without_delimiters(expected), answer[-TAIL:])
        extracted = told["extracted"]
        return Comparison(told["equal"], extracted and extracted[:LONGEST_SHOWN], told["bad_gold"])

    async def close(self) -> None:
        await self._workers.close()


def without_delimiters(text: str) -> str:
    r"""`\( x \)` and `$x$` are `x`."""
    text = text.strip()
    if text.startswith("\\(") and text.endswith("\\)"):
        text = text[2:-2].strip()
    if len(text) > 1 and text.startswith("$") and text.endswith("$"):
        text = text[1:-1].strip()
    return text
