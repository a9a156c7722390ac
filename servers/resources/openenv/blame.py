"""What a validator of the environment complains about: the action that was sent, or something of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

SHOWN = 5  # complaints that the policy is sent


class Detail(NamedTuple):
    place: tuple[Any, ...]
    said: str
    input: Any


def read_details(found: Any) -> list[Detail]:
    """The validator's list, as far as it is one."""
    known = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [Detail(_place(one.get("loc")), str(one.get("msg", "")), one.get("input")) for one in known]


def is_of_action(detail: Detail, action: dict[str, Any]) -> bool:
    """The value that it complains about stands in the action, where it says so.

    A place may hold names that are not keys (of a union's members), and ends before a field that is missing.
    """
    value: Any = action
    for part in detail.place:
        there = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        value = value[part] if part in there else value
    return bool(value == detail.input)


def shown_details(details: list[Detail]) -> str:
    shown = [f"{'.'.join(map(str, one.place))}: {one.said}" if one.place else one.said for one in details[:SHOWN]]
    return "; ".join(shown)


def _place(found: Any) -> tuple[Any, ...]:
    return tuple(one for one in found if isinstance(one, str | int)) if isinstance(found, list) else ()
