"""Several turns with a scripted user: follow-ups come one after the other, the answer to the last of them counts."""

from dataclasses import dataclass

from holding import holds, stands_by
from pydantic import Field

from gym.server import ResourcesConfig, Row
from gym.server.gymnasium import Action, GymnasiumServer, Observation, Step


class MultiTurnConfig(ResourcesConfig):
    strict: bool = False  # the expected answer must stand alone, be the only one and not be taken back: 2 is not in 12


class MultiTurnRow(Row):
    follow_ups: list[str] = Field(default_factory=list)
    expected_answer: str = ""


@dataclass(slots=True)
class Talk:
    follow_ups: list[str]
    expected: str
    turn: int = 0


class MultiTurn(GymnasiumServer[Talk]):
    config: MultiTurnConfig

    async def reset(self, row: MultiTurnRow) -> tuple[Talk, Observation]:
        return Talk(row.follow_ups, row.expected_answer), None

    async def step(self, action: Action, state: Talk) -> Step:
        """The next follow-up, until there is none: then this answer is the one that counts."""
        if state.turn < len(state.follow_ups):
            state.turn += 1
            return Step(state.follow_ups[state.turn - 1])
        found = (stands_by if self.config.strict else holds)(state.expected, action.joined_text)
        info = {} if found else {"reason": "the last answer does not hold the expected one"}
        return Step(reward=float(found), terminated=True, info=info)


app = MultiTurn.app()
