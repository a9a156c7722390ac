"""Bodies that no data set should hold: fields that are missing or of another type, replies that are none.

Whatever is wrong with them, a verifier answers with a reward or says which field is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

WRONG: tuple[Any, ...] = (None, True, -1, 1e300, "", "x", "(" * 50, [], [None], [[]], {}, {"a": None})
CONTRACT = ("response", "responses_create_params", "agent_ref")
NO_REPLIES: tuple[Any, ...] = (None, 5, [], {}, {"output": None}, {"output": "text"}, {"output": [5]}, {"output": {}})


class RefusedBody(NamedTuple):
    """A body, what is wrong with it, and the word that a refusal has to name."""

    wrong: str
    field: str
    request: dict[str, Any]
    refused: bool = False  # the contract itself forbids it


def bad_rows(request: Mapping[str, Any], *, few: bool = False) -> Iterator[RefusedBody]:
    """`few`: all fields away at once instead of one after another."""
    yield from _outside_the_contract(request)
    own = [field for field in request if field not in CONTRACT]
    yield RefusedBody("no field of its own", "", {key: request[key] for key in request if key not in own})
    if few:
        return
    for field in own:
        for wrong, value in _changes(request[field]):
            yield RefusedBody(f"{field} {wrong}", field, _with(request, field, value))
        if isinstance(request[field], Mapping):
            yield from _inner(request, field)


def _outside_the_contract(request: Mapping[str, Any]) -> Iterator[RefusedBody]:
    asked = "responses_create_params"
    yield RefusedBody(f"{asked} is missing", asked, _with(request, asked, MISSING), refused=True)
    for reply in NO_REPLIES:
        yield RefusedBody(f"response is {reply!r}", "response", _with(request, "response", reply), refused=True)
    yield RefusedBody("input is 5", "input", _with(request, asked, {"input": 5}), refused=True)


def _inner(request: Mapping[str, Any], field: str) -> Iterator[RefusedBody]:
    """What stands in an object, one step down."""
    inside: Mapping[str, Any] = request[field]
    for name in inside:
        for wrong, value in _changes(inside[name]):
            changed = _with(request, field, _with(inside, name, value))
            yield RefusedBody(f"{field}.{name} {wrong}", field, changed)


MISSING: Any = object()


def _changes(right: Any) -> Iterator[tuple[str, Any]]:
    yield "is missing", MISSING
    yield from ((f"is {value!r}", value) for value in WRONG if value != right)


def _with(held: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    others = {one: held[one] for one in held if one != key}
    return others if value is MISSING else others | {key: value}
