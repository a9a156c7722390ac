"""A stack's name, and whether a person gave it."""

from __future__ import annotations


class TypedStack(str):
    """One that was typed, or stands in GYM_STACK: it is looked for everywhere, the default only here and above."""

    __slots__ = ()
