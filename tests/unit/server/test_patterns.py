"""Patterns of rows in their own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gym.server.patterns import BadPattern, Patterns, SlowPattern

pytestmark = pytest.mark.asyncio
RUNAWAY = r"(a+)+$"


@asynccontextmanager
async def started(cpu_seconds: float = 1.0) -> AsyncIterator[Patterns]:
    patterns = Patterns(cpu_seconds)
    try:
        yield patterns
    finally:
        await patterns.close()


async def test_the_last_match_counts_whatever_its_case() -> None:
    async with started() as patterns:
        assert await patterns.last_match(r"answer: (\w)", "Answer: a, ANSWER: b") == ["b"]
        assert await patterns.last_match(r"answer: \w", "Answer: a") == ["Answer: a"]
        assert await patterns.last_match(r"(x)?(b)", "ab") == [None, "b"]
        assert await patterns.last_match("z", "ab\nlines ü \u2028 too") is None


async def test_what_is_not_a_pattern_is_said_and_the_next_one_is_answered() -> None:
    async with started() as patterns:
        with pytest.raises(BadPattern, match="unterminated"):
            await patterns.last_match("(", "text")
        assert await patterns.last_match("t", "text") == ["t"]


async def test_a_pattern_that_never_ends_is_killed_and_the_next_one_is_answered() -> None:
    async with started(0.3) as patterns:
        with pytest.raises(SlowPattern, match=r"0\.3 s of CPU time"):
            await patterns.last_match(RUNAWAY, "a" * 64 + "b")
        assert await patterns.last_match("t", "text") == ["t"]


async def test_the_event_loop_goes_on_beside_a_runaway_pattern() -> None:
    async with started(1) as patterns:
        asking = asyncio.create_task(patterns.last_match(RUNAWAY, "a" * 64 + "b"))
        turns = 0
        while not asking.done():
            turns += 1
            await asyncio.sleep(0.001)
        assert turns > 10
        with pytest.raises(SlowPattern):
            await asking


async def test_many_may_ask_at_once() -> None:
    async with started() as patterns:
        matches = await asyncio.gather(*(patterns.last_match(f"({one})", f"0 {one}") for one in range(20)))
    assert matches == [[str(one)] for one in range(20)]


async def test_text_larger_than_a_pipe_is_answered() -> None:
    async with started() as patterns:
        assert await patterns.last_match("(.+)", "x" * 300_000) == ["x" * 300_000]
