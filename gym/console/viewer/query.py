"""What a person asked the list for, which lines answer it, in which order, and how their rewards lie."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, get_args

from gym.console.viewer.columns import BREAKS, TRUNCATED, Columns
from gym.console.viewer.facts import MALFORMED
from gym.console.viewer.lines import LineFile
from gym.errors import UserError

Sort = Literal["file", "task", "disagree", "reward", "-reward", "-seconds", "-tokens", "-steps", "-began"]
SORTS: tuple[str, ...] = get_args(Sort)
VERIFIED, FAILED = "verified", "failed"
MAX_BARS = 20
_FEW_VALUES = 12  # so many distinct rewards get a bar each

Place = tuple[int, int]  # (file, line of those indexed)


@dataclass(frozen=True, slots=True)
class Query:
    runs: tuple[str, ...] = ()  # all, where there is none
    agent: str | None = None
    kind: str = ""  # verified | failed | malformed | a kind of failure
    low: float = -math.inf
    high: float = math.inf
    component: str = ""  # of the reward, or a number that the verifier added
    least: float = -math.inf
    most: float = math.inf
    tool: str = ""
    task: int | None = None
    text: str = ""
    flagged: bool = False
    truncated: bool = False
    breaks: bool = False
    sort: str = "file"

    @property
    def has_range(self) -> bool:
        return self.low > -math.inf or self.high < math.inf


def read_query(asked: Mapping[str, str]) -> Query:
    """From the parameters of a URL; a person's typing slip is said, not guessed away."""
    sort = asked.get("sort") or "file"
    if sort not in SORTS:
        raise UserError(f"sort={sort[:40]}: expected one of {', '.join(SORTS)}")
    every = getattr(asked, "getlist", None)
    runs = every("run") if every is not None else [asked["run"]] if "run" in asked else []
    return Query(
        runs=tuple(run for run in runs if run),
        agent=asked.get("agent"),
        kind=asked.get("kind", ""),
        low=_number("low", asked.get("low") or "-inf"),
        high=_number("high", asked.get("high") or "inf"),
        component=asked.get("component", ""),
        least=_number("least", asked.get("least") or "-inf"),
        most=_number("most", asked.get("most") or "inf"),
        tool=asked.get("tool", ""),
        task=_whole("task", asked.get("task", "")),
        text=asked.get("text", "").strip(),
        flagged=_switch("flagged", asked),
        truncated=_switch("truncated", asked),
        breaks=_switch("breaks", asked),
        sort=sort,
    )


@dataclass(frozen=True, slots=True)
class Places(Sequence[Place]):
    """Packed: a pair of numbers would take ten times the memory."""

    BITS: ClassVar = 40  # of the line
    MASK: ClassVar = (1 << 40) - 1
    packed: array[int]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, at: Any) -> Any:
        found = self.packed[at]
        return [_unpack(one) for one in found] if isinstance(at, slice) else _unpack(found)

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, Iterable) else other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Found:
    places: Sequence[Place]
    bars: Sequence[tuple[float, float, int]]  # (from, to, how many); of all rewards, the range set aside
    searched: float = 1.0  # the part of the lines whose text was looked at


TextFilter = Callable[[int, LineFile, Sequence[int]], tuple[Sequence[int], int]]  # (those that say it, not looked at)
Flags = Callable[[LineFile], Collection[int]]  # lines as an editor counts them


@dataclass(frozen=True, slots=True)
class Sources:
    """What a query is asked of."""

    files: Sequence[tuple[int, LineFile]]  # with their numbers
    says: TextFilter
    flags: Flags = field(default=lambda _: ())


def find(sources: Sources, query: Query) -> Found:
    rewards = array("d")
    places = array("Q")
    looked = left = 0
    for number, file in sources.files:
        if query.runs and file.run not in query.runs:
            continue
        candidates = _matching(file, query, sources.flags)
        if query.text:
            looked += len(candidates)
            candidates, unknown = sources.says(number, file, candidates)
            left += unknown
        values = file.columns.rewards
        rewards.extend(values if isinstance(candidates, range) else [values[index] for index in candidates])
        if query.has_range:
            candidates = [index for index in candidates if query.low <= values[index] <= query.high]
        base = number << Places.BITS
        places.extend(
            range(base, base + len(candidates))
            if isinstance(candidates, range)
            else [base + index for index in candidates]
        )
    in_order = places if query.sort == "file" else _sorted(dict(sources.files), places, query.sort)
    return Found(Places(in_order), draw_bars(rewards), 1 - left / looked if left else 1.0)


