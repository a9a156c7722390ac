"""Any OpenEnv environment, unmodified, by its address: a WebSocket for each rollout."""

import json
from typing import Any

from connection import Connection, Refused
from pydantic import Field

from gym.server import Row
from gym.server.adapters.text_environment import TextEnvironment, TextEnvironmentConfig
from gym.server.gymnasium import Step
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_json


class OpenEnvConfig(TextEnvironmentConfig):
    url: str  # of the environment: http://host:8000, or http://${service:NAME} of one that is started along
    action_field: str = ""  # the field of its action that the text goes into; without one the text is the action, as JSON
    observation_field: str = ""  # the field of its observation that the model is shown; without one all of it, as JSON
    reply_seconds: float = Field(default=60.0, gt=0)
    open_seconds: float = Field(default=60.0, gt=0)  # to connect and reset, and to wait for a place where all are taken


class OpenEnvRow(Row):
    reset: dict[str, Any] = Field(default_factory=dict)  # what its `reset` is given: `seed`, `episode_id`, its own


class OpenEnv(TextEnvironment[Connection]):
    config: OpenEnvConfig
    bad_action = (Refused,)

    async def open(self, row: OpenEnvRow) -> tuple[Connection, Any]:
        connection = await Connection.open(self.config.url, row.reset, seconds=self.config.open_seconds)
        return connection, self.shown(connection.first)

    async def act(self, environment: Connection, action: str) -> Step:
        reply = await environment.step(self.to_action(action), seconds=self.config.reply_seconds)
        reward = 0.0 if reply.get("reward") is None else reply["reward"]
        return Step(self.shown(reply), reward, terminated=bool(reply.get("done")))

    async def discard(self, environment: Connection) -> None:
        await environment.aclose()

    def to_action(self, text: str) -> dict[str, Any]:
        if self.config.action_field:
            return {self.config.action_field: text}
        try:
            action = json.loads(text)
        except ValueError as error:
            raise Refused(f"it is no JSON: {error}") from None
        if not isinstance(action, dict):
            raise Refused("it is no JSON object")
        return action

    def shown(self, reply: dict[str, Any]) -> str:
        observation = reply.get("observation") or {}
        if not self.config.observation_field:
            kept = {key: value for key, value in observation.items() if key != "metadata"}
            return write_json(kept).decode()
        if self.config.observation_field not in observation:
            known = ", ".join(observation)
            what = f"observation_field: the environment shows no {self.config.observation_field!r}, but {known}"
            raise RolloutError("resources", what, retryable=False)
        found = observation[self.config.observation_field]
        return found if isinstance(found, str) else write_json(found).decode()


app = OpenEnv.app()
