"""Why rollouts failed, from the file of failures: the commonest reasons, one a line."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

MAX_READ = 10_000
MAX_SHOWN = 3
MAX_LETTERS = 300


def commonest_reasons(failures: Path) -> tuple[str, ...]:
    """`5 x my_env: KeyError: 'x' (app.py:24 in verify)`; of a long file its beginning counts."""
    try:
        with failures.open("rb") as lines:
            reasons = Counter(_reason(line) for line in islice(lines, MAX_READ) if line.strip())
    except OSError:
        return ()
    shown = [f"{count:,} x {reason}" for reason, count in reasons.most_common(MAX_SHOWN)]
    rest = len(reasons) - len(shown)
    return (*shown, *([f"... and {rest:,} other reasons"] if rest else []))


def _reason(line: bytes) -> str:
    try:
        failure: Any = orjson.loads(line)
        text = f"{failure['server']}: {failure['message']}"
    except (ValueError, LookupError, TypeError):
        return "a line that cannot be read"
    first = " ".join(text.split())
    return first if len(first) <= MAX_LETTERS else f"{first[:MAX_LETTERS]}…"
