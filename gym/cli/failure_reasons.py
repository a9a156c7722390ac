"""Why rollouts failed, out of the file of failures: the commonest reasons, each a line."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

MOST_READ = 10_000
MOST_TOLD = 3
MOST_LETTERS = 300


def commonest_reasons(failures: Path) -> tuple[str, ...]:
    """`5 x my_env: KeyError: 'x' (app.py:24 in verify)`; of a long file its beginning counts."""
    try:
        with failures.open("rb") as lines:
            reasons = Counter(_reason(line) for line in islice(lines, MOST_READ) if line.strip())
    except OSError:
        return ()
    told = [f"{count:,} x {reason}" for reason, count in reasons.most_common(MOST_TOLD)]
    rest = len(reasons) - len(told)
    return (*told, *([f"... and {rest:,} other reasons"] if rest else []))


def _reason(line: bytes) -> str:
    try:
        failure: Any = orjson.loads(line)
        text = f"{failure['server']}: {failure['message']}"
    except (ValueError, LookupError, TypeError):
        return "a line that cannot be read"
    first = " ".join(text.split())
    return first if len(first) <= MOST_LETTERS else f"{first[:MOST_LETTERS]}…"
