"""One attempt of one row, for trainers that record the model calls of an attempt themselves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from gym.collect import AttemptOptions, Rollout, collect
from gym.wire.failures import RolloutError


async def run_single(
    url: str, row: Mapping[str, Any], *, agent: str = "", token: str = "", timeout: float = 3600.0
) -> Rollout:
    """A rollout with a reward; a failure is raised. No second attempt: its calls would stand behind the first one's."""
    options = AttemptOptions(concurrency=1, max_attempts=1, timeout=timeout)
    async with aclosing(collect(url, [row], agent=agent, token=token, options=options)) as found:
        async for rollout in found:
            if rollout.failure is not None:
                raise rollout.failure
            return rollout
    raise RolloutError("agent", "the agent asked not to keep the rollout", server=agent, retryable=False)
