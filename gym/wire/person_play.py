"""One row with a person as its policy: what is sent to the resources server next, and what its replies mean. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gym.errors import UserError
from gym.wire import items
from gym.wire.failures import RolloutError, reading
from gym.wire.observations import add_seeded, observation_items
from gym.wire.rows import DEFAULTS, PARAMS, fill_params

Json = dict[str, Any]
BY_A_PERSON: Final = "a person"
BEGINS_WITH_STEPS: Final = "/reset"  # answered by an environment of steps alone
NOT_ONE: Final = (404, 405)  # what every other answers there


class PersonCall(NamedTuple):
    """What a turn of the person comes to."""

    path: str
    body: Json
    is_tool: bool = False  # its reply is for the policy, whatever it is


class PersonPlay:
    """The caller sends the calls and gives the replies back; `verdict` is there once the row is over."""

    def __init__(self, row: Json) -> None:
        if not isinstance(row.get(PARAMS), dict):
            raise UserError(
                f"The row has no {PARAMS}: it is not a line of a data set.", f'{{"{PARAMS}": {{"input": "…"}}}}'
            )
        self.row = fill_params(row) if DEFAULTS in row else dict(row)
        if not isinstance(self.row[PARAMS].get("tools", []), list):  # a word, such as auto
            self.row[PARAMS] = {name: one for name, one in self.row[PARAMS].items() if name != "tools"}
        self.steps = False
        self.tools: list[Json] = []
        self.prompt: list[items.Item] = []
        self.output: list[items.Item] = []
        self.rewards: list[float] = []  # of single steps
        self.verdict: Json | None = None

    @reading("resources", "what the session began with")
    def begin(self, given: Mapping[str, Any], *, steps: bool) -> None:
        """`given`: what the session began with."""
        self.steps = steps
        params = add_seeded(self.row[PARAMS], given)
        if given and not steps:
            self.row = {**self.row, PARAMS: params}
        self.tools = [one for one in params.get("tools") or () if isinstance(one, dict)]
        self.prompt = [{"type": "message", **one} for one in items.input_items(params.get("input"))]

    @property
    def lacks_tools(self) -> bool:
        """The server's own list is asked for, unless the row has one or its session brought one."""
        return not self.tools and self.row[PARAMS].get("tools") != []

    @property
    def close_path(self) -> str:
        return "/close" if self.steps else "/close_session"

    def take_turn(self, turn: items.Item) -> PersonCall:
        self.output.append(turn)
        if self.steps:
            return PersonCall("/step", {**self.row, "response": items.response([turn], model=BY_A_PERSON)})
        if turn["type"] == "message":
            return self.ask_verdict()
        return PersonCall(f"/{turn['name']}", json.loads(turn["arguments"]), is_tool=True)

    def ask_verdict(self) -> PersonCall:
        return PersonCall("/verify", {**self.row, "response": items.response(self.output, model=BY_A_PERSON)})

    def take_output(self, text: str) -> list[items.Item]:
        """What the tool that was called last has answered."""
        new = [items.function_call_output(self.output[-1]["call_id"], text)]
        self.output.extend(new)
        return new

    def take_verdict(self, reply: Json) -> None:
        if not isinstance(reply.get("reward"), (int, float)):
            raise RolloutError("resources", "/verify answered without a reward")
        self.verdict = reply

    @reading("resources", "the reply of /step")
    def take_step(self, step: Mapping[str, Any]) -> list[items.Item]:
        """The rewards of the steps add up."""
        self.rewards.append(float(step.get("reward") or 0.0))
        info = dict(step.get("info") or {})
        answers = [items.function_call_output(one["call_id"], one["output"]) for one in info.get("tool_outputs") or ()]
        new = [*answers, *observation_items(step.get("observation"))]
        self.output.extend(new)
        if step.get("terminated") or step.get("truncated"):
            self.verdict = {"reward": sum(self.rewards), "reason": info.get("reason", "")}
        return new


def make_call(name: str, arguments: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> items.Item:
    """A call of one of the tools that are offered, as a model would write it."""
    find_tool(name, tools)
    return items.function_call(name, json.dumps(arguments, ensure_ascii=False))


def find_tool(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    known = {str(one.get("name")): one for one in tools}
    if name not in known:
        raise UserError(f"There is no tool {name!r}.", f"There are: {', '.join(known) or 'none'}.")
    return known[name]
