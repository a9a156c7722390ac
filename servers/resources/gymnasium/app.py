"""Environments of the gymnasium package as games of text: its toy-text ones, and any other that can draw itself."""

from typing import Any

import gymnasium
from drawing import draw, read_action

from gym.server.adapters.registered import RegisteredRow, find_registered, row_blamed
from gym.server.adapters.text_environment import TextEnvironment
from gym.server.gymnasium import Step


class Gymnasium(TextEnvironment[gymnasium.Env[Any, Any]]):
    bad_action = (ValueError,)

    def open(self, row: RegisteredRow) -> tuple[gymnasium.Env[Any, Any], str]:
        spec = find_registered(row.environment, gymnasium.registry, "gymnasium")
        drawn = {"render_mode": "ansi"} if "ansi" in modes_of(spec) else {}
        with row_blamed(f"settings: {row.environment} takes none such", TypeError, ValueError, gymnasium.error.Error):
            environment = gymnasium.make(spec, **drawn, **row.settings)
        observation, _ = environment.reset(seed=row.seed)
        return environment, draw(environment, observation)

    def act(self, environment: gymnasium.Env[Any, Any], action: str) -> Step:
        chosen = read_action(environment.action_space, action)
        observation, *outcome = environment.step(chosen)
        return Step.of(draw(environment, observation), *outcome)


def modes_of(spec: Any) -> list[str]:
    found = gymnasium.envs.registration.load_env_creator(spec.entry_point)
    return list(getattr(found, "metadata", {}).get("render_modes", ()))


app = Gymnasium.app()
