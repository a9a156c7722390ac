"""Groups against an agent in a process of its own: failures, drops, stragglers, versions, never further than asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson
import pytest

from gym.errors import GymError, InfraError, UserError
from gym.trainers import Curriculum, GroupOptions, GroupStream, RolloutGroup, Source
from tests.support.agents import FakeAgent, fake_agent


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


def row(name: object, **fake: Any) -> dict[str, Any]:
    return {"responses_create_params": {}, "name": name, "fake": fake}


def odd(count: int) -> list[dict[str, Any]]:
    """Rows whose rewards differ."""
    return [row(number, odd=True) for number in range(count)]


async def collect(url: str, rows: Any, **options: Any) -> list[RolloutGroup]:
    async with GroupStream(url, rows, options) as groups:
        return [group async for group in groups]


async def drain_into(groups: GroupStream, found: list[RolloutGroup]) -> None:
    async for group in groups:
        found.append(group)


def begun_again(groups: GroupStream, times: int) -> bool:
    return groups.stats().cancelled.get("stale", 0) == times and groups.stats().in_flight == 1


@contextmanager
def held(agent: FakeAgent) -> Iterator[None]:
    """What it is asked meanwhile ends afterwards."""
    agent.control(allowed=0)
    try:
        yield
    finally:
        agent.control(allowed=1 << 60)


async def until(condition: Callable[[], object], within: float = 120.0) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_repeats_of_a_row_come_together_each_once(agent: FakeAgent) -> None:
    groups = await collect(agent.url, odd(7), size=4)
    assert sorted(one.row for one in groups) == list(range(7))
    for group in groups:
        assert (group.complete, sorted(group.rewards), group.stale) == (True, [0.0, 0.0, 1.0, 1.0], False)
        assert {one.result["name"] for one in group.rollouts if one.result} == {group.row}
    keys = [one.key for group in groups for one in group.rollouts]
    assert len(set(keys)) == len(keys) == 28


async def test_epochs_go_on_counting_repeats_and_a_limit_ends_them(agent: FakeAgent) -> None:
    groups = await collect(agent.url, odd(3), size=2, epochs=None, limit=7)
    assert len(groups) == 7
    assert Counter(one.epoch for one in groups) == {0: 3, 1: 3, 2: 1}
    keys = [one.key for group in groups for one in group.rollouts]
    assert len(set(keys)) == len(keys) == 14


async def test_a_failure_is_tried_again_and_then_delivered_as_a_failure_never_as_a_reward() -> None:
    rows = [row("recovers", fail_times=1), row("stays", fail_times=-1), row("fine")]
    with fake_agent() as agent:
        groups = {one.row: one for one in await collect(agent.url, rows, size=2, backoff=0.01, max_attempts=2)}
    assert (groups[0].complete, groups[0].failures) == (True, ())
    assert all(one.attempt == 2 for one in groups[0].rollouts)
    broken = groups[1]
    assert (broken.complete, broken.rewards, broken.rollouts) == (False, (), ())
    assert [one.failure.kind for one in broken.failures if one.failure] == ["agent", "agent"]
    line = orjson.loads(broken.to_line())
    assert (line["rollouts"], line["group"]["complete"], len(line["failures"])) == ([], False, 2)
    assert all("reward" not in one for one in line["failures"])


async def test_a_failed_repeat_is_made_up_for_by_an_extra_one(agent: FakeAgent) -> None:
    body = {"error": {"kind": "row", "message": "no", "retryable": False}}
    rows = [row("never", fail_times=-1, status=422, body=body), row("fine")]
    groups = {one.row: one for one in await collect(agent.url, rows, size=2, extra=1)}
    assert (groups[0].complete, len(groups[0].failures)) == (False, 3)
    assert (groups[1].complete, groups[1].failures) == (True, ())


async def test_an_incomplete_group_is_not_taken_for_one_of_equal_rewards(agent: FakeAgent) -> None:
    groups = await collect(agent.url, [row("x", raw="{}")], size=2, drop_equal=True, max_attempts=1)
    assert [(one.complete, len(one.failures)) for one in groups] == [(False, 2)]


async def test_groups_of_equal_rewards_are_dropped_replaced_and_counted(agent: FakeAgent) -> None:
    rows = [row(number, odd=number % 3 > 0) for number in range(30)]
    async with GroupStream(agent.url, rows, GroupOptions(size=2, limit=10, drop_equal=True, ahead=2)) as groups:
        found = [group async for group in groups]
        stats = groups.stats()
    assert len(found) == 10
    assert all(sorted(one.rewards) == [0.0, 1.0] for one in found)
    assert (stats.delivered, stats.parts["rows"].dropped) == (10, stats.dropped)
    assert 4 <= stats.dropped <= 6


async def test_rows_that_never_differ_end_the_stream_after_a_bound(agent: FakeAgent) -> None:
    rows = [*odd(2), *(row(f"same {number}") for number in range(1000))]
    async with GroupStream(agent.url, rows, GroupOptions(size=2, drop_equal=True, max_drops=20, ahead=1)) as groups:
        assert len(await groups.take(2)) == 2
        with pytest.raises(UserError, match=r"rows: 20 groups in a row .* 2 x 1\)\ntake rows that"):
            await anext(groups)
        assert groups.stats().dropped == 20


async def test_a_single_row_that_never_differs_is_not_asked_for_ever(agent: FakeAgent) -> None:
    with pytest.raises(UserError, match="equal rewards"):
        await collect(agent.url, [row("the same")], size=2, drop_equal=True, max_drops=5, epochs=None)


async def test_nothing_is_collected_further_ahead_than_asked(agent: FakeAgent) -> None:
    before = agent.stats()["runs"]
    async with GroupStream(agent.url, odd(1000), GroupOptions(size=4, ahead=3, epochs=None)) as groups:
        for taken in range(5):
            await until(lambda: groups.stats().ready == 3)
            assert groups.stats().in_flight == 0
            assert agent.stats()["runs"] - before == 4 * (3 + taken)
            await anext(groups)


async def test_stragglers_are_cut_off_when_a_group_is_full(agent: FakeAgent) -> None:
    slow = row("slow", slow_from=2, delay_then=3600)
    async with GroupStream(agent.url, [slow], GroupOptions(size=2, extra=2)) as groups:
        group = await anext(groups)
        assert (group.complete, len(group.cancelled)) == (True, 2)
        assert groups.stats().cancelled == {"cut": 2}
    assert all(one.failure and one.failure.kind == "cancelled" for one in group.cancelled)
    assert all(one.reward is None and orjson.loads(one.line)["_gym"]["why"] == "cut" for one in group.cancelled)


async def test_a_batch_that_is_full_calls_the_other_groups_off(agent: FakeAgent) -> None:
    rows = [row("fast"), row("slow", delay=3600)]
    async with GroupStream(agent.url, rows, GroupOptions(size=2, concurrency=4)) as groups:
        (first,) = await groups.take(1)
        await until(lambda: groups.stats().in_flight == 2)
        assert groups.call_off() == 2
        (second,) = await groups.take(5)
    assert (first.complete, second.complete, second.rewards) == (True, False, ())
    assert {orjson.loads(one.line)["_gym"]["why"] for one in second.cancelled} == {"called off"}


async def test_each_rollout_says_under_which_policy_it_began_and_ended(agent: FakeAgent) -> None:
    rows = [row("first"), row("later")]
    async with GroupStream(agent.url, rows, GroupOptions(size=2, concurrency=2, version=5)) as groups:
        with held(agent):
            await until(lambda: groups.stats().in_flight == 2)
            groups.set_version(6)
        first, second = await groups.take(2)
        with pytest.raises(UserError, match="version 6; 5 is an older one"):
            groups.set_version(5)
    assert (first.versions, second.versions) == ((5, 5), (6, 6))
    stamps = [orjson.loads(one.line)["_gym"] for one in (*first.rollouts, *second.rollouts)]
    assert [one["policy_version"] for one in stamps] == [5, 5, 6, 6]
    assert [one.get("policy_version_ended") for one in stamps] == [6, 6, None, None]


async def test_groups_that_wait_get_too_old_as_well_and_are_made_again(agent: FakeAgent) -> None:
    async with GroupStream(agent.url, odd(2), GroupOptions(size=2, max_stale=1)) as groups:
        await until(lambda: groups.stats().ready == 2)
        groups.set_version(1)
        assert groups.stats().ready == 2
        groups.set_version(2)
        assert groups.stats().ready == 0
        found = await groups.take(2)
    assert [one.versions for one in found] == [(2, 2), (2, 2)]
    assert all(one.complete and len(one.cancelled) == 2 for one in found)


async def test_groups_that_are_too_old_may_be_delivered_and_marked_instead(agent: FakeAgent) -> None:
    async with GroupStream(agent.url, odd(2), GroupOptions(size=2, max_stale=1, stale="mark")) as groups:
        await until(lambda: groups.stats().ready == 2)
        groups.set_version(1)
        fresh = await anext(groups)
        groups.set_version(2)
        old = await anext(groups)
    assert (fresh.stale, old.stale) == (False, True)
    assert orjson.loads(old.to_line())["group"]["stale"] is True


async def test_updates_too_frequent_for_a_rollout_end_it_as_a_failure(agent: FakeAgent) -> None:
    rows = [row("long", delay=3600)]
    async with GroupStream(agent.url, rows, GroupOptions(size=1, max_stale=0, max_attempts=3)) as groups:
        for version in range(1, 4):
            await until(partial(begun_again, groups, version - 1))
            groups.set_version(version)
        group = await anext(groups)
    (failure,) = group.failures
    assert failure.failure is not None
    assert "3 times: raise max_stale" in failure.failure.message
    assert (group.complete, len(group.cancelled)) == (False, 3)


async def test_a_drain_lets_what_is_under_way_end(agent: FakeAgent) -> None:
    rows = [row(number) for number in range(9)]
    async with GroupStream(agent.url, rows, GroupOptions(size=1, concurrency=2, ahead=4)) as groups:
        with held(agent):
            await until(lambda: groups.stats().in_flight == 2)
            draining = asyncio.create_task(groups.drain())
            await until(lambda: groups.stats().paused)
        assert await draining == 0
        stats = groups.stats()
        assert (stats.in_flight, stats.waiting, stats.paused, stats.ready) == (0, 2, True, 2)
        groups.resume(1)
        assert [group.versions for group in await groups.take(9)] == [(0,)] * 2 + [(1,)] * 7


async def test_what_does_not_end_in_the_time_to_drain_is_called_off_and_begun_again(agent: FakeAgent) -> None:
    async with GroupStream(agent.url, [row("long", delay=3600)], GroupOptions(size=1)) as groups:
        await until(lambda: groups.stats().in_flight == 1)
        assert await groups.drain(0.01) == 1
        await until(lambda: groups.stats().waiting == 1)
        stats = groups.stats()
        assert (stats.in_flight, stats.paused, stats.cancelled) == (0, True, {"drained": 1})
        groups.resume(1)
        await until(lambda: groups.stats().in_flight == 1)


async def test_a_blend_is_in_balance_at_any_moment_and_its_weights_may_change(agent: FakeAgent) -> None:
    parts = [Source("a", odd(100), weight=1), Source("b", odd(100), weight=2), Source("off", odd(9), weight=0)]
    seen: Counter[str] = Counter()
    async with GroupStream(agent.url, parts, GroupOptions(size=2, ahead=1, epochs=None, limit=60)) as groups:
        async for group in groups:
            seen[group.source] += 1
            if seen.total() <= 30:
                assert abs(seen["b"] - seen.total() * 2 / 3) <= 1
            if seen.total() == 30:
                before = Counter(seen)
                groups.set_weights({"a": 0, "off": 2})
        with pytest.raises(UserError, match="no part 'x'"):
            groups.set_weights({"x": 1})
        with pytest.raises(UserError, match="all weights are 0"):
            groups.set_weights({"b": 0, "off": 0})
    later = seen - before
    assert later["a"] <= 1  # the one that was under way
    assert abs(later["b"] - later["off"]) <= 1


async def test_dropped_groups_do_not_count_in_the_balance(agent: FakeAgent) -> None:
    half = [row(number, odd=number % 2 > 0) for number in range(100)]
    options = GroupOptions(size=2, ahead=1, limit=40, drop_equal=True)
    async with GroupStream(agent.url, [Source("half", half), Source("all", odd(100))], options) as groups:
        assert Counter([group.source async for group in groups]) == {"half": 20, "all": 20}
        assert groups.stats().dropped >= 19


async def test_a_part_that_has_no_rows_left_leaves_the_others(agent: FakeAgent) -> None:
    found = await collect(agent.url, [Source("short", odd(2)), Source("long", odd(9))], size=2)
    assert Counter(one.source for one in found) == {"short": 2, "long": 9}


async def test_a_curriculum_lets_rows_rest_that_are_too_easy_or_too_hard(agent: FakeAgent) -> None:
    rows = [row("easy"), {**row("hard"), "expected": 0.0}, *odd(2)]
    rules = Curriculum(rest=2)
    async with GroupStream(agent.url, rows, GroupOptions(size=2, ahead=1, epochs=6, curriculum=rules)) as groups:
        seen = Counter([(group.row, group.epoch) async for group in groups])
        part = groups.stats().parts["rows"]
    epochs = {number: sorted(epoch for one, epoch in seen if one == number) for number in range(4)}
    assert epochs == {0: [0, 3], 1: [0, 3], 2: [*range(6)], 3: [*range(6)]}
    assert part.rested == 8
    assert part.pass_rate is not None


async def test_a_pass_rate_that_a_row_brings_along_counts_as_measured(agent: FakeAgent) -> None:
    rows = [{**one, "pass_rate": rate} for one, rate in zip(odd(3), (0.0, 0.5, 1.0), strict=True)]
    rules = Curriculum(low=0.1, high=0.9, prior="pass_rate")
    found = await collect(agent.url, rows, size=2, epochs=2, curriculum=rules)
    assert [one.row for one in found] == [1, 1]


async def test_levels_open_when_the_one_before_is_passed(agent: FakeAgent) -> None:
    levels = [Source("one", [row("easy")]), Source("two", odd(1)), Source("three", odd(1))]
    rules = Curriculum(next_level_at=0.9, rest=1)
    options = GroupOptions(size=2, ahead=1, epochs=None, limit=40, curriculum=rules)
    async with GroupStream(agent.url, levels, options) as groups:
        order = [group.source async for group in groups]
    assert order[:4] == ["one"] * 4
    assert order[4:10].count("two") == 3  # in turns: it has nothing to catch up with
    assert "three" not in order  # half of "two" passes, for ever


async def test_rows_without_any_good_one_end_the_stream_with_what_to_do(agent: FakeAgent) -> None:
    with pytest.raises(UserError, match=r"rows:2: .*is missing"):
        await collect(agent.url, [row("fine"), {"fake": {}}], size=2)
    skipped = await collect(agent.url, [{"fake": {}}, row("fine")], size=2, skip_bad_rows=True)
    assert [one.row for one in skipped] == [1]
    with pytest.raises(UserError, match="none of its rows was any good"):
        await collect(agent.url, [{"fake": {}}], size=2, skip_bad_rows=True, epochs=None)
    with pytest.raises(UserError, match="no rows"):
        await collect(agent.url, [], size=2)
    with pytest.raises(UserError, match="can be read once, and epochs is 2"):
        await collect(agent.url, iter(odd(2)), size=2, epochs=2)
    with pytest.raises(UserError, match=r"there is no file nowhere\.jsonl"):
        await collect(agent.url, "nowhere.jsonl", size=2)


async def test_what_was_collected_before_a_bad_row_is_delivered_first(agent: FakeAgent) -> None:
    async with GroupStream(agent.url, [*odd(3), {"fake": {}}], GroupOptions(size=2)) as groups:
        assert [one.complete for one in await groups.take(9)] == [True] * 3
        with pytest.raises(UserError, match="fix it"):
            await groups.take(9)


async def test_rows_may_come_from_a_program_that_makes_them_on_the_way(agent: FakeAgent) -> None:
    async def rows() -> AsyncIterator[dict[str, Any]]:
        for one in odd(5):
            await asyncio.sleep(0)
            yield one

    assert len(await collect(agent.url, rows(), size=2)) == 5


async def test_a_stack_that_goes_down_ends_the_stream_and_nothing_is_scored_for_it() -> None:
    with fake_agent() as agent:
        rows = [row(number, slow_from=0, delay_then=0.02) for number in range(5000)]
        options = GroupOptions(size=2, concurrency=16, max_pause=1, backoff=0.05, max_attempts=2)
        async with GroupStream(agent.url, rows, options) as groups:
            found = await groups.take(3)
            agent.kill()
            agent.listener.close()
            with pytest.raises(InfraError, match="gym ps"):
                await drain_into(groups, found)
            with pytest.raises(GymError):
                await anext(groups)
    assert [one.complete for one in found[:3]] == [True] * 3
    assert {reward for one in found for reward in one.rewards} == {1.0}  # a failure is not a reward of 0
    for one in found:
        assert one.complete or one.failures or one.cancelled
    keys = [rollout.key for one in found for rollout in (*one.rollouts, *one.failures)]
    assert len(keys) == len(set(keys))


async def test_a_stream_that_is_left_early_cancels_what_is_under_way() -> None:
    with fake_agent() as agent:
        async with GroupStream(agent.url, [row("long", delay=3600)], GroupOptions(size=2)) as groups:
            await until(lambda: agent.stats()["now"] == 2)
        await until(lambda: agent.stats()["now"] == 0)
        with pytest.raises(UserError, match="opened before"):
            await groups.__aenter__()


async def test_a_stream_that_is_closed_does_not_look_like_one_that_has_ended(agent: FakeAgent) -> None:
    async def slowly() -> AsyncIterator[dict[str, Any]]:
        yield row("one", odd=True)
        await asyncio.Event().wait()

    async with GroupStream(agent.url, slowly(), GroupOptions(size=2)) as groups:
        assert (await anext(groups)).complete
    with pytest.raises(UserError, match="was closed"):
        await anext(groups)
    async with GroupStream(agent.url, odd(1), GroupOptions(size=2)) as groups:
        assert len(await groups.take(9)) == 1
    assert await groups.take(9) == []


async def test_drops_are_counted_in_a_row_whether_the_consumer_reads_or_not(agent: FakeAgent) -> None:
    rows = [row(number, odd=number % 3 == 0) for number in range(60)]
    async with GroupStream(agent.url, rows, GroupOptions(size=2, drop_equal=True, max_drops=8, ahead=12)) as groups:
        await until(lambda: groups.stats().ready == 12)
        assert groups.stats().dropped > 8
        assert len(await groups.take(20)) == 20


async def test_who_stops_waiting_in_the_middle_of_a_batch_finds_its_groups_again(agent: FakeAgent) -> None:
    rows = [row("fast"), row("slow", slow_from=0, delay_then=5)]
    async with GroupStream(agent.url, rows, GroupOptions(size=2)) as groups:
        waiting = asyncio.create_task(groups.take(2))
        await until(lambda: groups.stats().delivered == 1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert [one.row for one in await groups.take(2)] == [0, 1]


async def test_a_share_needs_a_stack_that_knows_of_shares(agent: FakeAgent) -> None:
    with pytest.raises(UserError, match="knows no shares"):
        await collect(agent.url, odd(1000), size=2, share=1.0, epochs=None)
