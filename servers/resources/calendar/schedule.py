"""A day's events beside what was asked of them: times, lengths, constraints, and that no two of them overlap."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

MAX_EVENTS = 500  # each is compared with every other
MAX_TRIES = 100  # each may cost a pass over the text
_LIST = re.compile(r"\[\s*\{")
_DECODER = json.JSONDecoder()


class BadTime(ValueError):
    """Not a time of day."""


class Wanted(NamedTuple):
    """What one event has to keep to, in minutes of the day."""

    duration: float
    earliest: float
    latest: float
    starts: float | None = None


def read_wanted(duration: float, min_time: str, max_time: str, constraint: str | None) -> Wanted:
    """`before 2pm`, `after 10:30am`, `between 9am and 11am`, `at 13:00`; other words ask for nothing."""
    earliest, latest = minutes(min_time), minutes(max_time)
    kind, _, when = (constraint or "").partition(" ")
    if kind == "before":
        return Wanted(duration, earliest, min(latest, minutes(when)))
    if kind == "after":
        return Wanted(duration, max(earliest, minutes(when)), latest)
    if kind == "between":
        begin, _, end = when.partition(" and ")
        return Wanted(duration, max(earliest, minutes(begin)), min(latest, minutes(end)))
    if kind == "at":
        return Wanted(duration, earliest, latest, minutes(when))
    return Wanted(duration, earliest, latest)


def minutes(time: Any) -> int:
    """Of `10am`, `2:15pm` or `14:00`, since midnight."""
    if not isinstance(time, str):
        raise BadTime(f"{time!r} is not a time of day")
    half = next((one for one in ("am", "pm") if one in time), "")
    hour, colon, minute = time.replace(half, "").partition(":") if half else time.partition(":")
    try:
        if not half and not colon:
            raise ValueError
        at = int(hour), int(minute) if colon else 0
    except ValueError:
        raise BadTime(f"{time[:40]!r} is not a time of day") from None
    if half and at[0] == 12:
        at = 0, at[1]
    return at[0] * 60 + at[1] + (720 if half == "pm" else 0)


def find_events(text: str) -> list[Any] | None:
    """The first JSON list of objects in a text."""
    for opening in islice(_LIST.finditer(text), MAX_TRIES):
        try:
            found, _ = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, list):
            return found
    return None


def find_fault(events: list[Any] | None, wanted: Mapping[str, Wanted], *, strict: bool) -> str:
    """What is wrong with a calendar, as a word; nothing when it is as it should be."""
    if not events:
        return "no_json_list"
    try:
        planned = [_planned(event, strict=strict) for event in events[:MAX_EVENTS]]
    except (BadTime, KeyError, TypeError):
        return "error_in_grading"
    by_id = {one.id: one for one in planned}
    if len(by_id) != len(wanted) or (strict and len(planned) != len(wanted)):
        return "different_number_of_events"
    if any(_conflict(one, other) for one in planned for other in planned):
        return "conflicting_events"
    if not wanted.keys() <= by_id.keys():
        return "error_in_grading"
    kept = all(_keeps(by_id[key], one) for key, one in wanted.items())
    return "" if kept else "constraint_violated"


class _Planned(NamedTuple):
    id: str
    start: float
    duration: float
    event: Mapping[str, Any]


def _planned(event: Any, *, strict: bool) -> _Planned:
    duration = event["duration"]
    if isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise TypeError("a duration is a number")
    time = event["start_time"]
    if strict and isinstance(time, str):
        time = time.lower()
    return _Planned(str(event["event_id"]), minutes(time), duration, event)


def _conflict(one: _Planned, other: _Planned) -> bool:
    if one.event == other.event:
        return False
    return one.start < other.start + other.duration and other.start < one.start + one.duration


def _keeps(planned: _Planned, wanted: Wanted) -> bool:
    if planned.duration != wanted.duration or wanted.starts not in (None, planned.start):
        return False
    return planned.start >= wanted.earliest and planned.start + planned.duration <= wanted.latest
