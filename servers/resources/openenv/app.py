"""Any OpenEnv environment, unmodified, as a game of text: a session of its own for each rollout."""

from typing import Any

from playing import (
    OpenEnvEpisode,
    OpenEnvRow,
    OpenEnvSettings,
    client_of,
    read_done,
    read_json_action,
    shown,
)
from pydantic import Field
from sessions import EndedByAction, Refused

from gym.server.adapters.text_environment import TextEnvironment, TextEnvironmentConfig
from gym.server.asgi import Answer, Call
from gym.server.base import json_answer
from gym.server.gymnasium import Step


class OpenEnvConfig(OpenEnvSettings, TextEnvironmentConfig):
    action_field: str = ""  # of its action: the text goes into it; without one the text is the action, as JSON
    fixed_fields: dict[str, Any] = Field(default_factory=dict)  # what every action holds besides


class OpenEnv(TextEnvironment[OpenEnvEpisode]):
    config: OpenEnvConfig
    bad_action = (Refused,)

    async def start(self) -> None:
        self.client = self.own(client_of(self.name, self.config))

    async def open(self, row: OpenEnvRow) -> tuple[OpenEnvEpisode, str]:
        session = await self.client.begin(row.reset, seconds=self.config.open_seconds)
        try:
            first = shown(session.first, self.config.observation_field)
            return OpenEnvEpisode.of(session, self.config, self.config.rewards), first
        except BaseException:
            await session.aclose()
            raise

    async def act(self, environment: OpenEnvEpisode, action: str) -> Step:
        try:
            reply = await environment.step({**self.to_action(action), **self.config.fixed_fields})
        except EndedByAction as error:
            info = {"reason": str(error)}
            return Step("The episode is over.", environment.unchanged, terminated=True, info=info)
        observation = shown(reply, self.config.observation_field)
        return Step(observation, environment.reward_of(reply), terminated=read_done(reply))

    async def discard(self, environment: OpenEnvEpisode) -> None:
        await environment.session.aclose()

    def to_action(self, text: str) -> dict[str, Any]:
        return {self.config.action_field: text} if self.config.action_field else read_json_action(text)

    async def _on_reverify_mode(self, _: Call) -> Answer:
        return json_answer("stateless" if self.config.repeatable else "unsupported")


app = OpenEnv.app()