def draw_bars(rewards: Sequence[float]) -> list[tuple[float, float, int]]:
    """A bar for each value where there are few, else bars of one width. NaN is not a reward."""
    counts = Counter([reward for reward in rewards if reward == reward])
    if len(counts) <= _FEW_VALUES:
        return [(value, value, count) for value, count in sorted(counts.items())]
    low, high = min(counts), max(counts)
    width = (high - low) / MAX_BARS
    bins: Counter[int] = Counter()
    for reward, count in counts.items():
        bins[min(int((reward - low) / width), MAX_BARS - 1)] += count
    return [(low + each * width, low + (each + 1) * width, bins[each]) for each in range(MAX_BARS)]


def is_kind(kind: str, wanted: str) -> bool:
    if wanted == VERIFIED:
        return not kind
    return bool(kind) and kind != MALFORMED if wanted == FAILED else kind == wanted


def _matching(file: LineFile, query: Query, flags: Flags) -> Sequence[int]:
    columns = file.columns
    found: Sequence[int] = range(len(columns))
    if query.task is not None:
        found = _equal(found, columns.tasks, query.task)
    if query.agent is not None:
        malformed = columns.names.find(MALFORMED)
        found = _equal(found, columns.agents, columns.names.find(query.agent))
        found = [index for index in found if columns.kinds[index] != malformed]
    if query.kind:
        kinds = {number for number, name in enumerate(columns.texts) if is_kind(name, query.kind)}
        found = [index for index in found if columns.kinds[index] in kinds]
    if query.tool:
        sets = {number for number in set(columns.toolsets) if query.tool in columns.tools(number)}
        found = [index for index in found if columns.toolsets[index] in sets]
    if marks := TRUNCATED * query.truncated | BREAKS * query.breaks:
        found = [index for index in found if columns.marks[index] & marks == marks]
    if query.component:
        found = _within(found, columns, query)
    if query.flagged:
        flagged = frozenset(flags(file))
        found = [index for index in found if columns.numbers[index] in flagged]
    return found


def _equal(indices: Sequence[int], column: array[int], value: int) -> Sequence[int]:
    """Of the whole column at the speed of C."""
    if isinstance(indices, range):
        return [] if value < 0 else [index for index, one in enumerate(column) if one == value]
    return [index for index in indices if column[index] == value]


def _within(indices: Sequence[int], columns: Columns, query: Query) -> Sequence[int]:
    """Lines without the component are outside of every range."""
    values = columns.components.get(query.component)
    if values is None:
        return []
    return [index for index in indices if query.least <= values[index] <= query.most]


def _sorted(files: Mapping[int, LineFile], places: array[int], sort: str) -> array[int]:
    """Unknown values come last in both directions; equal ones stay in the order of the file."""
    if sort in ("task", "disagree"):
        return array("Q", sorted(places, key=_by_task(files)))
    name, back = sort.lstrip("-"), sort.startswith("-")
    columns = {number: file.columns.column("rewards" if name == "reward" else name) for number, file in files.items()}
    values = _values(columns, places)
    least = -math.inf if name == "reward" else 0  # below it, and NaN, is not known
    some = math.isnan(sum(values)) or min(values, default=0) < least
    unknown = [at for at, value in enumerate(values) if not value >= least] if some else []
    known = [at for at, value in enumerate(values) if value >= least] if some else list(range(len(values)))
    known.sort(key=values.__getitem__, reverse=back)
    order = chain(known, unknown)
    every_line = bool(places) and places[-1] == len(places) - 1  # they ascend: then each is its own position
    return array("Q", order if every_line else map(places.__getitem__, order))


def _values(columns: Mapping[int, Sequence[float]], places: array[int]) -> Sequence[float]:
    """Of all lines of one file as they stand there: at the speed of C."""
    for column in columns.values():
        if len(columns) == 1 and len(column) == len(places):
            return column
    return [columns[place >> Places.BITS][place & Places.MASK] for place in places]


def _by_task(files: Mapping[int, LineFile]) -> Callable[[int], tuple[bool, int, int]]:
    def key(place: int) -> tuple[bool, int, int]:
        columns, index = files[place >> Places.BITS].columns, place & Places.MASK
        task = columns.tasks[index]
        return task < 0, task, columns.repeats[index]

    return key


def _unpack(place: int) -> Place:
    return place >> Places.BITS, place & Places.MASK


def _switch(name: str, asked: Mapping[str, str]) -> bool:
    text = asked.get(name, "")
    if text not in ("", "0", "1"):
        raise UserError(f"{name}={text[:40]}: expected 1, or nothing")
    return text == "1"


def _whole(name: str, text: str) -> int | None:
    if text and not (text.isdecimal() and len(text) < 12):
        raise UserError(f"{name}={text[:40]}: expected a whole number")
    return int(text) if text else None


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{name}={text[:40]}: expected a number") from None
