"""One row, posted once to its agent, for trainers that count their own failures: a reward, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym.client import AsyncStack
from gym.collect.run_replies import NotKept, read_reward
from gym.wire.failures import RolloutError


async def run_row(stack: AsyncStack, row: Mapping[str, Any], *, agent: str = "") -> dict[str, Any]:
    """A verified rollout: `reward` is a finite number. Everything else raises."""
    rollout = await stack.run(row, agent=agent)
    check_reward(rollout, str((row.get("agent_ref") or {}).get("name") or agent))
    return rollout


def check_reward(rollout: dict[str, Any], agent: str) -> float:
    """The reward of a `/run` reply; raises where the agent says that it failed, or gives none."""
    try:
        return read_reward(rollout, agent)
    except NotKept:
        raise RolloutError("agent", "the agent asked not to keep the rollout", server=agent, retryable=False) from None
