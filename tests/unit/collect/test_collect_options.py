"""Options are checked before anything starts, and secrets do not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.collect import CollectOptions
from gym.collect.concurrency import allow_connections, find_tight_agents
from gym.errors import UserError


def options(**given: Any) -> CollectOptions:
    return CollectOptions(**{"stack_url": "http://x", "inputs": ("a.jsonl",), "output": Path("b.jsonl"), **given})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"concurrency": 0}, "concurrency is 0; it must be between 1 and 10,000"),
        ({"concurrency": 10_001}, "concurrency is 10001"),
        ({"timeout": 0}, "timeout is 0"),
        ({"params": {"temperature": float("inf")}}, "params cannot be written as JSON"),
        ({"params": {"stop": {"a"}}}, "params cannot be written as JSON"),
        ({"params": {"stop": "\ud800"}}, "params cannot be written as JSON"),
        ({"max_attempts": 0}, "max attempts is 0"),
        ({"repeats": 0}, "repeats is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"shard": (3, 2)}, "shard is 3/2; it must be i/n"),
        ({"inputs": ()}, "input is nothing"),
        ({"drain": -1}, "drain is -1"),
        ({"max_pause": -1}, "max pause is -1"),
    ],
)
def test_an_option_out_of_bounds_is_reported_with_its_bounds(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        options(**given)
    assert says in str(caught.value)


def test_a_token_does_not_show() -> None:
    assert "hush" not in repr(options(token="hush"))
    assert "hush" not in str(options(token="hush").identity("digest"))


def test_what_decides_the_rollouts_is_their_identity_and_the_pace_is_not() -> None:
    assert options(concurrency=1).identity("d") == options(concurrency=9, timeout=5).identity("d")
    assert options(repeats=1).identity("d") != options(repeats=2).identity("d")


def test_more_connections_than_the_machine_allows_are_refused_with_the_command() -> None:
    allow_connections(1)
    with pytest.raises(UserError, match=r"ulimit -Hn"):
        allow_connections(1 << 40)


async def test_an_agent_with_too_few_open_files_is_warned_of() -> None:
    most = {"small": 400, "large": 9000, "silent": 0}

    async def ask(agent: str) -> int:
        return most[agent]

    (warning,) = await find_tight_agents(most, 1000, ask)
    assert warning.startswith("small has open files for 400 rollouts at once, 1000 are asked for")
    assert "gym scale small=N" in warning
    assert "--concurrency 400" in warning


async def test_few_rollouts_at_once_ask_no_agent() -> None:
    async def ask(agent: str) -> int:
        raise AssertionError(agent)

    assert await find_tight_agents(["math"], 64, ask) == []
