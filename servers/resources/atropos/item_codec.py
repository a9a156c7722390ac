"""Items of `get_next_item` as JSON and back: what JSON has no word for stands under `$tuple` or `$frozenset`."""

from __future__ import annotations

from typing import Any

KINDS: dict[str, type] = {"$tuple": tuple, "$frozenset": frozenset}


def write_item(item: Any) -> Any:
    for name, kind in KINDS.items():
        if isinstance(item, kind):
            return {name: [write_item(one) for one in item]}
    if isinstance(item, list):
        return [write_item(one) for one in item]
    if isinstance(item, dict):
        return {str(key): write_item(one) for key, one in item.items()}
    if item is None or isinstance(item, bool | int | float | str):
        return item
    raise TypeError(f"{type(item).__name__} cannot be part of a row: {item!r:.100}")


def read_item(item: Any) -> Any:
    if isinstance(item, list):
        return [read_item(one) for one in item]
    if not isinstance(item, dict):
        return item
    for name, kind in KINDS.items():
        if list(item) == [name] and isinstance(item[name], list):
            return kind(read_item(one) for one in item[name])
    return {key: read_item(one) for key, one in item.items()}
