"""The environments of the gem-llm package: its games, and reasoning-gym's tasks as it has them."""

from typing import NamedTuple

import gem
from gem.envs.reasoning_gym import ReasoningGymEnv
from gem.envs.registration import ENV_REGISTRY
from pydantic import Field

from gym.server.adapters.chance import Chance
from gym.server.adapters.registered import RegisteredRow, find_registered
from gym.server.adapters.text_environment import TextEnvironment
from gym.server.gymnasium import Step
from gym.wire.failures import RolloutError

# Of reasoning-gym's scores, on some answers: what the policy wrote is all that differs there.
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)


class GemRow(RegisteredRow):
    seed: int | None = Field(default=None, ge=0, lt=2**32)


class GemGame(NamedTuple):
    environment: gem.Env
    chance: Chance


class Gem(TextEnvironment[GemGame]):
    def open(self, row: GemRow) -> tuple[GemGame, str]:
        find_registered(row.environment, ENV_REGISTRY, "gem")
        chance = Chance(row.seed)
        with chance.lent():
            try:
                environment = gem.make(row.environment, **row.settings)
            except (ImportError, LookupError, OSError) as error:
                what = f"{row.environment} does not run here: {type(error).__name__}: {str(error).strip()[:200]}"
                raise RolloutError("resources", what, retryable=False) from None
            observation, _ = environment.reset(seed=row.seed)
        return GemGame(environment, chance), observation

    def act(self, game: GemGame, action: str) -> Step:
        try:
            with game.chance.lent():
                observation, reward, terminated, truncated, info = game.environment.step(action)
        except FAULTS as error:
            if not isinstance(game.environment, ReasoningGymEnv):
                raise
            reason = f"its score cannot read the answer: {type(error).__name__}: {str(error)[:200]}"
            return Step(terminated=True, info={"reason": reason})
        hint = "" if terminated or truncated else f"\n{info.get('suffix', '')}".rstrip()
        return Step(f"{observation}{hint}", reward, bool(terminated), bool(truncated))


app = Gem.app()
