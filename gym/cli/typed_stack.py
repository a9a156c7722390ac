"""A stack's name, and whether a person gave it."""

from __future__ import annotations

import re


class TypedStack(str):
    """One that was typed, or stands in GYM_STACK: it is looked for everywhere, the default only here and above."""

    __slots__ = ()


def is_stack_name(name: str) -> bool:
    """It becomes a folder, so its letters are few."""
    return re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name) is not None
