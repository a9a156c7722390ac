"""`PlayedEnvironment`: a library that owns the loop and the verdict. An author writes `play`, and maybe `verify`.

The library lives in the environment's own process and knows the policy as a URL, which the agent that asks for the
play (`play_agent`) opens for one rollout. So one agent serves libraries of any version, each in its own image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.rewards import check_reward
from gym.server.asgi import Answer, Call
from gym.server.base import Route, json_answer
from gym.server.resources import ResourcesServer
from gym.wire.failures import RolloutError
from gym.wire.rows import Row, VerifyRequest, read_body

PLAY_PATH: Final = "/play/row"  # no name of a tool has a slash: a model cannot call it


class PlayAccess(BaseModel):
    """The policy, for one play. `base_url` ends in /v1."""

    model_config = ConfigDict(frozen=True)

    base_url: str
    key: str = Field(repr=False)
    model: str
    max_steps: int | None = None  # model calls; the agent ends what goes on


class PlayRow(Row):
    """Subclass it, and name it in `play_row`, to have the row's fields checked."""

    play: PlayAccess


class PlayedEnvironment(ResourcesServer[None]):
    """Subclass it. `verify` is asked where a budget has ended the play, and by agents that play by themselves."""

    play_row: ClassVar[type[PlayRow]] = PlayRow

    async def play(self, row: Any, model: PlayAccess) -> PlayVerdict:
        """What the policy causes is a reward; raise `RolloutError` for what it cannot cause."""
        raise NotImplementedError(f"{type(self).__name__} has no play")

    async def verify(self, rollout: Any) -> Mapping[str, Any] | float:
        return judge_unplayed(rollout, f"{self.name} judges where it plays: its agent is play_agent")

    def routes(self) -> list[Route]:
        return [*super().routes(), Route(PLAY_PATH, self._on_play, "Play a row and judge it", self.play_row)]

    async def _on_play(self, call: Call) -> Answer:
        row = read_body(self.play_row, call.body)
        try:
            verdict = await self.play(row, row.play)
        except RolloutError:
            raise
        except Exception as error:
            what = f"play raised {type(error).__name__}: {error}"
            raise RolloutError("resources", what[:2000], server=self.name, retryable=False) from error
        reward = check_reward(verdict.reward, "play")
        return json_answer({**verdict.fields, "reward": reward})


def judge_unplayed(rollout: VerifyRequest, why_not: str) -> dict[str, Any]:
    """Of a play that a budget has ended: 0. Anything else cannot be judged afterwards."""
    cut = (rollout.response.model_extra or {}).get("truncated_by")
    if not cut:
        raise RolloutError("resources", why_not, retryable=False)
    return {"reward": 0.0, "reason": f"ended by {cut}, before it was judged"}
