"""The games of the textarena package: for one player, or against a second model."""

from collections.abc import Awaitable

from match import Match
from opening import TextArenaRow, open_match

from gym.server.adapters.text_environment import TextEnvironment, TextEnvironmentConfig
from gym.server.gymnasium import Step
from gym.wire.failures import RolloutError

MOST_MOVES = 200  # of the others, before it is the policy's turn again


class TextArenaConfig(TextEnvironmentConfig):
    opponent_prompt: str = "You play a game. Read its rules, then write your move in the form that they ask for."


class TextArena(TextEnvironment[Match]):
    config: TextArenaConfig

    async def open(self, row: TextArenaRow) -> tuple[Match, str]:
        with self.guarded("open"):
            match = open_match(row)
        step = await self.let_others_move(match)
        return match, str(step.observation)

    def act(self, match: Match, action: str) -> Step | Awaitable[Step]:
        if match.done:  # the others ended it before the policy's first move
            return match.result()
        match.move(action)
        return self.let_others_move(match) if match.is_others_turn else match.result()

    async def let_others_move(self, match: Match) -> Step:
        """Until it is the policy's turn, or over."""
        for _ in range(MOST_MOVES):
            with self.guarded("act"):
                if not match.is_others_turn:
                    return match.result()
                asked = match.look()[0]
            system = {"type": "message", "role": "system", "content": self.config.opponent_prompt}
            said = await self.ask_opponent([system, {"type": "message", "role": "user", "content": asked}])
            with self.guarded("act"):
                match.move(said)
        raise RolloutError("resources", f"the others moved {MOST_MOVES} times in a row", retryable=False)


app = TextArena.app()
