"""The environments of the gem-llm package: its games, and reasoning-gym's tasks as it has them."""

from unittest.mock import patch

import gem
from gem.envs.game_env.sokoban import SokobanEnv
from gem.envs.reasoning_gym import ReasoningGymEnv
from gem.envs.registration import ENV_REGISTRY
from pydantic import Field

from gym.server.adapters.registered import RegisteredRow, find_registered, library_blamed
from gym.server.adapters.text_environment import TextEnvironment
from gym.server.gymnasium import Step

# Of reasoning-gym's scores, on some answers: what the policy wrote is all that differs there.
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)


class GemRow(RegisteredRow):
    seed: int | None = Field(default=None, ge=0, lt=2**32)


class Gem(TextEnvironment[gem.Env]):
    own_random = True

    def open(self, row: GemRow) -> tuple[gem.Env, str]:
        find_registered(row.environment, ENV_REGISTRY, "gem")
        # The constructor of Sokoban resets it too, and to find a room may take ten seconds.
        with library_blamed(row.environment), patch.object(SokobanEnv, "reset"):
            environment = gem.make(row.environment, **row.settings)
        return environment, environment.reset(seed=row.seed)[0]

    def act(self, environment: gem.Env, action: str) -> Step:
        try:
            observation, reward, terminated, truncated, info = environment.step(action)
        except FAULTS as error:
            if not isinstance(environment, ReasoningGymEnv):
                raise
            reason = f"its score cannot read the answer: {type(error).__name__}: {str(error)[:200]}"
            return Step(terminated=True, info={"reason": reason})
        hint = "" if terminated or truncated else f"\n{info.get('suffix', '')}".rstrip()
        return Step.of(f"{observation}{hint}", reward, terminated, truncated)


app = Gem.app()
