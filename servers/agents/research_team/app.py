"""A lead whose tools are other agents: splits a question, hands out the parts, answers from what comes back."""

from collections.abc import Mapping
from typing import Any

from gym.errors import UserError
from gym.server import Agent, AgentConfig, RolloutClient
from gym.wire import items

BRIEF = (
    "You lead a small team. Split the task, give each part to the colleague who fits (each is a tool; it knows nothing "
    "but what you write), compare what they answer, and give the final answer yourself, in the form the task asks for."
)


class ResearchTeamConfig(AgentConfig):
    brief: str = BRIEF  # the lead reads it before the row's own messages; "" leaves the row as it is


class ResearchTeam(Agent):
    config: ResearchTeamConfig

    async def start(self) -> None:
        if not self.config.agents:
            raise UserError(
                f"{self.name}: a team of one", "name its colleagues: agents: {ask_x: {type: ..., name: ...}}"
            )

    async def respond(self, params: Mapping[str, Any], rollout: RolloutClient) -> dict[str, Any]:
        asked = items.input_items(params.get("input"))
        if self.config.brief:
            asked = [{"type": "message", "role": "developer", "content": self.config.brief}, *asked]
        return await super().respond({**params, "input": asked}, rollout)


app = ResearchTeam.app()
