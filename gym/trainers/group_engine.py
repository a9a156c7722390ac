"""Makes groups: draws rows, runs their rollouts through the collector's own attempts, and never more than asked for."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine
from typing import Any

from gym.collect.attempts import Attempts, TaskResult
from gym.collect.circuit_breaker import GaveUp
from gym.collect.provenance import AttemptInfo
from gym.collect.task_reader import Task
from gym.errors import GymError, InfraError, UserError, first_error
from gym.trainers.blend import Blend, Draw
from gym.trainers.group_options import GroupOptions
from gym.trainers.groups import WORDS, GroupRoll, GrowingGroup, RolloutGroup, Why
from gym.trainers.pace import Pace
from gym.wire.failures import RolloutError

_DROP_HINT = "take rows that the policy passes sometimes, a higher temperature or a curriculum; or raise max_drops"


class GroupEngine:
    """One TaskGroup owns every rollout. Groups wait in `ready` until they are taken, and hold their place till then."""

    def __init__(self, attempts: Attempts, blend: Blend, options: GroupOptions) -> None:
        self.attempts = attempts
        self.blend = blend
        self.options = options
        self.pace = Pace(options.concurrency, options.version)
        self.growing: set[GrowingGroup] = set()
        self.ready: deque[GrowingGroup] = deque()
        self.delivered = 0
        self.failures: Counter[str] = Counter()  # by kind; of groups that were taken
        self.called_off: Counter[str] = Counter()  # rollouts under way that were cancelled, by reason
        self.error: GymError | None = None
        self.paused_reason = ""
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._feed_ended = False
        self._ended = False
        self._bug: BaseException | None = None
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Until everything was taken, or something makes it impossible to go on."""
        self.attempts.open(self._tell_pause)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                watching = [self.attempts.end_pauses(), self.attempts.targets.keep_fresh(), *beside]
                helpers = [tasks.create_task(one) for one in watching]
                tasks.create_task(self._feed())
                while not self._is_over:
                    await self._wait_for_news()
                for helper in helpers:
                    helper.cancel()
        except BaseExceptionGroup as errors:
            self._end_by(first_error(errors))
        finally:
            self._ended = True
            self._tell_news()
            await self.blend.aclose()

    async def take(self) -> RolloutGroup | None:
        """The next group; None after the last. What went wrong is raised when nothing is left that went right."""
        while not self.ready:
            if self.error is not None and not self.growing:
                raise self.error
            if self._is_over:
                return None
            if self._ended:
                raise self._bug or UserError("this stream was closed", "open another one")
            await self._wait_for_news()
        group = self.ready.popleft()
        self.delivered += 1
        self._count(group)
        self._room.set()
        self._tell_news()
        return group.freeze(self._oldest())

    # What a trainer says.

    def set_version(self, version: int) -> None:
        if version < self.pace.version:
            what = f"the policy is at version {self.pace.version}; {version} is an older one"
            raise UserError(what, "a version only goes up: count the weight updates")
        self.pace.version = version
        oldest = self._oldest()
        if oldest is None or self.options.stale == "mark":
            return
        for group in [*self.growing, *self.ready]:
            self._renew(group, oldest)

    def cancel_under_way(self, why: Why) -> int:
        """Cancels the rollouts that have begun; how many. Drained ones are restarted, the others are not."""
        found = [roll for group in self.growing if why == "drained" or group.has_begun for roll in group.running]
        inside = [roll for roll in found if roll.inside]
        for roll in inside if why == "drained" else found:
            roll.cancel(why)
        return len(inside)

    # Making groups.

    @property
    def _is_over(self) -> bool:
        return self._feed_ended and not self.growing and not self.ready

    async def _feed(self) -> None:
        try:
            while await self._wait_for_room() and (draw := await self.blend.draw()) is not None:
                self._begin(draw)
        except GymError as error:
            self._fail(error)
        self._feed_ended = True  # not where it was cancelled: a stream that is closed has not come to its end
        self._tell_news()

    async def _wait_for_room(self) -> bool:
        """False when there will never be any: the limit is reached, or something went wrong."""
        while self.error is None:
            waiting = len(self.growing) + len(self.ready)
            if waiting < self.options.groups_ahead and not self._has_enough(waiting):
                return True
            if self._has_enough(0):
                return False
            self._room.clear()
            await self._room.wait()
        return False

    def _has_enough(self, waiting: int) -> bool:
        limit = self.options.limit
        return limit is not None and self.delivered + waiting >= limit

    def _begin(self, draw: Draw) -> None:
        group = GrowingGroup(draw, self.options.size)
        self.growing.add(group)
        for task in draw.tasks:
            self._start(group, task, tries=0)

    def _start(self, group: GrowingGroup, task: Task, *, tries: int) -> None:
        assert self._tasks is not None
        roll = GroupRoll(task, group, self.pace, tries)
        group.running.add(roll)
        roll.work = self._tasks.create_task(self._roll(roll))

    async def _roll(self, roll: GroupRoll) -> None:
        group, roll.started = roll.group, True
        try:
            if roll.why:  # before it could begin
                raise asyncio.CancelledError
            ended = await self.attempts.run(roll.task, roll, tries=roll.tries)
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not roll.why or (me is not None and me.cancelling() and me.uncancel()):
                raise
            self._end_cancelled(roll)
        else:
            if ended is not None:
                group.add(roll.task, ended, roll.version)
            group.running.discard(roll)
        self._look_at(group)

    def _end_cancelled(self, roll: GroupRoll) -> None:
        group = roll.group
        group.running.discard(roll)
        if (record := roll.record(roll.why)) is not None:
            group.cancelled.append(record)
            self.called_off[roll.why] += 1
        if roll.why in ("stale", "drained"):
            self._restart(group, roll.task, roll.tries, roll.why)

    def _restart(self, group: GrowingGroup, task: Task, tries: int, why: Why) -> None:
        """Restarts it under the new policy; bounded, or frequent updates would let no long rollout ever end."""
        restarts = group.restarts[task.key] = group.restarts.get(task.key, 0) + 1
        if restarts < self.options.max_attempts:
            self._start(group, task, tries=tries)
            return
        what = f"{WORDS[why]}, {restarts} times: raise max_stale, drain for longer, or update less often"
        failure = RolloutError("cancelled", what, server=task.agent, retryable=False)
        group.add(task, TaskResult(None, failure, AttemptInfo(max(tries, 1), 0.0, 0.0)), self.pace.version)

    def _renew(self, group: GrowingGroup, oldest: int) -> None:
        """Restarts what is too old, in a group under way or in one that waits to be taken."""
        for roll in tuple(group.running):
            if roll.inside and roll.version < oldest:
                roll.cancel("stale")
        stale = group.drop_stale(oldest)
        if not stale:
            return
        if group not in self.growing:
            self.ready.remove(group)
            self.growing.add(group)
        self.called_off["stale"] += len(stale)
        for task, ended, _ in stale:
            self._restart(group, task, ended.how.attempt, "stale")
        self._look_at(group)

    def _look_at(self, group: GrowingGroup) -> None:
        """Completes a group that is full, or gets no more rollouts. Stragglers are cancelled first, and end at once."""
        if group.is_full:
            for roll in group.running:
                roll.cancel("cut")
        if group.running or group not in self.growing:
            return
        self.growing.discard(group)
        self._measure(group)
        if self.options.drop_equal and group.is_equal:
            self._drop(group)
            return
        if group.is_full:
            group.draw.part.dropped_in_a_row = 0
        self.ready.append(group)
        self._tell_news()

    def _measure(self, group: GrowingGroup) -> None:
        draw, rewards = group.draw, group.rewards
        if draw.part.rates is not None and rewards:
            draw.part.pass_rate.add(draw.part.rates.measure(draw.number, draw.epoch, rewards))

    def _drop(self, group: GrowingGroup) -> None:
        part = group.draw.part
        part.dropped += 1
        part.dropped_in_a_row += 1
        self.blend.give_back(part)
        self._room.set()
        if part.dropped_in_a_row >= self.options.max_drops:
            last = f"{group.size} x {group.rewards[0]:g}"
            what = f"{part.name}: {part.dropped_in_a_row} groups in a row had equal rewards (the last: {last})"
            self._fail(UserError(what, _DROP_HINT))
        self._tell_news()

    def _count(self, group: GrowingGroup) -> None:
        part = group.draw.part
        part.delivered += 1
        part.incomplete += not group.is_full
        self.failures.update(one.failure.kind for one in group.failures if one.failure is not None)

    def _oldest(self) -> int | None:
        """The oldest version that is not too old."""
        return None if self.options.max_stale is None else self.pace.version - self.options.max_stale

    # How it ends.

    def _fail(self, error: GymError) -> None:
        """Starts nothing new; rollouts under way finish and may be taken."""
        self.error = self.error or error
        self._room.set()

    def _end_by(self, error: BaseException) -> None:
        """What is under way was cancelled with everything; its groups are delivered as far as they came."""
        if isinstance(error, GaveUp):
            error = InfraError(
                str(error), "look: gym ps, gym logs; then start a new stream with the rows that are left"
            )
        if not isinstance(error, GymError):
            self._bug = error
            raise error
        self.error = self.error or error
        for group in self.growing:
            for roll in group.running:
                if (record := roll.record("ended")) is not None:
                    group.cancelled.append(record)
            group.running.clear()
            if group.good or group.failures or group.cancelled:
                self.ready.append(group)
        self.growing.clear()

    def _tell_pause(self, agent: str, reason: str) -> None:
        self.paused_reason = reason

    def _tell_news(self) -> None:
        self._news.set()

    async def _wait_for_news(self) -> None:
        self._news.clear()
        await self._news.wait()
