"""What a trainer may ask of a stream of groups. Each option is checked before anything starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from gym.collect.collect_options import AttemptOptions, check, check_params
from gym.errors import UserError

T = TypeVar("T")
Stale = Literal["cancel", "mark"]
MAX_GROUP_SIZE, MAX_AHEAD = 10_000, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Which rows are worth another visit, by the pass rates that this stream measures itself.

    A row outside `low` to `high` rests for some epochs. Rows that were never measured are always taken.
    """

    low: float = 0.0
    """A row whose pass rate is not above this rests. With the default, rows that never passed rest too."""
    high: float = 1.0
    """A row whose pass rate is not below this rests."""
    passes_at: float = 0.5
    """A reward of at least this is a pass."""
    rest: int = 3
    """How many epochs a row rests."""
    prior: str = ""
    """The field of a row that holds a pass rate measured before."""
    next_level_at: float | None = None
    """Parts of a blend open one after the other, when the last open one passes so much."""

    def __post_init__(self) -> None:
        check(0 <= self.low < self.high <= 1, "low and high", f"{self.low:g} and {self.high:g}", "0 <= low < high <= 1")
        check(1 <= self.rest <= 1000, "rest", self.rest, "between 1 and 1,000 epochs")
        level = self.next_level_at
        check(level is None or 0 < level <= 1, "next_level_at", level, "above 0 and at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions(AttemptOptions):
    """How groups are made; what a single rollout may take (`timeout`, `max_attempts`, …) is as in any collection."""

    size: int = 8
    """Rollouts of one row in a group."""
    limit: int | None = None
    """Groups in all; those that were dropped do not count."""
    epochs: int | None = 1
    """How often the rows are gone through; `null`: for ever."""
    ahead: int | None = None
    """Groups under way or waiting to be taken; `null`: what keeps `concurrency` busy."""
    extra: int = 0
    """Repeats beyond `size`: the first `size` make the group, the stragglers are cancelled."""
    drop_equal: bool = False
    """Groups whose rewards are all equal are dropped and replaced."""
    max_drops: int = 100
    """Dropped in a row, of one part of the blend; then the stream fails."""
    version: int = 0
    """The policy's version at the start."""
    max_stale: int | None = None
    """How many versions a rollout may be behind; `null`: any."""
    stale: Stale = "cancel"
    """What happens to older ones: restarted, or delivered and marked."""
    curriculum: Curriculum | None = None
    """Which rows are worth another visit, below."""
    share: float | None = None
    """Its part of the stack's places, beside other streams that name a share; `null`: not counted."""
    name: str = "trainer"
    """What the console calls it."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Over every row's `responses_create_params`."""
    skip_bad_rows: bool = False
    """Leave malformed rows out and go on."""

    def __post_init__(self) -> None:
        AttemptOptions.__post_init__(self)
        check(1 <= self.size <= MAX_GROUP_SIZE, "size", self.size, f"between 1 and {MAX_GROUP_SIZE:,}")
        check(self.limit is None or self.limit >= 1, "limit", self.limit, "at least 1 group, or left out")
        check(self.epochs is None or self.epochs >= 1, "epochs", self.epochs, "at least 1, or None for ever")
        check(self.ahead is None or 1 <= self.ahead <= MAX_AHEAD, "ahead", self.ahead, f"1 to {MAX_AHEAD:,} groups")
        check(0 <= self.extra <= MAX_GROUP_SIZE, "extra", self.extra, f"between 0 and {MAX_GROUP_SIZE:,}")
        check(self.max_drops >= 1, "max_drops", self.max_drops, "at least 1")
        check(self.max_stale is None or self.max_stale >= 0, "max_stale", self.max_stale, "0 versions or more")
        check(self.stale in get_args(Stale), "stale", repr(self.stale), "'cancel' or 'mark'")
        check(self.share is None or 0 < self.share < 1e6, "share", self.share, "a weight above 0, as in 1 or 2.5")
        check(not self.drop_equal or self.size > 1, "size", 1, "at least 2 with drop_equal: one reward equals itself")
        check_params(self.params)
        check(self.drain > 0, "drain", self.drain, "more than 0 seconds")

    @property
    def groups_ahead(self) -> int:
        return self.ahead or max(1, -(-self.concurrency // self.size))


def read_options(fields: Mapping[str, Any]) -> GroupOptions:
    """Options from a trainer's configuration or a request. An unknown one is refused with the nearest known."""
    return read_known(GroupOptions, fields)


def read_known(kind: type[T], fields: Mapping[str, Any], where: str = "") -> T:
    known = list(get_type_hints(kind))
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {where}{near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UserError(f"there is no option {where}{name!s:.100}", hint)
    given = dict(fields)
    if isinstance(given.get("curriculum"), Mapping):
        given["curriculum"] = read_known(Curriculum, given["curriculum"], "curriculum.")
    return kind(**{name: _read(kind, name, value, where) for name, value in given.items()})


def _read(kind: type[Any], name: str, value: object, where: str) -> Any:
    hint = get_type_hints(kind)[name]
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        found = error.errors()[0]
        raise UserError(f"{where}{name}: {found['msg']}, found {str(found['input'])[:100]!r}") from None
