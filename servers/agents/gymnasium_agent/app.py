"""Plays episodes: reset, then one step for each of the model's replies, until the environment or a budget ends it."""

import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import Field

from gym.server import Agent, AgentConfig, RolloutClient
from gym.server.agent import RunRow
from gym.server.budget import Budget
from gym.server.gymnasium import STEP_ID
from gym.wire import items
from gym.wire.failures import RolloutError, reading
from gym.wire.observations import observation_items
from gym.wire.splice import splice


class GymnasiumConfig(AgentConfig):
    max_steps: int | None = Field(default=10, ge=1)


class Episode:
    """What was said so far, and what it earned."""

    def __init__(self, asked: list[items.Item], first: Any) -> None:
        self.asked = asked
        self.output = observation_items(first)
        self.usage: dict[str, Any] | None = None
        self.rewards: list[float] = []
        self.terminated = self.truncated = False
        self.info: dict[str, Any] = {}

    @property
    def said(self) -> list[items.Item]:
        return self.asked + self.output

    def add_reply(self, reply: Mapping[str, Any]) -> None:
        self.output.extend(reply["output"])
        self.usage = items.add_usage(self.usage, reply.get("usage"))

    @reading("resources", "the reply of /step")
    def add_step(self, step: Mapping[str, Any]) -> None:
        self.rewards.append(float(step.get("reward") or 0.0))
        self.terminated, self.truncated = bool(step.get("terminated")), bool(step.get("truncated"))
        self.info = dict(step.get("info") or {})
        for one in self.info.pop("tool_outputs", None) or ():
            self.output.append(items.function_call_output(str(one["call_id"]), str(one["output"])))
        self.output.extend(observation_items(step.get("observation")))


class GymnasiumAgent(Agent):
    config: GymnasiumConfig

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        """The summed reward, and everything that was said: model items, tool outputs, observations."""
        begun = await _post(rollout, "/reset", row.body, hop="seed")
        features = begun.get("info") or {}
        rollout.session_open, rollout.close_path = True, "/close"  # however it ends, the episode is closed
        episode = Episode(items.input_items(row.params.get("input")), begun.get("observation"))
        budget = Budget(self.config)
        while True:
            reply = await rollout.ask_model({**row.params, "input": episode.said})
            episode.add_reply(reply)
            episode.add_step(await self._step(row, reply, rollout, features))
            calls, tokens = len(items.function_calls(reply["output"])), (episode.usage or {}).get("total_tokens")
            if episode.terminated or episode.truncated or budget.spend(calls=calls, tokens=tokens, idle=False):
                break
        response = {**reply, "output": episode.output, "usage": episode.usage}
        if budget.spent:
            response["truncated_by"] = budget.spent
        return splice(row.body, _result(response, episode, cut=bool(budget.spent)), keys=row.fields)

    async def _step(
        self, row: RunRow, reply: Mapping[str, Any], rollout: RolloutClient, features: Mapping[str, Any]
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {"response": reply}
        if features.get("supports_step_idempotency"):
            fields[STEP_ID] = uuid.uuid4().hex
        return await _post(rollout, "/step", splice(row.body, fields, keys=row.fields), hop="tools")


def _result(response: Mapping[str, Any], episode: Episode, *, cut: bool) -> dict[str, Any]:
    fields = {"response": response, "reward": sum(episode.rewards), "step_rewards": episode.rewards}
    ended = {"terminated": episode.terminated, "truncated": episode.truncated or cut}
    return {**fields, **ended, **({"info": episode.info} if episode.info else {})}


async def _post(rollout: RolloutClient, path: str, body: bytes, *, hop: str) -> dict[str, Any]:
    reply = await rollout.post(rollout.resources_server, path, body, kind="resources", hop=hop)
    try:
        parsed = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise RolloutError(
            "resources", f"{path} answered with something else than an object", server=rollout.resources_server
        )
    return parsed


app = GymnasiumAgent.app()
