"""Two collections of the same tasks, paired: how far their rewards lie apart, whether chance explains it, what flipped.

A task's repeats count as one pair of means: they are not independent of one another.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from gym.collect.keys import DigestTable
from gym.collect.study.estimates import Interval, p_value_in_steps, sample_in_steps
from gym.collect.study.in_steps import STEP, Steps, finish, gather
from gym.collect.study.recorded import mix, read_rollouts
from gym.errors import UserError

By = Literal["row", "index"]
MAX_LISTED = 1000


class Tried(NamedTuple):
    """What a comparison needs of a rollout."""

    reward: float
    task: int  # `_ng_task_index`
    repeat: int
    digest: int | None  # of the row's text
    line: int


class TaskPair(NamedTuple):
    task: int  # its index in the later collection
    before: float  # means over its repeats
    after: float


@dataclass(frozen=True, slots=True)
class Flip:
    """One rollout that ended on the other side of the border."""

    task: int
    repeat: int
    before: float
    after: float
    where_before: str
    where_after: str


@dataclass(slots=True)
class RolloutComparison:
    before: Path
    after: Path
    tasks: int = 0  # paired
    only_before: int = 0
    only_after: int = 0
    mean_before: float = 0.0  # over the paired tasks
    mean_after: float = 0.0
    difference: float = 0.0
    interval: Interval | None = None  # None where there is one pair only
    p_value: float = 1.0
    better: int = 0  # flips upwards
    worse: int = 0
    flips: list[Flip] = field(default_factory=list)  # the first thousand


class KeyPlaces(Protocol):
    """Where a key stands."""

    def get(self, key: int, /) -> int | None: ...


class Side:
    """A file's tasks and rollouts in about 100 bytes a rollout. `tasks` and `rollouts`: where the arrays have a key."""

    tasks: KeyPlaces
    rollouts: KeyPlaces

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys = array("Q")  # of tasks, in the order of the file
        self.sums = array("d")
        self.counts = array("q")
        self.numbers = array("q")  # `_ng_task_index` of each
        self.rewards = array("d")  # of rollouts, and so on
        self.marks = array("Q")
        self.indices = array("q")
        self.repeats = array("q")
        self.lines = array("q")

    def mean(self, place: int) -> float:
        return self.sums[place] / self.counts[place]

    def where(self, place: int) -> str:
        return f"{self.path}:{self.lines[place]}"


class ComparedSide(Side):
    """Of tries as they come from the file."""

    tasks: DigestTable
    rollouts: DigestTable

    def __init__(self, path: Path, by: By, tries: Iterable[Tried]) -> None:
        super().__init__(path)
        self.tasks = DigestTable(values=True)
        self.rollouts = DigestTable(values=True)
        for tried in tries:
            self._add(tried, by)
        if not self.rewards:
            raise UserError(f"{path}: no rollouts")

    def _add(self, tried: Tried, by: By) -> None:
        if by == "row" and tried.digest is None:
            raise no_key(self.path, tried.line)
        task = tried.digest if by == "row" and tried.digest is not None else mix(tried.task)
        mark = mix(task, tried.repeat)
        if not self.rollouts.add(mark, len(self.rewards)):
            raise there_twice(self.path, tried.line)
        place = self.tasks.get(task)
        if place is None:
            place = len(self.keys)
            self.tasks.add(task, place)
            self.keys.append(task)
            self.sums.append(0.0)
            self.counts.append(0)
            self.numbers.append(tried.task)
        self.sums[place] += tried.reward
        self.counts[place] += 1
        self.rewards.append(tried.reward)
        self.marks.append(mark)
        self.indices.append(tried.task)
        self.repeats.append(tried.repeat)
        self.lines.append(tried.line)


def there_twice(path: Path, line: int) -> UserError:
    return UserError(f"{path}:{line}: this rollout is in the file twice", "remove one of the two lines")


