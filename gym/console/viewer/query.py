"""What a person asked the list for, which lines answer it, in which order, and how their rewards lie."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gym.console.viewer.facts import MALFORMED, parse_line
from gym.console.viewer.lines import LineFile
from gym.errors import UserError

Sort = Literal["file", "task", "reward", "-reward", "-seconds", "-tokens"]
SORTS: tuple[str, ...] = get_args(Sort)
VERIFIED, FAILED = "verified", "failed"
MAX_BARS = 20
_FEW_VALUES = 12  # so many distinct rewards get a bar each
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789 .,:;_-+*=()[]{}?!")  # what JSON writes as it is

Place = tuple[int, int]  # (file, line of those indexed)


@dataclass(frozen=True, slots=True)
class Query:
    agent: str | None = None
    kind: str = ""  # verified | failed | malformed | a kind of failure
    file: int | None = None
    low: float = -math.inf
    high: float = math.inf
    text: str = ""
    sort: str = "file"

    @property
    def has_range(self) -> bool:
        return self.low > -math.inf or self.high < math.inf


def read_query(asked: Mapping[str, str]) -> Query:
    """From the parameters of a URL; a person's typing slip is said, not guessed away."""
    sort = asked.get("sort") or "file"
    if sort not in SORTS:
        raise UserError(f"sort={sort}: expected one of {', '.join(SORTS)}")
    file = asked.get("file", "")
    return Query(
        agent=asked.get("agent"),
        kind=asked.get("kind", ""),
        file=int(_number("file", file)) if file else None,
        low=_number("low", asked.get("low") or "-inf"),
        high=_number("high", asked.get("high") or "inf"),
        text=asked.get("text", "").strip(),
        sort=sort,
    )


@dataclass(frozen=True, slots=True)
class Found:
    places: Sequence[Place]
    bars: Sequence[tuple[float, float, int]]  # (from, to, how many); of all rewards, the range set aside


def find(files: Sequence[LineFile], query: Query) -> Found:
    rewards = array("d")
    places: list[Place] = []
    for number, file in enumerate(files):
        if query.file not in (None, number):
            continue
        for index in _matching(file, query):
            reward = file.columns.rewards[index]
            if not math.isnan(reward):
                rewards.append(reward)
            if not query.has_range or query.low <= reward <= query.high:
                places.append((number, index))
    if query.sort != "file":
        places.sort(key=_sort_key(files, query.sort))
    return Found(places, draw_bars(rewards))


def draw_bars(rewards: Sequence[float]) -> list[tuple[float, float, int]]:
    """A bar for each value where there are few, else bars of one width."""
    counts: Counter[float] = Counter()
    for reward in rewards:
        counts[reward] += 1
        if len(counts) > _FEW_VALUES:
            break
    else:
        return [(value, value, count) for value, count in sorted(counts.items())]
    low, high = min(rewards), max(rewards)
    width = (high - low) / MAX_BARS
    bins = Counter(min(int((reward - low) / width), MAX_BARS - 1) for reward in rewards)
    return [(low + each * width, low + (each + 1) * width, bins[each]) for each in range(MAX_BARS)]


def _matching(file: LineFile, query: Query) -> Iterator[int]:
    found: Iterable[int] = range(len(file))
    columns = file.columns
    if query.agent is not None:
        agent, malformed = columns.names.find(query.agent), columns.names.find(MALFORMED)
        found = (index for index in found if columns.agents[index] == agent and columns.kinds[index] != malformed)
    if query.kind:
        kinds = {number for number, name in enumerate(columns.texts) if _is_kind(name, query.kind)}
        found = (index for index in found if columns.kinds[index] in kinds)
    return _saying(file, found, query.text) if query.text and len(file) else iter(found)


def _is_kind(kind: str, wanted: str) -> bool:
    if wanted == VERIFIED:
        return not kind
    return bool(kind) and kind != MALFORMED if wanted == FAILED else kind == wanted


def _saying(file: LineFile, indices: Iterable[int], text: str) -> Iterator[int]:
    """Those with the text in any of their values, upper and lower case alike."""
    wanted = text.casefold()
    sieve = wanted.encode() if set(wanted) <= _PLAIN else b""
    with file.path.open("rb", buffering=0) as stream:
        for index in indices:
            raw = file.read_from(stream.fileno(), index)
            if (not sieve or sieve in raw.lower()) and _says(raw, wanted):
                yield index


def _says(raw: bytes, wanted: str) -> bool:
    row, _ = parse_line(raw)
    if row is None:
        return wanted in raw.decode("utf-8", "replace").casefold()
    return any(wanted in text.casefold() for text in _texts(row))


def _texts(value: Any) -> Iterator[str]:
    """Every text in it, keys left out: `input` stands in each row."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _sort_key(files: Sequence[LineFile], sort: str) -> Callable[[Place], tuple[Any, ...]]:
    """What is not known comes last, whichever way round."""
    read_value = _VALUES["reward" if sort == "task" else sort.lstrip("-")]

    def by_task(place: Place) -> tuple[Any, ...]:
        file, index = files[place[0]], place[1]
        return file.columns.tasks[index] < 0, file.columns.tasks[index], file.columns.repeats[index], place

    def by_value(place: Place) -> tuple[Any, ...]:
        file, index = files[place[0]], place[1]
        value = read_value(file, index)
        unknown = math.isnan(value)
        return unknown, 0.0 if unknown else -value if sort.startswith("-") else value, place

    return by_task if sort == "task" else by_value


_VALUES: dict[str, Callable[[LineFile, int], float]] = {
    "reward": lambda file, index: file.columns.rewards[index],
    "seconds": lambda file, index: file.columns.seconds[index],
    "tokens": lambda file, index: math.nan if file.columns.tokens[index] < 0 else file.columns.tokens[index],
}


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{name}={text[:40]}: expected a number") from None
