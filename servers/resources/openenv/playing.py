"""What both shapes of the server share: their settings, a rollout's episode, and what its replies mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import Field, field_validator
from sessions import EnvironmentFailed, OpenEnvClient, OpenEnvSession, Refused

from gym.errors import ConfigError, Problem
from gym.server import Row
from gym.server.adapters.rewards import RewardMeaning, check_reward
from gym.server.resources import ResourcesConfig
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_json

MAX_ACTION = 1 << 20  # bytes; servers of WebSockets cut off who sends very much more
MAX_DEPTH = 50  # deeper ones end the session instead of being refused

UnpaidSteps = Literal["none", "before_the_end", "all"]


class OpenEnvSettings(ResourcesConfig):
    url: str = ""  # http://${service:NAME} of a service that starts along, or http://host:8000 of one that runs
    observation_field: str = ""  # the field of its observation that the model is shown; without one all, as JSON
    unpaid_steps: UnpaidSteps = "before_the_end"  # the steps that may come without a reward
    bad_action_messages: tuple[str, ...] = ()  # patterns of what it raises for an action that cannot be
    repeatable: bool = False  # the same reset and the same actions lead to the same rewards
    open_seconds: float = Field(default=60.0, gt=0)  # to connect and reset, and to wait where all places are taken
    step_seconds: float = Field(default=60.0, gt=0)

    @field_validator("bad_action_messages")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for one in patterns:
            try:
                re.compile(one)
            except re.error as error:
                raise ValueError(f"{one!r} is not a pattern: {error}") from None
        return patterns


class OpenEnvRow(Row):
    reset: dict[str, Any] = Field(default_factory=dict)  # what the reset is given: seed, episode_id, its own


@dataclass(slots=True)
class OpenEnvEpisode:
    session: OpenEnvSession
    settings: OpenEnvSettings
    rewards: RewardMeaning
    said: float = 0.0  # the last reward that the environment has named
    owed: float = 0.0  # what the reset has paid, and no step yet

    @classmethod
    def of(cls, session: OpenEnvSession, settings: OpenEnvSettings, rewards: RewardMeaning) -> OpenEnvEpisode:
        if read_done(session.first):
            raise RolloutError("row", "reset: the environment is at its end before the first action")
        episode = cls(session, settings, rewards)
        if session.first.get("reward") is not None:
            episode.said = check_reward(session.first["reward"], "the environment's reset")
            episode.owed = episode.said if rewards == "per_step" else 0.0
        return episode

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        check_action(action)
        try:
            return await self.session.step(action, seconds=self.settings.step_seconds)
        except EnvironmentFailed as error:
            if any(re.search(one, error.said) for one in self.settings.bad_action_messages):
                raise Refused(error.said) from None
            raise

    def reward_of(self, reply: dict[str, Any]) -> float:
        """As the library would have said it. NaN and infinity arrive as null, which is never a reward of 0."""
        if reply.get("reward") is None:
            allowed = self.settings.unpaid_steps
            if allowed == "none" or (allowed == "before_the_end" and read_done(reply)):
                which = "the last step" if read_done(reply) else "a step"
                what = f"the environment paid null for {which}, which NaN and infinity become on their way"
                hint = "Where it means nothing, say so: unpaid_steps: all"
                raise RolloutError("resources", f"{what}. {hint}", retryable=False)
            value = self.unchanged
        else:
            value = self.said = check_reward(reply["reward"], "the environment's step")
        owed, self.owed = self.owed, 0.0
        return value + owed

    @property
    def unchanged(self) -> float:
        """The reward of a step that adds nothing."""
        return self.said if self.rewards == "cumulative" else 0.0


def check_action(action: dict[str, Any]) -> None:
    """What ends a session, instead of being refused there."""
    if _depth(action, MAX_DEPTH) > MAX_DEPTH:  # first: what is deeper than 254 cannot be written
        raise Refused(f"it is nested more than {MAX_DEPTH} deep")
    if len(write_json(action)) > MAX_ACTION:
        raise Refused(f"it has more than {MAX_ACTION} bytes")


def read_json_action(text: str) -> dict[str, Any]:
    try:
        action = orjson.loads(text)
    except ValueError as error:
        raise Refused(f"it is not JSON: {error}") from None
    if not isinstance(action, dict):
        raise Refused("it is not a JSON object")
    return action


def read_done(reply: dict[str, Any]) -> bool:
    done = reply.get("done")
    if done is not None and not isinstance(done, bool):
        raise RolloutError("resources", f"the environment says done: {done!r:.80}: true or false", retryable=False)
    return bool(done)


def shown(reply: dict[str, Any], field: str) -> str:
    """What the model sees of an observation."""
    observation = reply.get("observation")
    if not isinstance(observation, dict):
        raise RolloutError("resources", f"the environment shows no object: {observation!r:.200}", retryable=False)
    if field and field not in observation:
        known = ", ".join(observation) or "nothing"
        what = f"observation_field: the environment shows no {field!r}, but {known}"
        raise RolloutError("resources", what, retryable=False)
    found = observation[field] if field else {key: one for key, one in observation.items() if key != "metadata"}
    return found if isinstance(found, str) else write_json(found).decode()


def client_of(name: str, settings: OpenEnvSettings) -> OpenEnvClient:
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "Write `url: http://${service:env}` with the service in `services:`, or the address of one that runs."
        raise ConfigError([Problem(f"is not a http:// address: {settings.url!r}", key=f"{name}: url", hint=hint)])
    return OpenEnvClient(settings.url)


def _depth(value: Any, limit: int) -> int:
    if limit < 0 or not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(one, limit - 1) for one in inner), default=0)