def no_key(path: Path, line: int) -> UserError:
    return UserError(f"{path}:{line}: the line holds no key", "pair the two by their place: --by index")


def compare_rollouts(before: Path, after: Path, *, by: By | None = None, flip_at: float = 0.5) -> RolloutComparison:
    """Pairs by the text of the row, or by `_ng_task_index` where a file has no digests."""
    chosen = by or _choose(before, after)
    first, second = (ComparedSide(path, chosen, _read_tries(path)) for path in (before, after))
    return finish(compare_in_steps(first, second, list(pair_tasks(first, second)), chosen, flip_at))


def compare_in_steps(
    first: Side, second: Side, pairs: Sequence[TaskPair], by: By, flip_at: float
) -> Steps[RolloutComparison]:
    compared = RolloutComparison(first.path, second.path)
    compared.tasks = len(pairs)
    compared.only_before = len(first.keys) - len(pairs)
    compared.only_after = len(second.keys) - len(pairs)
    if not pairs:
        raise UserError(_nothing_shared(first, second, by), _other_way(by))
    compared.mean_before = (yield from sample_in_steps(one.before for one in pairs)).mean
    compared.mean_after = (yield from sample_in_steps(one.after for one in pairs)).mean
    differences = yield from gather(one.after - one.before for one in pairs)
    apart = yield from sample_in_steps(differences)
    compared.difference, compared.interval = apart.mean, apart.interval
    compared.p_value = yield from p_value_in_steps(differences)
    yield from _count_flips(compared, first, second, flip_at)
    return compared


def _count_flips(compared: RolloutComparison, first: Side, second: Side, border: float) -> Steps[None]:
    for start in range(0, len(second.marks), STEP):
        for flip in _find_flips(first, second, border, range(start, min(start + STEP, len(second.marks)))):
            compared.better += flip.after > flip.before
            compared.worse += flip.after < flip.before
            if len(compared.flips) < MAX_LISTED:
                compared.flips.append(flip)
        yield
    compared.flips.sort(key=lambda flip: (flip.task, flip.repeat))


def _choose(before: Path, after: Path) -> By:
    """By the row, unless one of the files was written by a collector that writes no digests."""
    digests = [next((rollout.digest for rollout in read_rollouts(path)), None) for path in (before, after)]
    return "row" if None not in digests else "index"


def _read_tries(path: Path) -> Iterator[Tried]:
    for one in read_rollouts(path):
        yield Tried(one.reward, one.task, one.repeat, one.digest, int(one.where.rpartition(":")[2]))


def pair_tasks(first: Side, second: Side) -> Iterator[TaskPair]:
    return (task_pair(first, second, *places) for places in pair_places(first, second))


def pair_places(first: Side, second: Side) -> Iterator[tuple[int, int]]:
    """Where each task stands that both have, in an order that no file decides."""
    for key in sorted(second.keys):
        place, other = first.tasks.get(key), second.tasks.get(key)
        if place is not None and other is not None:
            yield place, other


def task_pair(first: Side, second: Side, place: int, other: int) -> TaskPair:
    return TaskPair(second.numbers[other], first.mean(place), second.mean(other))


def _find_flips(first: Side, second: Side, border: float, others: Iterable[int]) -> Iterator[Flip]:
    for other in others:
        place = first.rollouts.get(second.marks[other])
        if place is None:
            continue
        before, after = first.rewards[place], second.rewards[other]
        if (before >= border) != (after >= border):
            where = first.where(place), second.where(other)
            yield Flip(second.indices[other], second.repeats[other], before, after, *where)


def _nothing_shared(first: Side, second: Side, by: By) -> str:
    what = "row" if by == "row" else "_ng_task_index"
    return f"{first.path} ({len(first.keys):,} tasks) and {second.path} ({len(second.keys):,} tasks) share no {what}"


def _other_way(by: By) -> str:
    if by == "index":
        return "compare two collections of the same data set"
    return "if it is the same data set with changed texts, pair by place: --by index"
