"""The names of an audit's checks, as its report shows them and as `gym audit --only` takes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from gym.errors import UserError

ORACLES: Final = "oracle answers"  # these are always asked: whether others are worth less is nothing without them
WORTHLESS: Final = "worthless answers"  # one check, and a line of the report for each kind
KINDS: Final = (
    *("empty", "random", "copied prompt", "label injection", "field names"),
    *("oversized", "hostile texts", "refusal", "odd items"),
)
OTHERS: Final = (
    *("constant answers", "all options", "right then wrong", "harmless changes", "near misses"),
    *("lone surrogates", "no UTF-8", "bad rows", "same twice", "concurrent", "time", "memory"),
)
NAMES: Final = (ORACLES, WORTHLESS, *KINDS, *OTHERS)


def checks_of(only: Iterable[str]) -> list[str]:
    """What is run for these names; one that there is not is refused with those there are."""
    names = list(only)
    for one in names:
        if one not in NAMES:
            near = difflib.get_close_matches(one, NAMES, n=1)
            asked = f"Did you mean {near[0]}? " if near else ""
            raise UserError(f"no check is called {one!r}.", f"{asked}There are: {', '.join(NAMES)}")
    return list(dict.fromkeys(WORTHLESS if one in KINDS else one for one in names))


def is_shown(check: str, only: Sequence[str]) -> bool:
    return not only or check in (ORACLES, *only) or (WORTHLESS in only and check in KINDS)
