"""Environments in RAGEN's style, as they are: `reset`, `step`, `render` in this process, several actions a turn."""

from typing import Any, Literal

from loading import RagenEnvironment, find_class, find_config_class, search_in
from pydantic import Field
from turns import RagenGame, take_turn

from gym.server import Row
from gym.server.adapters.text_environment import TextEnvironment, TextEnvironmentConfig
from gym.server.adapters.text_format import TextFormat
from gym.server.config import Settings
from gym.server.gymnasium import Step
from gym.wire.failures import RolloutError


class RagenConfig(TextEnvironmentConfig):
    environments: dict[str, RagenEnvironment] = Field(min_length=1)
    folders: list[str] = Field(default_factory=list)  # a checkout that is not a package, as RAGEN's own
    separator: str = "||"  # between the actions of one reply; "" where there is only ever one
    format_penalty: float = 0.0  # added to a turn with words that are not an action; as `missing_action_reward` of none
    action: TextFormat = Field(default_factory=lambda: TextFormat(take="tag", tag="answer"))
    rewards: Literal["per_step"] = "per_step"  # a turn's reward is the sum of its actions'


class RagenRow(Row):
    environment: str  # a key of the configuration's `environments`
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    mode: str = "train"
    config: dict[str, Any] = Field(default_factory=dict)  # over the configuration's own


class Ragen(TextEnvironment[RagenGame]):
    config: RagenConfig
    own_random = True

    def __init__(self, config: RagenConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        search_in(config.folders)
        self.classes = {tag: find_class(tag, one.environment) for tag, one in config.environments.items()}
        self.configs = {tag: find_config_class(tag, one, self.classes[tag]) for tag, one in config.environments.items()}

    def open(self, row: RagenRow) -> tuple[RagenGame, str]:
        rules = self.config.environments.get(row.environment)
        if rules is None:
            raise RolloutError("row", f"environment: {row.environment!r} is none of {', '.join(self.classes)}")
        kind, config_class = self.classes[row.environment], self.configs[row.environment]
        return RagenGame.begin(kind, config_class, rules, row.config, seed=row.seed, mode=row.mode)

    def act(self, game: RagenGame, action: str) -> Step:
        return take_turn(game, action, separator=self.config.separator, penalty=self.config.format_penalty)


app = Ragen.app()
