"""Tool calls as a verifier compares them: their arguments, equal JSON values, and which call matches which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from gym.wire.failures import RolloutError


def read_arguments(arguments: Any) -> Any:
    """The value of a call's JSON text (an object as it is); None for what is not JSON or cannot be written as JSON."""
    try:
        read = orjson.loads(arguments) if isinstance(arguments, str | bytes) else arguments
        orjson.dumps(read)  # refuses what is nested without end
    except (ValueError, TypeError):
        return None
    return read


def same_json(one: Any, other: Any) -> bool:
    """As JSON sees it: 1 is 1.0 and is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def greatest_matching(wanted: int, given: int, fits: Callable[[int, int], bool]) -> int:
    """How many of `wanted` can each have one of `given` to itself."""
    return len(greatest_pairing(wanted, given, fits))


def greatest_pairing(wanted: int, given: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """A largest matching: which of `given` each of `wanted` gets. Recurses at most as deep as the smaller number."""
    edges = [[number for number in range(given) if fits(one, number)] for one in range(wanted)]
    holder: dict[int, int] = {}

    def place(one: int, tried: set[int]) -> bool:
        for number in edges[one]:
            if number not in tried:
                tried.add(number)
                if number not in holder or place(holder[number], tried):
                    holder[number] = one
                    return True
        return False

    for one in sorted(range(wanted), key=lambda one: len(edges[one])):  # those with the fewest choices first
        place(one, set())
    return {one: number for number, one in holder.items()}


def refuse_unoffered(names: Iterable[str], tools: Iterable[Mapping[str, Any]], *, field: str) -> None:
    """Refuses a row that expects a call of a tool that it does not offer. A row without tools passes."""
    offered = {function.get("name") for tool in tools if isinstance(function := tool.get("function", tool), Mapping)}
    missing = next((name for name in names if name not in offered), None)
    if offered and missing is not None:
        there = ", ".join(sorted(map(str, offered)))[:200]
        raise RolloutError("row", f"{field}: the row offers no tool named {missing!r}, only {there}")
