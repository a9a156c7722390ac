"""Environments of the skyrl-gym package, with the fields of SkyRL's own data sets as the row."""

from typing import Any

import skyrl_gym
from omegaconf import OmegaConf
from pydantic import Field
from skyrl_gym.envs.registration import registry

from gym.server import Row
from gym.server.adapters.registered import row_blamed
from gym.server.adapters.text_environment import TextEnvironment, TextEnvironmentConfig
from gym.server.gymnasium import Step
from gym.wire import items
from gym.wire.failures import RolloutError


class SkyRLConfig(TextEnvironmentConfig):
    environments: list[str] = Field(default_factory=lambda: ["aime", "gsm8k", "gsm8k_multi_turn"])
    environment_settings: dict[str, dict[str, Any]] = Field(default_factory=dict)  # by environment: its `env_config`


class SkyRLRow(Row):
    env_class: str  # an id of the package's registry; every field beside it is one of the environment's `extras`


class SkyRLGym(TextEnvironment[skyrl_gym.Env[Any, Any]]):
    config: SkyRLConfig

    def open(self, row: SkyRLRow) -> tuple[skyrl_gym.Env[Any, Any], Any]:
        name, extras = row.env_class, dict(row.model_extra or {})
        if name not in self.config.environments or name not in registry:
            hint = "lcb runs what the policy writes: list it under `environments` only where that may be"
            raise RolloutError("row", f"env_class: {name!r} is none of {self.config.environments}. {hint}")
        settings = OmegaConf.create(self.config.environment_settings.get(name, {}))
        with row_blamed(f"{name} cannot be made of this row", AssertionError, KeyError, TypeError, ValueError):
            environment = skyrl_gym.make(name, env_config=settings, extras=extras)
        given = items.input_items(row.responses_create_params.input)
        asked = [{"role": str(one.get("role", "user")), "content": items.item_text(one)} for one in given]
        prompt, _ = environment.init(asked)
        return environment, list(prompt)[len(asked) :] or None

    def act(self, environment: skyrl_gym.Env[Any, Any], action: str) -> Step:
        reply = environment.step(action)
        return Step(reply["observations"] or None, reply["reward"], bool(reply["done"]), info=reply["metadata"])


app = SkyRLGym.app()
