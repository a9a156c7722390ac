"""A group of rollouts of one row: as it grows, and as a trainer gets it. What failed or was cancelled has no reward."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from gym.collect.attempts import TaskResult
from gym.collect.provenance import AttemptInfo
from gym.collect.rollout_stream import Rollout, ended_to_rollout
from gym.collect.task_reader import Task
from gym.trainers.blend import Draw
from gym.trainers.pace import Pace
from gym.wire.failures import RolloutError

VERSION: Final = "policy_version"  # in `_gym` of each line: of the policy when the rollout began
ENDED_VERSION: Final = "policy_version_ended"  # where it had become another one when the rollout ended

Why = Literal["", "cut", "stale", "drained", "called off", "ended"]
WORDS: Final[dict[str, str]] = {
    "cut": "cut off: its group was full",
    "stale": "begun under a version of the policy that is too old by now",
    "drained": "still under way when the time to drain was over",
    "called off": "its group was called off",
    "ended": "the stream ended",
}


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """`rollouts` have rewards; `failures` and `cancelled` say what became of the rest, and are never a reward of 0."""

    source: str
    row: int  # the place of the row in its source, from 0
    epoch: int
    size: int  # as many rollouts as were asked for
    rollouts: tuple[Rollout, ...]
    versions: tuple[int, ...]  # of the policy when each of the rollouts began
    failures: tuple[Rollout, ...] = ()
    cancelled: tuple[Rollout, ...] = ()
    stale: bool = False  # one of them is further behind than `max_stale`: with stale="mark" only

    @property
    def complete(self) -> bool:
        return len(self.rollouts) == self.size

    @property
    def rewards(self) -> tuple[float, ...]:
        return tuple(one.reward for one in self.rollouts if one.reward is not None)

    def facts(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "row": self.row,
            "epoch": self.epoch,
            "size": self.size,
            "complete": self.complete,
            "stale": self.stale,
            "versions": self.versions,
        }

    def to_line(self) -> bytes:
        """One line of JSON; rollouts in it are the very lines that `gym rollouts` would have written."""
        lists = (("rollouts", self.rollouts), ("failures", self.failures), ("cancelled", self.cancelled))
        parts = [b'"%b":[%b]' % (name.encode(), b",".join(one.line.rstrip() for one in some)) for name, some in lists]
        return b'{"group":%b,%b}\n' % (orjson.dumps(self.facts()), b",".join(parts))


@dataclass(slots=True, eq=False)
class GrowingGroup:
    """What is known of a group so far."""

    draw: Draw
    size: int
    good: list[tuple[Task, TaskResult, int]] = field(default_factory=list)  # and the version under which it began
    failures: list[Rollout] = field(default_factory=list)
    cancelled: list[Rollout] = field(default_factory=list)
    running: set[GroupRoll] = field(default_factory=set)
    restarts: dict[str, int] = field(default_factory=dict)  # by key: of rollouts that were restarted

    @property
    def rewards(self) -> list[float]:
        return [ended.rolled.reward for _, ended, _ in self.good if ended.rolled]

    @property
    def has_begun(self) -> bool:
        return bool(self.good or self.failures or self.cancelled) or any(roll.began for roll in self.running)

    @property
    def is_full(self) -> bool:
        return len(self.good) >= self.size

    @property
    def is_equal(self) -> bool:
        """Every reward is the same: nothing to learn from. An incomplete group is never called so."""
        rewards = self.rewards
        return self.is_full and min(rewards) == max(rewards)

    def add(self, task: Task, ended: TaskResult, version: int) -> None:
        if ended.rolled is not None:
            self.good.append((task, ended, version))
            return
        if ended.failure is None:
            asked = RolloutError("agent", "the agent asked not to keep it", server=task.agent, retryable=False)
            ended = TaskResult(None, asked, ended.how)
        self.failures.append(ended_to_rollout(task, ended))

    def drop_stale(self, oldest: int) -> list[tuple[Task, TaskResult, int]]:
        """Takes out what has ended and was begun before `oldest`."""
        stale = [one for one in self.good if one[2] < oldest]
        if stale:
            self.good = [one for one in self.good if one[2] >= oldest]
        for task, ended, _ in stale:
            self.cancelled.append(_called_off(task, ended.how, "stale"))
        return stale

    def freeze(self, oldest: int | None) -> RolloutGroup:
        good = self.good[: self.size]
        versions = tuple(version for _, _, version in good)
        return RolloutGroup(
            source=self.draw.part.name,
            row=self.draw.number,
            epoch=self.draw.epoch,
            size=self.size,
            rollouts=tuple(ended_to_rollout(task, ended) for task, ended, _ in good),
            versions=versions,
            failures=tuple(self.failures),
            cancelled=tuple(self.cancelled),
            stale=oldest is not None and bool(versions) and min(versions) < oldest,
        )


@dataclass(slots=True, eq=False)
class GroupRoll:
    """One rollout of a group on its way: it waits for its turn, and knows the version under which it began."""

    task: Task
    group: GrowingGroup
    pace: Pace
    tries: int  # attempts that have begun, with those before a restart
    version: int = 0
    started: bool = False
    inside: bool = False
    why: Why = ""  # it was cancelled
    began: float = 0.0
    _clock: float = 0.0
    _noted: dict[str, Any] = field(default_factory=dict)
    work: asyncio.Task[None] | None = None

    async def enter(self) -> dict[str, Any]:
        await self.pace.take()
        self.inside, self.version = True, self.pace.version
        self.tries += 1
        self.began, self._clock = time.time(), time.monotonic()
        self._noted = {VERSION: self.version}
        return self._noted

    def leave(self) -> None:
        if self.pace.version != self.version:
            self._noted[ENDED_VERSION] = self.pace.version
        self.inside = False
        self.pace.give()

    def cancel(self, why: Why) -> None:
        if self.why:
            return
        self.why = why
        if self.work is not None and self.started:  # else it looks at `why` before it begins
            self.work.cancel()

    def record(self, why: Why) -> Rollout | None:
        """None when not one attempt of it has begun: there is nothing to tell."""
        if not self.began:
            return None
        how = AttemptInfo(self.tries, self.began, time.monotonic() - self._clock, facts=dict(self._noted))
        return _called_off(self.task, how, why)


def _called_off(task: Task, how: AttemptInfo, why: Why) -> Rollout:
    failure = RolloutError("cancelled", WORDS[why], server=task.agent, retryable=False)
    return ended_to_rollout(task, TaskResult(None, failure, how._replace(facts={**how.facts, "why": why})))
