"""Environments of the gymnasium package as games of text: its toy-text ones, and any other that can draw itself."""

from typing import Any

import gymnasium
from drawing import draw, read_action
from pydantic import Field

from gym.server import Row
from gym.server.adapters.text_environment import TextEnvironment
from gym.server.gymnasium import Step
from gym.wire.failures import RolloutError


class GymnasiumRow(Row):
    environment: str  # an id of the package's registry
    seed: int | None = Field(default=None, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)  # of `gymnasium.make`


class Gymnasium(TextEnvironment[gymnasium.Env[Any, Any]]):
    bad_action = (ValueError,)

    def open(self, row: GymnasiumRow) -> tuple[gymnasium.Env[Any, Any], str]:
        spec = gymnasium.registry.get(row.environment)
        if spec is None:
            raise RolloutError("row", f"environment: gymnasium has no {row.environment!r}")
        drawn = {"render_mode": "ansi"} if "ansi" in modes_of(spec) else {}
        try:
            environment = gymnasium.make(spec, **drawn, **row.settings)
        except (TypeError, ValueError, gymnasium.error.Error) as error:
            raise RolloutError("row", f"settings: {row.environment} takes none such: {error}") from None
        observation, _ = environment.reset(seed=row.seed)
        return environment, draw(environment, observation)

    def act(self, environment: gymnasium.Env[Any, Any], action: str) -> Step:
        chosen = read_action(environment.action_space, action)
        observation, reward, terminated, truncated, _ = environment.step(chosen)
        return Step(draw(environment, observation), float(reward), bool(terminated), bool(truncated))

    def discard(self, environment: gymnasium.Env[Any, Any]) -> None:
        environment.close()


def modes_of(spec: Any) -> list[str]:
    found = gymnasium.envs.registration.load_env_creator(spec.entry_point)
    return list(getattr(found, "metadata", {}).get("render_modes", ()))


app = Gymnasium.app()
