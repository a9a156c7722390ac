"""Points in time as people and models write them. What cannot be read raises ValueError."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%B %d, %Y", "%B %d %Y", "%d %B %Y", "%b %d, %Y", "%b %d %Y", "%d %b %Y")
_TIMES = ("", " %H:%M:%S", " %H:%M", " %I:%M %p", " %I:%M%p", " %I %p")
_UNREADABLE = "could not convert string to Timestamp"
_EPOCH = datetime(1970, 1, 1)


def read_time(value: Any) -> datetime:
    """A number counts nanoseconds since 1970, as it does in the data frames that older rewards were made with."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(microseconds=value / 1000)
        except OverflowError:
            raise ValueError(f"{value} is out of bounds") from None
    if not isinstance(value, str):
        raise TypeError(f"Cannot convert input [{value}] of type {type(value).__name__} to Timestamp")
    if len(value) > 64:
        raise ValueError(_UNREADABLE)
    return _parse(value.strip())


@lru_cache(maxsize=4096)
def _parse(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    for form in _forms():
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError(_UNREADABLE)


def _forms() -> Iterator[str]:
    for day in _DAYS:
        for time in _TIMES:
            yield day + time
    yield from ("%Y-%m", "%Y")
