"""The policy talks with a user who is a model too: a persona, a goal, and a rule for when the talk is over."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym.errors import UserError
from gym.server import Agent, AgentConfig, Reference, RolloutClient
from gym.server.agent import RunRow
from gym.server.budget import Budget
from gym.server.errors import validation_message
from gym.wire import items
from gym.wire.failures import RolloutError

PROMPT = """You play a user who talks with an assistant. Stay in your role; never speak as the assistant.

Who you are: {persona}
What you want: {goal}

Write the user's next message and nothing else, as such a person would type it. Tell what you know when you are asked
for it, not all of it at once. When you have what you want, or it is clear that you will not get it, write {stop}
alone."""

BEGIN = "(The talk begins. Write your first message.)"


class User(BaseModel):
    """A row's `user`: who the simulated one is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    persona: str = "An ordinary person."
    goal: str
    opening: str | None = None  # the first message; without one the user model writes it
    max_turns: int | None = Field(default=None, ge=1)
    end_after_tool: str | None = None  # the talk is over once the policy has called it


class UserSimConfig(AgentConfig):
    user_model_server: Reference
    user_prompt: str = PROMPT
    user_params: dict[str, Any] = Field(default_factory=dict)  # temperature and the like, for the user model alone
    stop_token: str = Field(default="###STOP###", min_length=1)
    max_turns: int = Field(default=10, ge=1)  # messages of the user; a row's own may only be lower


class Talk:
    """What was said, from the policy's side, and what the user's side cost."""

    def __init__(self, asked: list[items.Item]) -> None:
        self.asked = asked
        self.output: list[items.Item] = []
        self.usage: dict[str, Any] | None = None
        self.user_usage: dict[str, Any] | None = None
        self.user_turns = 0
        self.last: dict[str, Any] = {}

    @property
    def said(self) -> list[items.Item]:
        return self.asked + self.output

    def add_user(self, text: str) -> None:
        self.user_turns += 1
        self.output.append({"type": "message", "role": "user", "content": text})

    def add_policy(self, response: dict[str, Any]) -> None:
        self.output.extend(response["output"])
        self.usage = items.add_usage(self.usage, response.get("usage"))
        self.last = response

    def from_the_other_side(self) -> list[items.Item]:
        """As the user model sees it: its own messages are the assistant's; tools and instructions stay out."""
        turned = []
        for item in self.said:
            text = items.item_text(item).strip()
            if text and items.is_message(item):
                turned.append({"type": "message", "role": "user", "content": text})
            elif text and items.is_message(item, "user"):
                turned.append({"type": "message", "role": "assistant", "content": text})
        return turned or [{"type": "message", "role": "user", "content": BEGIN}]


class UserSimAgent(Agent):
    config: UserSimConfig

    async def start(self) -> None:
        try:
            self._prompt(User(goal=""))
        except (KeyError, IndexError, ValueError) as error:
            message = f"{self.name}: user_prompt cannot be filled: {type(error).__name__}: {error}"
            raise UserError(message, "it may name {persona}, {goal} and {stop}; write other braces twice") from None

    async def respond_to(self, row: RunRow, rollout: RolloutClient) -> dict[str, Any]:
        """Turn by turn, until the user has enough or a budget is spent. All that was said is in `output`."""
        user = read_user(row.fields.get("user"))
        talk, budget = Talk(items.input_items(row.params.get("input"))), Budget(self.config)
        rollout.budget = budget
        if not any(items.is_message(item, "user") for item in talk.asked):
            said = user.opening or await self._user_says(talk, user, rollout)
            talk.add_user(said.partition(self.config.stop_token)[0].strip() or user.goal)
        ended_by = ""
        while not ended_by:
            reply = await self.respond({**row.params, "input": talk.said}, rollout)
            talk.add_policy(reply)
            budget.tokens_before = float((talk.usage or {}).get("total_tokens") or 0)
            budget.spend(calls=0, tokens=0, idle=False)  # what the policy said is a step of the whole talk
            ended_by = self._ended_by(talk, user, reply, budget) or await self._next_message(talk, user, rollout)
        simulation = {"turns": talk.user_turns, "ended_by": ended_by, "user_usage": talk.user_usage}
        return {**talk.last, "output": talk.output, "usage": talk.usage, "user_simulation": simulation}

    def _ended_by(self, talk: Talk, user: User, reply: Mapping[str, Any], budget: Budget) -> str:
        called = {one.get("name") for one in items.function_calls(reply["output"])}
        if user.end_after_tool in called:
            return "tool"
        if reply.get("incomplete_details"):
            return "incomplete"
        if budget.spent:
            return str(budget.spent)
        turns = min(self.config.max_turns, user.max_turns or self.config.max_turns)
        return "max_turns" if talk.user_turns >= turns else ""

    async def _next_message(self, talk: Talk, user: User, rollout: RolloutClient) -> str:
        """Adds what the user says; "user" when that is that the talk is over."""
        text = await self._user_says(talk, user, rollout)
        said, stop, _ = text.partition(self.config.stop_token)
        if stop or not text.strip():
            if said.strip():
                talk.add_user(said.strip())
            return "user"
        talk.add_user(text)
        return ""

    async def _user_says(self, talk: Talk, user: User, rollout: RolloutClient) -> str:
        asked = {**self.config.user_params, "instructions": self._prompt(user), "input": talk.from_the_other_side()}
        reply = await rollout.ask_model(asked, self.config.user_model_server.name)
        talk.user_usage = items.add_usage(talk.user_usage, reply.get("usage"))
        return items.last_assistant_text(reply["output"]).strip()

    def _prompt(self, user: User) -> str:
        return self.config.user_prompt.format(persona=user.persona, goal=user.goal, stop=self.config.stop_token)


def read_user(given: Any) -> User:
    try:
        return User.model_validate(given)
    except ValidationError as error:
        raise RolloutError("row", f"user: {validation_message(error)}; it says who talks: persona, goal") from None


app = UserSimAgent.app()
