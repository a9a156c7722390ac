"""Works on a repository with a shell that stays, jobs, view, edit and submit. `swe` runs and judges."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import Field

from gym.server import Agent, AgentConfig
from gym.server.agent import RunRow
from gym.server.budget import Budget
from gym.server.rollout_client import RolloutClient
from gym.wire import items
from gym.wire.splice import WrittenList

SUBMIT: Final = "submit"
TOOLS: Final = ("bash", "view", "edit", "start_job", "read_job")  # of tools.json, as the environment describes them
SUBMIT_TOOL: Final = {
    "type": "function",
    "name": SUBMIT,
    "description": "Hand in the repository as it is now. Nothing can be done after it.",
    "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    "strict": True,
}
SYSTEM: Final = """\
You are a software engineer at work in a repository. Look around, reproduce the problem, change the source, and run
the tests. Commands run in one shell that stays: its directory and variables are kept. What has to go on while you
work, such as a server, is a job (`start_job`, `read_job`). Use `edit` to change files and `submit` when you are done.
There is no network, and no one to ask."""
NUDGE: Final = "Go on by calling a tool, or call `submit` when the issue is resolved."


class SweToolsConfig(AgentConfig):
    """Budgets as every agent has them, and these."""

    max_steps: int | None = Field(default=100, ge=1)
    max_nudges: int = Field(default=3, ge=0)  # answers without a call that are followed by a reminder
    max_output: int = Field(default=16_000, ge=200)  # characters of a tool's output that the model is shown
    system_prompt: str = SYSTEM


class SweTools(Agent):
    config: SweToolsConfig

    async def start(self) -> None:
        self.tools: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "tools.json").read_bytes())

    async def respond_to(self, row: RunRow, rollout: RolloutClient) -> dict[str, Any]:
        return await self.respond(self._asked(row), rollout)

    async def respond(
        self, params: Mapping[str, Any], rollout: RolloutClient, budget: Budget | None = None
    ) -> dict[str, Any]:
        """Until the model submits, keeps talking, or a budget is spent."""
        budget = budget or Budget(self.config)
        asked, output, said = items.input_items(params.get("input")), list[items.Item](), WrittenList()
        usage: dict[str, Any] | None = None
        nudges, submitted = 0, False
        while True:
            reply = await rollout.ask_model(params, said=said.up_to(asked + output))
            new = reply["output"]
            output.extend(new)
            usage = items.add_usage(usage, reply.get("usage"))
            calls = items.function_calls(new)
            for call in calls[: budget.calls_left]:
                submitted = submitted or call.get("name") == SUBMIT
                output.append(await self.call_tool(call, rollout))
            spent = budget.spend(calls=len(calls), tokens=(usage or {}).get("total_tokens"), idle=not calls)
            if (
                submitted
                or spent
                or reply.get("incomplete_details")
                or (not calls and nudges >= self.config.max_nudges)
            ):
                break
            if not calls:
                nudges += 1
                output.append(items.message(NUDGE, role="user"))
        response = {**reply, "output": output, "usage": usage, "submitted": submitted}
        return {**response, "truncated_by": budget.spent} if budget.spent and not submitted else response

    async def call_tool(self, call: items.Item, rollout: RolloutClient) -> items.Item:
        if call.get("name") == SUBMIT:
            return items.function_call_output(str(call.get("call_id") or call.get("id") or ""), "Handed in.")
        item = await super().call_tool(call, rollout)
        return {**item, "output": shorten(plain(str(item.get("output", ""))), self.config.max_output)}

    def _asked(self, row: RunRow) -> dict[str, Any]:
        """The row's own parameters; a row that only states the problem becomes a question."""
        params = dict(row.params)
        given = items.input_items(params.get("input"))
        if not given:
            given = [items.message(str(row.fields.get("problem_statement") or ""), role="user")]
        if not any(item.get("role") in ("system", "developer") for item in given) and not params.get("instructions"):
            given = [items.message(self.config.system_prompt, role="system"), *given]
        own = [one for one in params.get("tools") or () if one.get("name") not in (*TOOLS, SUBMIT)]
        return {**params, "input": given, "tools": [*self.tools, *own, SUBMIT_TOOL]}


def plain(text: str) -> str:
    """A tool that answers with a text says it in JSON; the model reads the text."""
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return parsed if isinstance(parsed, str) else text


def shorten(text: str, max_length: int) -> str:
    if len(text) <= max_length:
        return text
    half = max_length // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[-half:]}"


app = SweTools.app()
