"""What has changed between two states of an instance, in the user's words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_LONGEST = 60  # of a value in a message
_SAID_BY_FIELDS = "configuration"

Settings = Mapping[str, Mapping[str, Any]]  # by instance: its fields, and the digests of its parts


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """`max_steps: 100 -> 7`, of one instance; "" where nothing that can be shown has changed."""
    old, new = before.get("fields") or {}, now.get("fields") or {}
    changes = list(_changed_fields(old, new))
    then, today = before.get("parts") or {}, now.get("parts") or {}
    changed = [name for name in {**then, **today} if then.get(name) != today.get(name)]
    parts = [name for name in changed if not (changes and name == _SAID_BY_FIELDS)] if then and today else []
    return ", ".join([*changes, *([f"its {' and '.join(parts)} changed"] if parts else [])])


def _changed_fields(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key in {**old, **new}:
        then, now = old.get(key), new.get(key)
        if isinstance(then, Mapping) and isinstance(now, Mapping):
            yield from _changed_fields(then, now, f"{path}{key}.")
        elif then != now or (key in old) != (key in new):
            yield f"{path}{key}: {_shown(old, key)} -> {_shown(new, key)}"


def _shown(fields: Mapping[str, Any], key: str) -> str:
    if key not in fields:
        return "default"
    value = fields[key]
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
